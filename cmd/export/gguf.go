package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"restyle/gguf"
	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
	"restyle/tokenizer"
)

// alone is the value of --gguf for an adapter by itself.
const alone = "lora"

// The endings of a file's name before it is checked, and if it is not the model.
const unchecked, failed = ".unchecked.gguf", ".failed.gguf"

// beside returns the name of a GGUF file with another ending.
func beside(path, end string) string { return strings.TrimSuffix(path, filepath.Ext(path)) + end }

// checkGGUF reports invalid arguments with --gguf.
func (o options) checkGGUF(paths []string, given func(flag string) bool) error {
	adapter := o.adapter != ""
	for _, flag := range []string{"weights", "quality"} {
		if given(flag) {
			return cli.Usagef("--%s is for --weights, and --gguf writes another kind of file: leave one out", flag)
		}
	}
	_, unknown := gguf.ParseMix(o.gguf)
	there := ""
	for _, end := range []string{filepath.Ext(paths[1]), modelfileEnd, unchecked, failed} {
		path := beside(paths[1], end)
		if _, err := os.Lstat(path); err == nil {
			there = path
		}
	}
	switch {
	case o.gguf == alone && !adapter:
		return cli.Usagef("--gguf lora is for adapters, and %s has no adapter_config.json: name a type of weights", paths[0])
	case o.gguf != alone && unknown != nil:
		return cli.Usagef("--gguf: %w, or lora", unknown)
	case !hf.IsGGUF(paths[1]):
		return cli.Usagef("%s is no name of a GGUF file: end it in .gguf", paths[1])
	case there != "":
		return cli.Usagef("%s is there already, and export would write it: name another file, or remove it", there)
	case o.gguf == alone && given("check"):
		return cli.Usagef("--check is for whole models, and --gguf lora writes the adapter alone: leave it out")
	case (o.base != "" || o.onto != "") && !adapter:
		return cli.Usagef("--base and --onto are for adapters, and %s has no adapter_config.json: leave them out", paths[0])
	case o.rounding == "gptq" && !o.calibrates():
		return cli.Usagef("--rounding gptq is for --gguf q4_0, and the blocks of %s are rounded to nearest: leave one out",
			o.gguf)
	case o.calibrates() && adapter:
		return cli.Usagef("--rounding gptq calibrates a model, and %s is an adapter: merge it first, by %s %s MERGED",
			paths[0], cli.Command("export"), cli.ShellQuote(paths[0]))
	case o.base != "" && o.onto != "":
		return cli.Usagef("--base says where the adapter's own base is, and --onto takes another: leave one out")
	}
	return o.checkRounding(given)
}

