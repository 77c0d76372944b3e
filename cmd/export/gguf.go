package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"restyle/gguf"
	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/kernels"
	"restyle/tensor"
)

// alone is the value of --gguf for an adapter by itself.
const alone = "lora"

// checkGGUF reports invalid arguments with --gguf.
func (o options) checkGGUF(paths []string, given func(flag string) bool) error {
	adapter := hf.IsAdapter(paths[0])
	for _, flag := range []string{"weights", "rounding", "text", "quality"} {
		if given(flag) {
			return cli.Usagef("--%s is for --weights, and --gguf writes another kind of file: leave one out", flag)
		}
	}
	_, unknown := gguf.ParseMix(o.gguf)
	_, there := os.Lstat(paths[1])
	switch {
	case o.gguf == alone && !adapter:
		return cli.Usagef("--gguf lora is for adapters, and %s has no adapter_config.json: name a type of weights", paths[0])
	case o.gguf != alone && unknown != nil:
		return cli.Usagef("--gguf: %w, or lora", unknown)
	case !hf.IsGGUF(paths[1]):
		return cli.Usagef("%s is no name of a GGUF file: end it in .gguf", paths[1])
	case there == nil:
		return cli.Usagef("%s is there already: name a file that is not, or remove it", paths[1])
	case (o.base != "" || o.onto != "") && !adapter:
		return cli.Usagef("--base and --onto are for adapters, and %s has no adapter_config.json: leave them out", paths[0])
	case o.base != "" && o.onto != "":
		return cli.Usagef("--base says where the adapter's own base is, and --onto takes another: leave one out")
	}
	return cli.CheckThreads(o.threads)
}

// writeGGUF writes a model, an adapter merged into its base, or an adapter alone.
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
	if hf.IsAdapter(in) {
		if a, err = hf.OpenAdapter(in); err != nil {
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
		_, err := fmt.Fprintf(stdout, "%s: %s\nuse it: llama-server -m BASE.gguf --lora %s, where BASE.gguf is the "+
			"adapter's base, by %s %s BASE.gguf --gguf q8_0\n", out, size(out), cli.ShellQuote(out), cli.Command("export"),
			cli.ShellQuote(c.Name))
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
	tensors, err := m.Tensors(ctx)
	if err != nil {
		return err
	}
	show := &cli.Progress{Line: status}
	unchecked := strings.TrimSuffix(out, filepath.Ext(out)) + ".unchecked.gguf"
	notes, err := hf.SaveGGUF(unchecked, shown, tensors, hf.GGUFOptions{Mix: mix, Name: nameOf(out),
		Done: func(name string, done, total int) { show.Draw("writing", name, float64(done)/float64(total)) }})
	if err != nil {
		return err
	}
	status.Clear()
	for _, n := range notes {
		fmt.Fprintf(stdout, "note: %s\n", n)
	}
	if o.checked {
		if err := o.checkFile(ctx, d, shown, tensors, unchecked, mix, stdout, show); err != nil {
			return err
		}
	}
	_, there := os.Lstat(out) // another run may have made it
	if there == nil {
		return fmt.Errorf("%s is there by now: the new file is kept as %s", out, unchecked)
	}
	if err := disk.Rename(unchecked, out); err != nil {
		return fmt.Errorf("the file is complete as %s, but could not get its name: %w", unchecked, err)
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
