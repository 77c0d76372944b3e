package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"restyle/cmd/bench/results"
	"restyle/data"
	"restyle/dataset"
	"restyle/dataset/training"
	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/measure"
	"restyle/internal/models"
	"restyle/internal/plot"
	"restyle/kernels"
	"restyle/tensor"
	"restyle/trainer"
)

const aboutTrain = `
bench train trains the same model on the same steps in several modes, in turns: a step of each, then
the next. It prints the time of a step and of the epoch, and where the losses part.

  bench train --out docs/bench/mine
  bench train --device cuda --model meta-llama/Llama-3.2-1B --modes fused,torch-compile
  bench train --steps 20

Modes: standard and fused are restyle's. torch-eager and torch-compile are PyTorch's, by
cmd/bench/pytorch.py, and are left out if python3 has no torch and transformers.`

// trainOptions are the flags.
type trainOptions struct {
	pageOptions
	settings             trainer.Config
	model, modes, python string
	template             string
	rows, steps          int
}

func newTrainOptions(args []string) *trainOptions {
	o := &trainOptions{pageOptions: newPageOptions(args), settings: trainer.DefaultConfig(), model: data.StarterName,
		modes: "standard,fused,torch-eager,torch-compile", rows: 576, python: "python3"}
	o.settings.Epochs, o.settings.Samples = 1, 0
	return o
}

func (o *trainOptions) flags(stdout, stderr io.Writer) *cli.Flags {
	f := cli.New("bench train", aboutTrain, stdout, stderr)
	f.Group("Training")
	f.Add(&o.modes, "modes", "`modes`, separated by commas: standard, fused, torch-eager, torch-compile")
	f.Add(&o.model, "model", "the model to fine-tune, a `directory`, hub id or "+data.StarterName)
	f.Add(&o.template, "template", infer.TemplateHelp())
	f.Add(&o.rows, "rows", "rows of the embedded dataset; one epoch of them is measured")
	f.Add(&o.steps, "steps", "stop after this many steps; 0: after the epoch")
	for _, x := range o.settings.Fields() {
		switch x.Name {
		case "batch", "accumulate", "seq", "lr", "dtype", "optimizer", "seed":
			help, _, _ := strings.Cut(x.Help, ";")
			f.Add(x.Value, x.Name, help)
		}
	}
	f.Add(&o.python, "python", "the `program` for PyTorch's modes")
	o.add(f)
	return f
}

func runTrain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := newTrainOptions(append([]string{"train"}, args...))
	return runMeasurement(ctx, "train", o, &o.pageOptions, args, stdout, stderr)
}

func (o *trainOptions) kernelOptions() kernels.Options {
	return kernels.Options{NoBF16: o.settings.DType != tensor.BF16}
}

var trainModes = []string{"standard", "fused", "torch-eager", "torch-compile"}

func checkModes(list string) error {
	modes := strings.Split(list, ",")
	for i, m := range modes {
		if !slices.Contains(trainModes, m) || slices.Contains(modes[:i], m) {
			return fmt.Errorf("--modes %q: must be of %s, each once", m, strings.Join(trainModes, ", "))
		}
	}
	return nil
}

func (o *trainOptions) check() error {
	if err := checkModes(o.modes); err != nil {
		return err
	}
	if o.rows < 1 {
		return fmt.Errorf("--rows %d: must be at least 1", o.rows)
	}
	if o.steps < 0 {
		return fmt.Errorf("--steps %d: must be at least 0", o.steps)
	}
	o.settings.MaxSteps = o.steps
	if err := o.settings.Check(); err != nil {
		return fmt.Errorf("--%w", err)
	}
	return nil
}

