package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"restyle/data"
	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/models"
	"restyle/model"
)

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
	a, err := o.openAdapter(in)
	if err != nil {
		return err
	}
	defer a.Close()
	status.Draw("reading the base of " + in)
	base, err := o.openBase(ctx, a, status)
	if err != nil {
		return err
	}
	defer base.Close()
	m := hf.Merge{Base: base, Changes: a.Changes(), Threads: o.threads}
	if o.onto == "" {
		if m.Layers, err = trainedOn(a); err != nil {
			return err
		}
	}
	shown, err := a.On(base)
	if err != nil {
		return err
	}
	if err := infer.CheckTokenizer(shown); err != nil {
		return fmt.Errorf("the tokenizer in %s does not fit its base: %w; without tokenizer.json there, the model gets the "+
			"base's", in, err)
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
	if err := fill(r, out, func() error { return hf.SaveTensors(out, shown, tensors, saving) }); err != nil {
		return err
	}
	status.Clear()
	if err := t.print(stdout); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "try it: %s --tuned %s\n", cli.Command("chat"), cli.ShellQuote(data.DirArg(out)))
	return err
}

// openAdapter opens the adapter of a name.
func (o options) openAdapter(name string) (*hf.Adapter, error) {
	a, err := hf.OpenAdapter(o.adapter)
	if err == nil {
		a.Name = name
	}
	return a, err
}

// openBase opens the model that the adapter is merged into.
func (o options) openBase(ctx context.Context, a *hf.Adapter, status *cli.StatusLine) (*hf.Checkpoint, error) {
	if o.onto != "" {
		return open(ctx, o.onto, status)
	}
	c, err := models.OpenBase(ctx, newHub(status), a, o.base)
	if errors.Is(err, models.ErrOtherBase) {
		err = fmt.Errorf("%w, or merge into this one with --onto", err)
	}
	return noted(c, err, status)
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
