package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"restyle/data"
	"restyle/hf"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/model"
	"restyle/trainer"
)

// isAdapter reports whether a directory has an adapter.
func isAdapter(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "adapter_config.json"))
	return err == nil
}

// checkMerge reports invalid arguments if paths[0] is an adapter.
func (o options) checkMerge(paths []string, given func(flag string) bool) error {
	if o.weights != "" {
		merged, to := cli.ShellQuote(paths[1]+"-merged"), cli.ShellQuote(paths[1])
		return cli.Usagef("--weights is for models, and %s has an adapter: merge it, then quantize the result:\n"+
			"  export %s %s\n  export %s %s --weights %s", paths[0], cli.ShellQuote(paths[0]), merged, merged, to, o.weights)
	}
	for _, flag := range []string{"rounding", "text", "template", "quality"} {
		if given(flag) {
			return cli.Usagef("--%s is for --weights, and %s has an adapter: leave it out", flag, paths[0])
		}
	}
	if o.base != "" && o.onto != "" {
		return cli.Usagef("--base says where the adapter's own base is, and --onto takes another: leave one out")
	}
	return checkFree(paths[1])
}

// merge does the work, from the adapter in IN to the model in OUT, and prints how far each matrix moved.
func (o options) merge(ctx context.Context, in, out string, stdout io.Writer, status *cli.StatusLine) error {
	a, err := hf.OpenAdapter(in)
	if err != nil {
		return err
	}
	defer a.Close()
	base, err := o.openBase(ctx, a, status)
	if err != nil {
		return err
	}
	defer base.Close()
	m := hf.Merge{Base: base, Changes: a.Changes(), Threads: o.threads}
	if o.onto == "" {
		status.Draw("reading " + base.Name)
		if m.Layers, err = checkBase(a, base); err != nil {
			return err
		}
	}
	own, err := disk.ReadInput(filepath.Join(in, "chat_template.jinja"), disk.MaxRecord)
	if err == nil && string(own) != base.Tokenizer.ChatTemplate {
		fmt.Fprintf(cli.CleanWriter(status), "%s has a chat_template.jinja of its own, but %s gets the base's template: "+
			"copy the file if the adapter was trained with it\n", in, out)
	}
	t := moves{cells: map[cell]hf.Difference{}}
	show := &cli.Progress{Line: status}
	done := 0
	m.Done = func(p model.Param, d hf.Difference) {
		done++
		show.Draw("merging", p.Name, float64(done)/float64(len(m.Changes)))
		t.add(p, d, !a.Spec.Whole(p.Name))
	}
	tensors, err := m.Tensors(ctx)
	if err != nil {
		return err
	}
	saving := hf.SaveOptions{Card: o.card(a, m, out), Check: t.check}
	r := record{Base: absolute(base.Name), Adapter: absolute(in), Onto: o.onto != ""}
	if err := fill(r, out, func() error { return hf.SaveTensors(out, base, tensors, saving) }); err != nil {
		return err
	}
	status.Clear()
	if err := t.print(stdout); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "try it: %s --tuned %s\n", cli.Command("chat"), cli.ShellQuote(data.DirArg(out)))
	return err
}

// openBase opens the model that the adapter is merged into.
func (o options) openBase(ctx context.Context, a *hf.Adapter, status *cli.StatusLine) (*hf.Checkpoint, error) {
	switch {
	case o.onto != "":
		return open(ctx, o.onto, status)
	case o.base != "":
		return open(ctx, o.base, status)
	case a.BaseModel == "":
		return nil, cli.Usagef("%s does not name its base model: set --base", a.Name)
	}
	name := a.BaseModel
	_, here := os.Stat(name)
	beside := filepath.Join(a.Name, name)
	if info, err := os.Stat(beside); here != nil && err == nil && info.IsDir() && !filepath.IsAbs(name) {
		name = beside
	}
	c, err := open(ctx, name, status)
	if err != nil {
		return nil, fmt.Errorf("the adapter's base model: %w: if it is elsewhere, set --base", err)
	}
	return c, nil
}

// checkBase compares a base with the one that the adapter was trained on, if the adapter has recorded its digest. It
// returns the type that the weights of the base's layers were quantized to in training, "" if they were not.
func checkBase(a *hf.Adapter, base *hf.Checkpoint) (layers string, err error) {
	if a.Record == nil {
		return "", nil
	}
	var r trainer.AdapterRecord
	if err := json.Unmarshal(a.Record, &r); err != nil {
		return "", fmt.Errorf("restyle_adapter.json of %s: %w", a.Name, err)
	}
	if r.Digest == "" {
		return r.QuantizedBase, nil
	}
	digest, err := base.Digest()
	if err == nil && digest != r.Digest {
		err = fmt.Errorf("%s is not the model that %s was trained on: its digest is %.12s, not %.12s: set --base to that "+
			"model, or merge into this one with --onto", base.Name, a.Name, digest, r.Digest)
	}
	return r.QuantizedBase, err
}

// scales lists the scales of an adapter.
func scales(a *hf.Adapter) string {
	var list []float64
	for _, name := range a.Names() {
		if module, ok := strings.CutSuffix(name, ".lora_A.weight"); ok {
			_, scale, _ := a.Spec.Of(module)
			list = append(list, scale)
		}
	}
	slices.Sort(list)
	var text []string
	for _, scale := range slices.Compact(list) {
		text = append(text, fmt.Sprintf("%.4g", scale))
	}
	return strings.Join(text, ", ")
}