var trainColumns = []results.Column{
	{Name: "mode", Type: results.Text, Role: results.Key},
	{Name: "model", Type: results.Text, Role: results.Key},
	{Name: "type", Type: results.Text, Role: results.Key},
	{Name: "time", Type: results.Number, Role: results.Time, Unit: "ms", About: "median of a step"},
	{Name: "noise", Type: results.Number, Role: results.Noise, Unit: "%",
		About: "half the width of the median's 95% confidence interval"},
	{Name: "steps", Type: results.Integer, About: "steps of the epoch"},
	{Name: "epoch", Type: results.Number, Unit: "s",
		About: "all steps together, with what the first ones compile or cache"},
	{Name: "tokens", Type: results.Integer, About: "real tokens of all steps, without padding"},
	{Name: "rate", Type: results.Number, Unit: "tokens/s", About: "real tokens per second of the epoch"},
	{Name: "target_rate", Type: results.Number, Unit: "targets/s", About: "likewise, tokens that count in the loss"},
	{Name: "memory", Type: results.Number, Unit: "MiB", About: "allocated on the device"},
	{Name: "loss", Type: results.Number, About: "mean of the last ten steps"},
	{Name: "difference", Type: results.Number, Unit: "%", About: "largest difference of a step's loss from that of the " +
		"first mode, as a share of it"},
	{Name: "parts", Type: results.Integer, Unit: "step",
		About: "the first step whose loss differs by more than a rounding " +
			"of the type"},
	{Name: "with", Type: results.Text},
	{Name: "why", Type: results.Text, Role: results.Why, About: "why nothing was measured"},
}

var curveColumns = []results.Column{
	{Name: "mode", Type: results.Text, Role: results.Key},
	{Name: "step", Type: results.Integer, Role: results.Key},
	{Name: "loss", Type: results.Number},
	{Name: "ms", Type: results.Number},
	{Name: "rate", Type: results.Number},
}

// A trainMode trains one step after another.
type trainMode struct {
	name string
	with string // versions of another program
	step func(step int) (stepTaken, error)
	// close frees what step needs.
	close func() error

	losses, seconds []float64 // of each step
	memory          int64     // bytes, the most so far
}

// A stepTaken is what a step of training measured.
type stepTaken struct {
	Loss    float64 `json:"loss"` // mean over the targets
	Seconds float64 `json:"seconds"`
	Memory  int64   `json:"memory"` // bytes in use on the device
}

// decisive returns the settings that decide what rows mean, other than their keys.
func (o *trainOptions) decisive() string {
	c := &o.settings
	s := fmt.Sprintf("%d rows, %d steps, batch %d, accumulate %d, seq %d, lr %g, AdamW in %d bits, seed %d",
		o.rows, o.steps, c.Batch, c.Accumulate, c.Seq, c.LR, c.Optimizer, c.Seed)
	if o.template != "" {
		s += ", template " + o.template
	}
	return s
}

// measure trains all modes, unless all of them were measured. Each has a device of its own.
func (o *trainOptions) measure(ctx context.Context, s *session, _ *kernels.Device) (err error) {
	table, err := s.table(results.Table{Name: "train", Title: "Training", Columns: trainColumns, Settings: o.decisive()})
	if err != nil {
		return err
	}
	names := strings.Split(o.modes, ",")
	if !slices.ContainsFunc(names, func(m string) bool { return !table.Done(o.row(m)) }) {
		return nil
	}
	base, err := models.Open(ctx, nil, o.model)
	if err != nil {
		return err
	}
	plan, err := o.plan(ctx, base)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "bench-train-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	var modes []*trainMode
	var absent []results.Row
	defer func() {
		for _, m := range modes {
			err = errors.Join(err, m.close())
		}
	}()
	for _, name := range names {
		s.status.Draw("opening " + name)
		var m *trainMode
		if kind, torch := strings.CutPrefix(name, "torch-"); torch {
			if m, err = o.openTorch(ctx, kind, plan, temp); err != nil && ctx.Err() == nil {
				r := o.row(name)
				r["why"] = cli.Clean(err.Error())
				if !table.Done(r) {
					absent = append(absent, r)
				}
				continue
			}
		} else {
			m, err = o.openOwn(ctx, name, base, plan, temp)
		}
		if err != nil {
			return err
		}
		m.name = name
		modes = append(modes, m)
	}
	tokens, targets, err := o.train(ctx, s, plan, modes)
	if err != nil {
		return err
	}
	for _, m := range modes {
		r := o.row(m.name)
		o.fill(r, m, modes[0], tokens, targets)
		if err := s.Add(table, r); err != nil {
			return err
		}
	}
	for _, r := range absent { // the first row is one that others are compared with
		if err := s.Add(table, r); err != nil {
			return err
		}
	}
	return o.addCurves(s, plan, modes)
}

