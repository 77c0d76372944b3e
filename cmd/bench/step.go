package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"restyle/hf"
	"restyle/internal/cli"
	"restyle/kernels"
	"restyle/model"
	"restyle/optim"
	"restyle/tensor"
	"restyle/trainer"
)

const aboutStep = `
bench step times training steps of a model with random weights on random tokens: forward, backward,
clipping and AdamW. Nothing is downloaded: a configuration is enough, and that of Llama-3.2-1B is
built in.

  bench step
  bench step --device cuda --shapes 1x512x4,4x512,8x2048 --fused both --log benchmark_log.csv
  bench step --model path/to/config.json --train-only mlp

Shapes are sequences of a pass x tokens of each, and x passes of a step where there are several. What comes
out is a table: tokens a second and the milliseconds of a step by its median, what share that is of a bare
product of large matrices which was timed just before, the memory in use, what the estimate was off, and the
energy of the whole card. The same steps in another program are timed beside it and logged alike:

  bench step --device cuda --fused both --seconds 3 --beside "python3 docs/bench/step_pytorch.py --mode compile"`

// llama1B is the shape of Llama-3.2-1B.
//
//go:embed llama-3.2-1b.json
var llama1B []byte

// stepOptions are the flags.
type stepOptions struct {
	model, shapes, fused, trainOnly, recompute, optimizer, master, dtype, gradients string
	steps, warmup, headRows                                                         int
	device, log, label                                                              string
	threads                                                                         int
	own, deterministic, sync, apart, check                                          bool
	seconds                                                                         float64
	beside                                                                          cli.Paths // commands, as they are
}

func (o *stepOptions) flags(out io.Writer) *cli.Flags {
	f := cli.New("bench step", aboutStep, out)
	f.Group("What is timed")
	f.Add(&o.model, "model", "config.json of the model, a `file`; default: the shape of Llama-3.2-1B")
	f.Add(&o.shapes, "shapes", "the `shapes`, with commas between them")
	f.Add(&o.fused, "fused", "how operations run: none (one a kernel), all (fused), both, or a `set` such as rmsnorm,swiglu")
	f.Add(&o.trainOnly, "train-only", "`patterns` of the parameters that are trained, such as mlp; default all")
	f.Add(&o.recompute, "recompute", "what the backward pass computes again, `none|attention|layer`")
	f.Add(&o.gradients, "gradients", "how much of the gradients there is at a time, `step|layer`, as train has it")
	f.Add(&o.headRows, "head-rows", "rows of logits at a time; 0 for as many as train has on the device")
	f.Add(&o.apart, "apart", "have the passes of a step go through a GPU one after the other; together, if not given, as train does")
	f.Add(&o.dtype, "dtype", "type of weights and activations, `bf16|fp32`")
	f.Add(&o.optimizer, "optimizer", "`adamw8bit|adamw`")
	f.Add(&o.master, "master", "what stands behind bf16 weights, `split8|sr|fp32|none`")
	f.Add(&o.steps, "steps", "steps that are timed; the median counts")
	f.Add(&o.seconds, "seconds", "have them take so many `seconds` together at least: energy is read too seldom for less than a few")
	f.Add(&o.warmup, "warmup", "steps before them")

	f.Add(&o.check, "check", "fail if the memory was estimated more than 5 % wrong")
	f.Add(&o.beside, "beside", "also have a `command` time each shape: it gets the step as JSON and answers with JSON, as docs/bench/step_pytorch.py does; may be repeated")

	f.Group("What is written")
	f.Add(&o.log, "log", "also add a row for each line to this CSV `file`")
	f.Add(&o.label, "label", "a word of your own in those rows")

	f.Group("Where it runs")
	f.Add(&o.device, "device", cli.DeviceHelp)
	f.Add(&o.own, "own-products", "on a GPU, multiply matrices by restyle's own kernels, not by cuBLASLt")
	f.Add(&o.deterministic, "deterministic", "on a GPU, take cuBLASLt's first algorithm for each product, as train does with it; if not given, one that is at least 3 % faster takes its place")
	f.Add(&o.sync, "sync", "on a GPU, wait for and time every kernel, and print how long each took: slower in all")
	f.Add(&o.threads, "threads", "threads of the CPU; 0 for all")
	return f
}

