package hf

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// IsModel reports whether a directory has a model in the Hugging Face layout: its configuration and its safetensors.
// There may be an adapter as well.
func IsModel(dir string) bool {
	has := filesIn(dir)
	return has("config.json") && (has(singleName) || has(indexName))
}

// IsAdapter reports whether a directory has an adapter. There may be a model as well, such as its base. An
// adapter_config.json that was left with a model, but without the adapter's weights, does not count.
func IsAdapter(dir string) bool {
	has := filesIn(dir)
	return has(adapterConfigName) && (has(adapterWeightsName) || has(adapterMLXName) || !has("config.json"))
}

// filesIn returns a function that reports whether a directory has a file.
func filesIn(dir string) func(name string) bool {
	return func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
}

// On returns the adapter's base with the tokenizer, chat template and generation_config.json of the adapter's
// directory, as far as these are there; Save saves them. Its weights are base's own: close one of the two.
func (a *Adapter) On(base *Checkpoint) (*Checkpoint, error) {
	own := func(file string) bool {
		_, err := a.files.readText(file)
		return !errors.Is(err, fs.ErrNotExist)
	}
	hidden := map[string]bool{} // files of the base that belong to things that the adapter has itself
	if own("tokenizer.json") {
		for _, file := range []string{"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
			"tokenizer.model", "vocab.json", "merges.txt"} {
			hidden[file] = true
		}
	}
	settings, _ := a.files.readText("tokenizer_config.json") // newCheckpoint reports its errors
	more := a.files.moreTemplates()
	var templates any // the ones in the base's settings, if the adapter has none
	template := own("chat_template.jinja") || len(more) > 0 || parseObject(settings).has("chat_template")
	if template {
		hidden["chat_template.jinja"] = true
	} else {
		more = base.more
		others, _ := base.read("tokenizer_config.json")
		if raw := parseObject(others).keys["chat_template"]; raw != nil {
			templates = raw
		}
	}
	c, err := newCheckpoint(a.Name, func(file string) ([]byte, error) {
		if file == "config.json" {
			return base.ConfigJSON, nil
		}
		data, err := a.files.readText(file)
		absent := errors.Is(err, fs.ErrNotExist)
		switch {
		case absent && !hidden[file]:
			return base.read(file)
		case file == "tokenizer_config.json" && templates != nil && (absent || err == nil):
			if absent {
				data = []byte("{}")
			}
			return edited(file, data, map[string]any{"chat_template": templates})
		}
		return data, err
	}, more)
	if err != nil {
		return nil, err
	}
	if !template {
		c.Tokenizer.ChatTemplate, c.Tokenizer.ChatTemplates = base.Tokenizer.ChatTemplate, base.Tokenizer.ChatTemplates
		c.TemplateError = base.TemplateError
	}
	for _, note := range base.Notes {
		if !slices.Contains(c.Notes, note) {
			c.Notes = append(c.Notes, note)
		}
	}
	c.Name, c.Revision, c.Embedded = base.Name, base.Revision, base.Embedded
	c.label, c.weights, c.packed, c.Quantization = base.label, base.weights, base.packed, base.Quantization
	return c, nil
}

// Of returns the rank and the scale of a module's adapter, for model.Options.Adapter. Modules that the configuration
// names and the file lacks have none: PEFT starts them with the change 0.
func (a *Adapter) Of(module string) (rank int, scale float64, ok bool) {
	if _, has := a.file.Tensor(module + endA); !has {
		return 0, 0, false
	}
	return a.Spec.Of(module)
}

// Config returns the configuration of a base with the adapter. If the base's head is its embedding and the adapter
// changes one of them, each gets weights of its own, as in PEFT.
func (a *Adapter) Config(base model.Config) model.Config {
	for _, name := range a.Names() {
		module, ok := moduleOf(name)
		if !ok {
			module = strings.TrimSuffix(name, ".weight")
		}
		if module+".weight" == head || module+".weight" == base.Params()[0].Name {
			base.Tied = false
		}
	}
	return base
}

// LoadOn loads a base's weights and the adapter into a model of the adapter's Config: into the parameters of its
// adapters if it was made with these (see Of), and otherwise into its weights, W + s·B·A, summed in float32 and
// rounded once. Modules that were trained whole replace the base's. progress is as for [Checkpoint.Load]. It is an
// error if the adapter belongs to another model.
func (a *Adapter) LoadOn(ctx context.Context, base *Checkpoint, m *model.Model,
	progress func(done, total int64)) error {
	var of []model.Param
	beside := false
	for _, p := range m.Params() {
		if p.Adapter {
			beside = true
			continue
		}
		if p.Name == head && base.Config.Tied {
			p.Name = base.Config.Params()[0].Name
		}
		of = append(of, p)
	}
	if err := base.Load(ctx, m.Device(), of, progress); err != nil {
		return err
	}
	if beside {
		return a.Load(ctx, m.Device(), m.Params())
	}
	return a.merge(ctx, m)
}

// merge adds the adapter to the weights of a model.
func (a *Adapter) merge(ctx context.Context, m *model.Model) (err error) {
	d := m.Device()
	factors := func(arena *kernels.Arena) (list []model.Param) {
		for _, p := range model.ParamsOf(m.Config(), model.Options{DType: tensor.F32, Adapter: a.Of}) {
			if p.Adapter {
				p.W = arena.New(p.Name, tensor.F32, p.W.Shape...)
				list = append(list, p)
			}
		}
		return list
	}
	arena, err := d.NewArena("the adapter", kernels.SizeOf(func(arena *kernels.Arena) { factors(arena) }))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, arena.Close()) }()
	all := append(slices.Clone(m.Params()), factors(arena)...)
	if err := a.Load(ctx, d, all); err != nil {
		return err
	}
	matrices := map[string]tensor.Tensor{}
	for _, p := range all {
		matrices[p.Name] = p.W
	}
	for _, p := range all {
		if module, ok := strings.CutSuffix(p.Name, endB); ok {
			_, scale, _ := a.Of(module)
			d.AddPair(matrices[module+".weight"], p.W, matrices[module+endA], float32(scale))
		}
	}
	return d.Err()
}