// row returns the keys of a mode's row.
func (o *trainOptions) row(mode string) results.Row {
	return results.Row{"mode": mode, "model": o.model, "type": o.settings.DType.String()}
}

// addCurves writes the losses of modes, and keeps the losses of other modes that earlier runs measured.
func (o *trainOptions) addCurves(s *session, plan *trainer.Plan, modes []*trainMode) error {
	curves, err := s.table(results.Table{Name: "train-curve", Title: "Losses of the steps", Columns: curveColumns,
		Settings: fmt.Sprintf("%s, %s in %s", o.decisive(), o.model, o.settings.DType)})
	if err != nil {
		return err
	}
	for _, m := range modes {
		curves.Rows = slices.DeleteFunc(curves.Rows, func(c results.Row) bool { return c.Text("mode") == m.name })
		for i, loss := range m.losses {
			c := results.Row{"mode": m.name, "step": float64(i + 1), "ms": 1e3 * m.seconds[i], "rate": plan.LR(i)}
			c.Set("loss", loss)
			curves.Rows = append(curves.Rows, c)
		}
	}
	return s.Save()
}

// plan plans one epoch of the rows.
func (o *trainOptions) plan(ctx context.Context, base *hf.Checkpoint) (*trainer.Plan, error) {
	codec, err := infer.CodecOf(base, o.template)
	if unknown, is := errors.AsType[*infer.UnknownTemplate](err); is {
		return nil, cli.Usagef("--template: %w", unknown)
	}
	if err != nil {
		return nil, err
	}
	set, err := training.Load(ctx, data.StarterName, dataset.Options{Starter: data.Starter},
		&training.Encoder{Tokenizer: codec.Tokenizer, Template: codec.Template, Seq: o.settings.Seq, Enough: o.rows})
	if err != nil {
		return nil, err
	}
	if len(set.Examples) < o.rows {
		return nil, fmt.Errorf("--rows %d: the dataset has %d", o.rows, len(set.Examples))
	}
	for _, x := range set.Examples[:o.rows] {
		if err := codec.Tokenizer.CheckRows(x.IDs, base.Config.Vocab); err != nil {
			return nil, fmt.Errorf("%s: %w", base.Name, err)
		}
	}
	return trainer.NewPlan(o.settings, set.Examples[:o.rows], nil)
}

// train takes the steps of all modes in rotation.
func (o *trainOptions) train(ctx context.Context, s *session, plan *trainer.Plan, modes []*trainMode) (tokens,
	targets int, err error) {
	for step := range plan.Steps {
		passes, _ := plan.Step(step)
		for _, b := range passes {
			tokens, targets = tokens+len(b.IDs), targets+b.Targets()
		}
		for k := range modes {
			if err := ctx.Err(); err != nil {
				return 0, 0, err
			}
			m := modes[(step+k)%len(modes)]
			s.status.Draw(fmt.Sprintf("step %d of %d, %s", step+1, plan.Steps, m.name))
			took, err := m.step(step)
			if err != nil {
				return 0, 0, fmt.Errorf("%s, step %d: %w", m.name, step+1, err)
			}
			m.losses, m.seconds = append(m.losses, took.Loss), append(m.seconds, took.Seconds)
			m.memory = max(m.memory, took.Memory)
		}
	}
	return tokens, targets, nil
}

// openOwn opens a run of this program.
func (o *trainOptions) openOwn(ctx context.Context, name string, base *hf.Checkpoint, plan *trainer.Plan,
	temp string) (*trainMode, error) {
	options := o.kernelOptions()
	if options.Threads = o.threads; name == "fused" {
		options.Fused = kernels.All()
	}
	d, err := kernels.Open(o.device, options)
	if err != nil {
		return nil, err
	}
	before := d.InUse()
	run, err := trainer.NewJob(d, base, plan, trainer.JobOptions{}).Open(ctx, filepath.Join(temp, name), "")
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	end := func() error { return errors.Join(run.Close(), d.Close()) }
	if err := run.Start(ctx); err != nil {
		return nil, errors.Join(err, end())
	}
	step := func(step int) (stepTaken, error) {
		passes, _ := run.Plan.Step(step)
		targets := 0
		for _, b := range passes {
			targets += b.Targets()
		}
		start := time.Now()
		res, err := run.Update(passes, float32(1/float64(targets)), plan.LR(step))
		return stepTaken{res.Loss / float64(targets), time.Since(start).Seconds(), int64(d.InUse() - before)}, err
	}
	return &trainMode{step: step, close: end}, nil
}