func runStep(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := &stepOptions{shapes: "1x512x4", fused: "all", recompute: "none", dtype: "bf16", optimizer: "adamw8bit", master: "split8", gradients: "step",
		steps: 10, warmup: 3, device: "auto"}
	flags := o.flags(stderr)
	if code, done := flags.Parse(args); done {
		return code
	}
	lines, err := o.lines()
	if err != nil {
		fmt.Fprintf(stderr, "bench step: %v\nsee bench step -h\n", err)
		return cli.Usage
	}
	table := &stepTable{out: stdout, log: o.log, label: o.label, dtype: o.dtype}
	notes := stderr
	for _, l := range lines {
		if l.command != "" {
			if failed := l.runBeside(ctx, o, table); failed != nil { // the others are worth having
				fmt.Fprintf(stderr, "bench step: %v\n", failed)
				err = errors.Join(err, failed)
			}
			continue
		}
		if failed := l.run(ctx, o, table, notes); failed != nil {
			fmt.Fprintf(stderr, "bench step: %v\n", failed)
			return cli.Failed
		}
		notes = io.Discard // each has a device of its own, and the same notes
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "bench step: stopped")
		return cli.Failed
	case err != nil:
		return cli.Failed
	}
	if o.check {
		if err := table.check(); err != nil {
			fmt.Fprintf(stderr, "bench step: %v\n", err)
			return cli.Failed
		}
	}
	return cli.Done
}

// A stepLine is one thing that is timed.
type stepLine struct {
	batch, seq, accumulate int
	config                 model.Config
	file                   []byte // its config.json
	name                   string // of the model
	fused                  kernels.Fused
	settings               trainer.Config
	command                string // of another program that times it; "": this one does
}

// benchModel is the config.json that --model names, Llama-3.2-1B's if it names none, what it says, and what the model is called.
func benchModel(path string) (c model.Config, file []byte, name string, err error) {
	if file, name = llama1B, "Llama-3.2-1B, random weights"; path != "" {
		name = path
		file, err = os.ReadFile(path)
	}
	if err == nil {
		c, err = hf.ParseConfig(file)
	}
	if err != nil {
		return c, nil, "", fmt.Errorf("--model: %w", err)
	}
	return c, file, name, nil
}

// benchDType is the type that --dtype names.
func benchDType(name string) (tensor.DType, error) {
	t, ok := map[string]tensor.DType{"bf16": tensor.BF16, "fp32": tensor.F32}[name]
	if !ok {
		return t, fmt.Errorf("--dtype %q is neither bf16 nor fp32", name)
	}
	return t, nil
}

// lines are what the flags ask for.
func (o *stepOptions) lines() (list []stepLine, err error) {
	var l stepLine
	if l.config, l.file, l.name, err = benchModel(o.model); err != nil {
		return nil, err
	}
	if o.steps < 1 || o.warmup < 0 || !(o.seconds >= 0) {
		return nil, fmt.Errorf("--steps %d, --seconds %v, --warmup %d: give at least one step, and no fewer than 0 before", o.steps, o.seconds, o.warmup)
	}
	l.settings = trainer.DefaultConfig()
	s := &l.settings
	s.Clip, s.Samples = 0, 0
	set := map[string]string{"master": o.master, "gradients": o.gradients, "optimizer": o.optimizer, "recompute": o.recompute, "dtype": o.dtype}
	for _, f := range s.Fields() {
		if value, ok := set[f.Name]; ok {
			if err := f.Set(value); err != nil {
				return nil, fmt.Errorf("--%w", err)
			}
		}
	}
	if o.trainOnly != "" {
		s.TrainOnly = strings.Split(o.trainOnly, ",")
	}
	if err := s.CheckPatterns(model.ParamsOf(l.config, model.Options{})); err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	sets := []kernels.Fused{{}, kernels.All()}
	if o.fused != "both" {
		f, err := kernels.ParseFused(o.fused)
		if err != nil {
			return nil, fmt.Errorf("--fused: %w, or both", err)
		}
		sets = []kernels.Fused{f}
	}
	for shape := range strings.SplitSeq(o.shapes, ",") {
		if err := l.shape(shape); err != nil {
			return nil, fmt.Errorf("--shapes: %w", err)
		}
		for _, l.fused = range sets {
			list = append(list, l)
		}
		for _, command := range o.beside {
			other := l
			other.command = command
			list = append(list, other)
		}
	}
	return list, nil
}

// shape reads one such as 4x512, or 1x512x4.
func (l *stepLine) shape(s string) error {
	sizes := []*int{&l.batch, &l.seq, &l.accumulate}
	l.accumulate = 1
	parts := strings.Split(strings.TrimSpace(s), "x")
	if len(parts) < 2 || len(parts) > 3 {
		return fmt.Errorf("%q is no shape such as 4x512 or 1x512x4", s)
	}
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 1 || n > 1<<20 {
			return fmt.Errorf("%q: %q is no number from 1 to a million", s, p)
		}
		*sizes[i] = n
	}
	if l.seq > l.config.MaxPositions {
		return fmt.Errorf("%q: the model has %d positions", s, l.config.MaxPositions)
	}
	return nil
}

