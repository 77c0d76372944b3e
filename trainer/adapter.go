package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"restyle/hf"
	"restyle/infer"
	"restyle/lora"
	"restyle/model"
	"restyle/tensor"
)

// A loraFlag is Config.LoRA as a flag.Value: what lora.Parse reads.
type loraFlag struct{ spec *lora.Spec }

func (f loraFlag) pointer() any { return f.spec }

// String returns the text that Set reads.
func (f loraFlag) String() string {
	if f.spec == nil || f.spec.Rank == 0 {
		return ""
	}
	return f.spec.String()
}

// Set reads what lora.Parse reads.
func (f loraFlag) Set(text string) (err error) {
	*f.spec, err = lora.Parse(text)
	return err
}

// notQuantized is the value of Config.QuantizeBase for weights as they are stored.
const notQuantized = "none"

// Codings maps the other values of Config.QuantizeBase to the types that they mean.
var Codings = map[string]tensor.DType{"int8": tensor.INT8, "int4": tensor.INT4Z, "nf4": tensor.NF4}

func (c Config) quantizes() bool { return c.QuantizeBase != notQuantized && c.QuantizeBase != "" }

// spec returns the adapters with all modules that are trained whole.
func (c Config) spec() lora.Spec {
	s := c.LoRA
	s.Also = slices.Clone(s.Also)
	for _, module := range c.LoRAAlso {
		if !slices.Contains(s.Also, module) {
			s.Also = append(s.Also, module)
		}
	}
	return s
}

// Adapts reports whether c trains adapters.
func (c Config) Adapts() bool { return c.LoRA.Rank > 0 }

// adapter returns model.Options.Adapter: nil without adapters. A module that is trained whole, or that Freeze names,
// has none.
func (c Config) adapter() func(module string) (rank int, scale float64, ok bool) {
	if !c.Adapts() {
		return nil
	}
	return func(module string) (rank int, scale float64, ok bool) {
		if weight := module + ".weight"; c.Frozen(weight) || c.Trainable(weight) {
			return 0, 0, false
		}
		return c.LoRA.Of(module)
	}
}

// checkLoRA returns an error for settings that do not work with adapters, or do not work without them.
func (c Config) checkLoRA() error {
	switch {
	case !c.Adapts() && c.LoRA.String() != (lora.Spec{}).String():
		return fmt.Errorf("lora %s: r must be at least 1", c.LoRA)
	case !c.Adapts() && c.quantizes():
		return fmt.Errorf("quantize-base: quantized weights have no gradients: set lora, which trains adapters beside them")
	case !c.Adapts() && len(c.LoRAAlso) > 0:
		return fmt.Errorf("lora-also %s: needs lora", strings.Join(c.LoRAAlso, ","))
	case c.Adapts() && c.BNB:
		return fmt.Errorf("bnb: adapters keep the optimizer's state in 32 bits: leave bnb or lora out")
	}
	return nil
}

// CheckLoRA returns an error if a model cannot have the adapters of c. Like the error of Check, it begins with the
// field's name.
func (c Config) CheckLoRA(m model.Config, base model.Quantization) error {
	if !c.Adapts() {
		return nil
	}
	if !base.None() && c.quantizes() {
		return errors.New("quantize-base: the model is quantized already: leave it out")
	}
	o := model.Options{DType: c.DType, Train: true, Adapter: c.adapter(), Trainable: c.Trainable,
		Quantization: c.quantization(base)}
	if err := model.CheckOptions(m, o); err != nil {
		return fmt.Errorf("lora %s: %w", c.LoRA, err)
	}
	params := model.ParamsOf(m, o)
	if err := c.checkNames(m, params); err != nil {
		return err
	}
	_, err := c.saved(params)
	return err
}

// CheckIdle returns an error for a part of LoRA that matches no module of a model, such as a layer that it does not
// have. An adapter that another program has made may have such parts. Like the error of Check, it begins with the
// field's name.
func (c Config) CheckIdle(m model.Config) error {
	modules := []string{"lm_head"} // even if it is the embedding
	for _, p := range m.Params() {
		if module, ok := strings.CutSuffix(p.Name, ".weight"); ok && len(p.W.Shape) == 2 {
			modules = append(modules, module)
		}
	}
	if idle := c.LoRA.Idle(modules); idle != "" {
		return fmt.Errorf("lora: %s means none of the model's linear layers: their names are like %s", idle,
			modules[len(modules)/2])
	}
	return nil
}

// CheckAdapter returns an error if a run with c, whose LoRA is the Spec of an adapter, leaves out one of its low-rank
// parts; a module that it has whole may be frozen. Like the error of Check, it begins with the field's name.
func (c Config) CheckAdapter(a *hf.Adapter) error {
	of := c.adapter()
	for _, name := range a.Names() {
		module, ok := strings.CutSuffix(name, ".lora_A.weight")
		if !ok {
			continue
		}
		if _, _, ok := of(module); !ok {
			return fmt.Errorf("freeze, train-only, lora-also: they leave out %s, of which %s has an adapter: "+
				"leave that pattern out, or merge the adapter and train a new one", module, a.Name)
		}
	}
	return nil
}