// rounding is how far a loss may be off by one rounding of a type.
var rounding = map[tensor.DType]float64{tensor.BF16: 0x1p-9, tensor.F32: 0x1p-24}

// fill fills a row with the results of a mode's steps.
func (o *trainOptions) fill(r results.Row, m, first *trainMode, tokens, targets int) {
	sample := measure.Sample{Seconds: m.seconds}
	epoch, last := 0.0, m.losses[max(0, len(m.losses)-10):]
	for _, s := range m.seconds {
		epoch += s
	}
	loss := 0.0
	for _, l := range last {
		loss += l / float64(len(last))
	}
	for name, v := range map[string]float64{"time": 1e3 * sample.Median(), "noise": sample.Noise(),
		"steps": float64(len(m.seconds)), "epoch": epoch, "tokens": float64(tokens), "rate": float64(tokens) / epoch,
		"target_rate": float64(targets) / epoch, "memory": float64(m.memory) / (1 << 20), "loss": loss} {
		r.Set(name, v)
	}
	if m.with != "" {
		r["with"] = m.with
	}
	if m == first {
		return
	}
	most, parts := part(first.losses, m.losses, rounding[o.settings.DType])
	r.Set("difference", most)
	if parts > 0 {
		r.Set("parts", float64(parts))
	}
}

// part returns the largest difference between losses a and b, as a share of a, and the first step, from 1, at which it
// is more than rounding, or 0 if there is none.
func part(a, b []float64, rounding float64) (most float64, step int) {
	for i := range a {
		off := math.Abs(a[i]-b[i]) / math.Abs(a[i])
		if math.IsNaN(off) {
			off = math.Inf(1)
		}
		most = max(most, off)
		if off > rounding && step == 0 {
			step = i + 1
		}
	}
	return most, step
}

// lines returns the steps of a plan as another program reads them, a line each.
func lines(plan *trainer.Plan) ([][]byte, error) {
	var b bytes.Buffer
	if err := plan.Write(&b, 0); err != nil {
		return nil, err
	}
	return bytes.SplitAfter(bytes.TrimSuffix(b.Bytes(), []byte("\n")), []byte("\n")), nil
}

// trainSection says what the rows mean.
func trainSection(t *results.Table) (s results.Section) {
	if len(t.Rows) == 0 {
		return s
	}
	first := t.Rows[0]
	s.Words = append(s.Words, "The modes took their steps in turns, on the same batches with the same learning rates "+
		"from "+
		"the same weights.")
	for _, r := range t.Rows {
		if why := r.Text("why"); why != "" {
			s.Words = append(s.Words, fmt.Sprintf("%s is absent: %s.", r["mode"], why))
		}
		if r.Text("mode") == first.Text("mode") || !(r.Number("loss") > 0) || !(first.Number("loss") > 0) {
			continue
		}
		ratio := measure.RatioOf(first.Number("time"), first.Number("noise"), r.Number("time"), r.Number("noise"))
		epochs := ""
		if r.Number("epoch") > 0 && first.Number("epoch") > 0 {
			epochs = fmt.Sprintf("; the epoch takes %s s instead of %s s", plot.Digits(r.Number("epoch"), 4),
				plot.Digits(first.Number("epoch"), 4))
		}
		parts := "never by more than a rounding"
		if n := r.Number("parts"); n > 0 {
			parts = fmt.Sprintf("by more than a rounding from step %.0f on", n)
		}
		if s.Headline == "" {
			s.Headline = fmt.Sprintf("a step is %v (%s next to %s).", ratio, r["mode"], first["mode"])
		}
		s.Words = append(s.Words, fmt.Sprintf("%s next to %s: a step is %v%s. Its loss differs by at most %.2g%%, "+
			"%s.", r["mode"], first["mode"], ratio, epochs, 100*r.Number("difference"), parts))
	}
	return s
}