// run times one line on a device of its own, so that none has what another left.
func (l *stepLine) run(ctx context.Context, o *stepOptions, table *stepTable, notes io.Writer) (err error) {
	d, err := kernels.Open(o.device, kernels.Options{
		Threads: o.threads, Fused: l.fused, OwnProducts: o.own, Deterministic: o.deterministic, Sync: o.sync,
		NoBF16: l.settings.DType == tensor.F32,
	})
	if err != nil {
		return err
	}
	for _, n := range d.Notes() {
		fmt.Fprintf(notes, "bench step: %s\n", n)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := table.open(d, l.settings.DType); err != nil {
		return err
	}
	passes := l.passes()
	if l.settings.Gradients == trainer.LayerGradients || d.Capacity() > 0 && !o.apart {
		passes = []model.Batch{model.Join(passes...)}
	}
	plan := &trainer.Plan{Config: l.settings, MaxTokens: len(passes[0].IDs), Longest: l.seq}
	if !d.IsCPU() && len(passes) == 1 && l.settings.DType == tensor.BF16 {
		plan.GradType = tensor.BF16
	}
	plan.HeadBytes = o.headRows * l.config.Vocab * (tensor.F32.Size() + l.settings.DType.Size())
	estimate := trainer.MemoryOf(d, l.fused, l.config, plan).Total() + d.Overhead()
	if err := d.Precompile(ctx, func(d *kernels.Device) error { return trainer.Rehearse(d, l.config, plan) }, nil); err != nil {
		return err
	}
	if err := d.ChooseProducts(ctx, nil); err != nil {
		return err
	}
	m, err := model.New(d, l.config, plan.ModelOptions(l.config))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	randomWeights(m)
	opt, err := optim.New(d, m.Params(), l.settings.AdamW())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opt.Close()) }()
	r, err := l.time(ctx, o, &trainer.Run{Plan: plan, Model: m, Optimizer: opt}, passes)
	if err != nil {
		return err
	}
	r.Mode, r.estimate = "standard", estimate
	if l.fused.String() != "none" {
		r.Mode = "fused"
	}
	if err := table.add(l, r); err != nil || !o.sync {
		return err
	}
	return kernels.PrintProfile(table.out, d.Profile(), len(r.Seconds))
}

// time takes the steps of a run.
func (l *stepLine) time(ctx context.Context, o *stepOptions, run *trainer.Run, passes []model.Batch) (r stepResult, err error) {
	d := run.Model.Device()
	trained := 0
	for _, p := range passes {
		trained += p.Targets()
	}
	var last kernels.Record
	var before kernels.Meters
	var lasting float64
	for i := 0; i < o.warmup+o.steps || lasting < o.seconds; i++ {
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if i == o.warmup {
			d.Profile() // from here on it counts
			before, _ = d.Meters()
		}
		start := time.Now()
		if last, err = run.Move(passes, float32(1/float64(trained)), 1e-5); err != nil {
			return r, err
		}
		if took := time.Since(start).Seconds(); i >= o.warmup {
			r.Seconds = append(r.Seconds, took)
			lasting += took
		}
	}
	if after, metered := d.Meters(); metered && before.Energy > 0 {
		r.Joules = float64(after.Energy-before.Energy) / 1e3
	}
	r.Loss = last.Loss / float64(trained)
	r.Memory = int64(d.InUse())
	return r, nil
}

// runBeside has another program time one line. It comes after one of ours, from which the ceiling is.
func (l *stepLine) runBeside(ctx context.Context, o *stepOptions, table *stepTable) error {
	r, err := beside(ctx, l.command, besideStep{
		Config: l.file, Batch: l.batch, Seq: l.seq, Accumulate: l.accumulate, Trained: l.settings.TrainOnly, DType: o.dtype, Device: table.device,
		Warmup: o.warmup, Steps: o.steps, Lasting: o.seconds,
	})
	if err != nil {
		return err
	}
	return table.add(l, r)
}

// passes are random tokens, each of which but the first of its sequence is trained.
func (l *stepLine) passes() (passes []model.Batch) {
	r := rand.New(rand.NewPCG(1, 2))
	for range l.accumulate {
		var of []model.Batch
		for range l.batch {
			ids := make([]int32, l.seq)
			for i := range ids {
				ids[i] = int32(r.IntN(l.config.Vocab))
			}
			of = append(of, model.Batch{IDs: ids, Labels: ids})
		}
		passes = append(passes, model.Join(of...))
	}
	return passes
}

// randomWeights fills matrices with normal values of deviation 0.02.
func randomWeights(m *model.Model) {
	values, ones := normalValues(0.02), slices.Repeat([]float32{1}, 1<<14)
	for _, p := range m.Params() {
		if p.Norm {
			fill(m.Device(), p.W, ones)
		} else {
			fill(m.Device(), p.W, values)
		}
	}
}