// checkNames returns an error for a target, or a module to be trained whole, that the model does not have.
func (c Config) checkNames(m model.Config, params []model.Param) error {
	if also := (lora.Spec{Also: c.spec().Also}); m.Tied && also.Whole(head) {
		return fmt.Errorf("lora-also: the model's head is its embedding: name embed_tokens, which trains both")
	}
	for _, name := range slices.Concat(c.LoRA.Targets.Names, c.spec().Also) {
		of := lora.Spec{Also: []string{name}}
		if !slices.ContainsFunc(params, func(p model.Param) bool { return of.Whole(p.Name) }) {
			return fmt.Errorf("lora, lora-also: the model has no module %q: names are like %s", name,
				strings.TrimSuffix(params[len(params)/2].Name, ".weight"))
		}
	}
	return nil
}

// quantization returns how the base's weights are held: as they are stored, or as QuantizeBase says.
func (c Config) quantization(base model.Quantization) model.Quantization {
	switch {
	case !c.Adapts(): // values that are stored quantized are dequantized
		return model.Quantization{}
	case c.quantizes():
		base.Layers = Codings[c.QuantizeBase]
	}
	return base
}

// saved returns the adapter that a run saves: LoRA and, in its Also, every other module that is trained. PEFT has no
// name for a part of a module.
func (c Config) saved(params []model.Param) (lora.Spec, error) {
	spec := c.spec()
	parts := map[string][]bool{} // of each module: which of its parameters are trained
	var modules []string
	for _, p := range params {
		if p.Adapter {
			continue
		}
		module := p.Name[:strings.LastIndexByte(p.Name, '.')]
		if parts[module] == nil {
			modules = append(modules, module)
		}
		parts[module] = append(parts[module], p.Trainable())
	}
	for _, module := range modules {
		if !slices.Contains(parts[module], true) || spec.Whole(module+".weight") {
			continue
		}
		if slices.Contains(parts[module], false) {
			return spec, fmt.Errorf("train-only, freeze: with lora, a module is trained whole or not at all, and they name "+
				"only a part of %s", module)
		}
		spec.Also = append(spec.Also, module)
	}
	return spec, nil
}

// weights returns the parameters of a model that checkpoints have: all of them or, with adapters, the trained ones.
func (c Config) weights(params []model.Param) []model.Param {
	if !c.Adapts() {
		return params
	}
	return slices.DeleteFunc(slices.Clone(params), func(p model.Param) bool { return !p.Trainable() })
}

// head is the name of the head's weight.
const head = "lm_head.weight"

// withHead adds the head, under its own name, to the weights that an adapter has, if the head is the embedding and the
// embedding is trained: PEFT replaces modules one by one, and would keep the old head.
func withHead(c model.Config, spec lora.Spec, params []model.Param) (lora.Spec, []model.Param) {
	embedding := c.Params()[0].Name
	if !c.Tied || !spec.Whole(embedding) {
		return spec, params
	}
	for _, p := range params {
		if p.Name == embedding {
			p.Name = head
			spec.Also = append(slices.Clone(spec.Also), strings.TrimSuffix(head, ".weight"))
			return spec, append(slices.Clone(params), p)
		}
	}
	return spec, params
}

// baseParams returns the parameters of a model that the base's files have. If an adapter has given the head weights of
// its own, see [hf.Adapter.Config], they start as the embedding.
func baseParams(base *hf.Checkpoint, params []model.Param) (list []model.Param) {
	for _, p := range params {
		if _, stored := base.Tensor(p.Name); p.Name == head && !stored {
			p.Name = base.Config.Params()[0].Name
		}
		if !p.Adapter {
			list = append(list, p)
		}
	}
	return list
}

// saveAdapter writes the adapter with its current weights as PEFT does, with the base's tokenizer and template.
func (r *Run) saveAdapter(dir string, card []byte) error {
	c, params := r.Plan.Config, r.Model.Params()
	spec, err := c.saved(params)
	if err != nil {
		return err
	}
	spec, params = withHead(r.Model.Config(), spec, params)
	record := infer.AdapterRecord{Base: r.BaseName, Digest: r.Identity["model"]}
	if c.quantizes() {
		record.QuantizedBase = Codings[c.QuantizeBase].String()
	}
	text, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	return hf.SaveAdapter(dir, spec, r.Model.Device(), params, hf.AdapterOptions{BaseModel: r.BaseName,
		Record: append(text, '\n'), From: r.Base, Card: card})
}

// loadAdapter reads the weights that saveAdapter has written.
func (r *Run) loadAdapter(ctx context.Context, dir string) error {
	a, err := hf.OpenAdapter(dir)
	if err != nil {
		return err
	}
	defer a.Close()
	_, params := withHead(r.Model.Config(), a.Spec, r.Model.Params())
	return a.Load(ctx, r.Model.Device(), params)
}