// writeGGUF writes a model, an adapter merged into its base, or only an adapter.
func (o options) writeGGUF(ctx context.Context, in, out string, stdout io.Writer, status *cli.StatusLine) error {
	if err := probe(filepath.Dir(out)); err != nil {
		return err
	}
	made := missing(filepath.Dir(out))
	defer func() { removeEmpty(made) }()
	if err := disk.MakeDir(filepath.Dir(out), 0o777); err != nil {
		return err
	}
	var a *hf.Adapter
	var c *hf.Checkpoint
	var err error
	if o.adapter != "" {
		if a, err = o.openAdapter(in); err != nil {
			return err
		}
		defer a.Close()
		c, err = o.openBase(ctx, a, status)
	} else {
		c, err = open(ctx, in, status)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	if o.gguf == alone {
		if err := hf.SaveGGUFAdapter(out, a, c.Config); err != nil {
			return err
		}
		base, how := c.Name, ""
		if !hf.IsGGUF(base) {
			base = "BASE.gguf"
			how = fmt.Sprintf(", where BASE.gguf is the adapter's base, by %s %s BASE.gguf --gguf q8_0", cli.Command("export"),
				cli.ShellQuote(c.Name))
		}
		_, err := fmt.Fprintf(stdout, "%s: %s\nuse it: llama-server -m %s --lora %s%s\n", out, size(out),
			cli.ShellQuote(base), cli.ShellQuote(out), how)
		return err
	}
	return o.modelGGUF(ctx, c, a, out, stdout, status)
}

// modelGGUF writes a model, or a base with an adapter, and checks it.
func (o options) modelGGUF(ctx context.Context, c *hf.Checkpoint, a *hf.Adapter, out string, stdout io.Writer,
	status *cli.StatusLine) error {
	mix, err := gguf.ParseMix(o.gguf)
	if err != nil {
		return err
	}
	d, err := kernels.Open("cpu", kernels.Options{Threads: o.threads, Fused: kernels.All()})
	if err != nil {
		return err
	}
	defer d.Close()
	m := hf.Merge{Base: c, DType: tensor.F32, Threads: o.threads}
	shown := c
	if a != nil {
		if m.Changes = a.Changes(); o.onto == "" {
			if m.Layers, err = trainedOn(a); err != nil {
				return err
			}
		}
		if shown, err = a.On(c); err != nil {
			return err
		}
	}
	if err := o.checkable(shown); err != nil {
		return err
	}
	tensors, err := m.Tensors(ctx)
	if err != nil {
		return err
	}
	show := &cli.Progress{Line: status}
	pending := beside(out, unchecked)
	codec, unread := infer.CodecOf(shown, "") // Ends has the end of the template's turns
	notes, err := o.saveGGUF(ctx, d, shown, tensors, pending, hf.GGUFOptions{Mix: mix, Name: nameOf(out), Ends: codec.Ends,
		Done: func(name string, done, total int) { show.Draw("writing", name, float64(done)/float64(total)) }}, show)
	if err != nil {
		return err
	}
	status.Clear()
	if unread != nil && shown.Tokenizer.ChatTemplate != "" {
		notes = append(notes, fmt.Sprintf("the chat template is in the file as it is, but restyle cannot use it, and has "+
			"not checked what it makes of messages and which tokens end its answers: %v", unread))
	}
	for _, n := range notes {
		fmt.Fprintf(stdout, "note: %s\n", n)
	}
	if o.checked {
		if err := o.checkFile(ctx, d, shown, tensors, pending, mix, stdout, show); err != nil {
			return err
		}
	}
	_, there := os.Lstat(out) // another run may have made it
	if there == nil {
		return fmt.Errorf("%s is there by now: the new file is kept as %s", out, pending)
	}
	if err := disk.Rename(pending, out); err != nil {
		return fmt.Errorf("the file is complete as %s, but could not get its name: %w", pending, err)
	}
	if err := disk.SyncDir(filepath.Dir(out)); err != nil {
		return err
	}
	made, err := writeModelfile(out, shown)
	if err != nil {
		return err
	}
	sum, err := sha256Of(out)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s: %s, sha256 %s\n%s", out, size(out), sum, uses(out, made))
	return err
}

// checkable returns an error, before the file is written, if it could not be compared with a model's tokenizer.
func (o options) checkable(c *hf.Checkpoint) error {
	_, err := tokenizer.Read(c.ReadFile)
	if !o.checked || err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("the tokenizer of %s cannot be read, to compare the file with: %w: --check=false writes it without "+
		"comparing", c.Name, err)
}

// sha256Of returns the hash of a GGUF file.
func sha256Of(path string) (string, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var line strings.Builder
	err = f.WriteSums(&line)
	sum, _, _ := strings.Cut(line.String(), " ")
	return sum, err
}

// saveGGUF writes a file of a model whose weights are tensors. With GPTQ, they are the weights of its checkpoint.
func (o options) saveGGUF(ctx context.Context, d *kernels.Device, c *hf.Checkpoint, tensors []hf.TensorData,
	path string, as hf.GGUFOptions, show *cli.Progress) (notes []string, err error) {
	if o.calibrates() {
		after, err := o.calibrated(ctx, d, c, tensors, path, as, show)
		if err != nil {
			return nil, err
		}
		defer after.Close()
		tensors = withRows(tensors, after)
	}
	return hf.SaveGGUF(path, c, tensors, as)
}

// calibrated returns a model whose matrices in layers are Q4_0 by GPTQ, as far as the file is to have that type.
func (o options) calibrated(ctx context.Context, d *kernels.Device, c *hf.Checkpoint, tensors []hf.TensorData,
	path string, as hf.GGUFOptions, show *cli.Progress) (*model.Model, error) {
	if err := checkOriginal(c); err != nil {
		return nil, err
	}
	types, err := hf.GGUFTypes(path, c, tensors, as)
	if err != nil {
		return nil, err
	}
	q := model.Quantization{Layers: tensor.Q4_0, Weights: map[string]tensor.DType{}}
	for _, p := range model.ParamsOf(c.Config, model.Options{Quantization: q}) {
		if p.W.DType.Quantized() && types[p.Name] != gguf.Q4_0 {
			q.Weights[p.Name] = 0
		}
	}
	t, err := o.texts(ctx, c, nil)
	if err != nil {
		return nil, err
	}
	before, err := openOriginal(ctx, d, c)
	if err != nil {
		return nil, err
	}
	defer before.Close()
	after, err := nearest(ctx, d, c, q, show)
	if err != nil {
		return nil, err
	}
	if err := calibrate(ctx, before, after, t.calibration, show); err != nil {
		return nil, errors.Join(err, after.Close())
	}
	return after, nil
}

// withRows returns tensors, with the quantized matrices replaced by the model's.
func withRows(tensors []hf.TensorData, m *model.Model) (list []hf.TensorData) {
	by := map[string]tensor.Tensor{}
	for _, p := range m.Params() {
		by[p.Name] = p.W
	}
	for _, t := range tensors {
		if w := by[t.Name]; w.DType.Quantized() {
			t.DType = w.DType
			t.Write = func(to io.Writer) error {
				return m.Device().Read(w, func(raw []byte) error {
					_, err := to.Write(raw)
					return err
				})
			}
		}
		list = append(list, t)
	}
	return list
}

// trainedOn returns the type that an adapter's base had in training, for hf.Merge.
func trainedOn(a *hf.Adapter) (string, error) {
	record, err := infer.RecordOf(a)
	return record.QuantizedBase, err
}

// nameOf returns the name of a model in its file.
func nameOf(path string) string { return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) }

// size returns the size of a file in words.
func size(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	return kernels.Bytes(int(info.Size()))
}
