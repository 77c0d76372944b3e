package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"restyle/internal/cli"
	"restyle/kernels"
	"restyle/lora"
	"restyle/model"
	"restyle/optim"
	"restyle/quant"
	"restyle/tensor"
	"restyle/trainer"
)

const aboutStep = `
bench step times training steps of a model with random weights on random tokens: forward, backward,
clipping and AdamW. It downloads nothing: it needs only a configuration, and that of Llama-3.2-1B is
built in.

  bench step
  bench step --device cuda --shapes 1x512x4,4x512,8x2048 --fused both --log benchmark_log.csv
  bench step --config path/to/config.json --train-only mlp
  bench step --lora --quantize-base nf4

A shape is sequences per pass x tokens per sequence, and optionally x passes per step. The result is
a table: tokens per second and milliseconds of the median step, its share of the rate of a bare
product of large matrices (timed just before), the memory in use, the error of the memory estimate,
and the energy of the whole card or of the processors. With --ranks
or --device cuda:all, each rank takes such steps with the others, and the table has the tokens of all
together. bench step can have another program time the same steps, and logs them alike:

  bench step --device cuda --fused both --seconds 3 --beside "python3 cmd/bench/pytorch.py step --mode compile"`

// stepOptions are the flags.
type stepOptions struct {
	settings                               trainer.Config
	config, shapes, fused                  string
	steps, warmup, headRows                int
	device, log, label                     string
	threads, ranks                         int
	own, deterministic, sync, apart, check bool
	seconds                                float64
	beside                                 cli.Paths // commands, unchanged
}

// newStepOptions returns options with the default settings of training, except that clipping and samples are off.
func newStepOptions() stepOptions {
	o := stepOptions{settings: trainer.DefaultConfig(), steps: 10, warmup: 3, device: "auto", config: "llama-3.2-1b"}
	o.settings.Clip, o.settings.Samples = 0, 0
	return o
}

func (o *stepOptions) flags(stdout, stderr io.Writer) *cli.Flags {
	f := cli.New("bench step", aboutStep, stdout, stderr)
	f.Group("Step")
	f.Add(&o.shapes, "shapes", "the `shapes`, separated by commas")
	o.modelFlags(f)
	f.Add(&o.headRows, "head-rows", "rows of logits computed at a time; 0 for as many as train computes on the device")
	f.Add(&o.apart, "apart", "run the passes of a step through a GPU one after another, not together as train does")

	f.Group("Measurement")
	f.Add(&o.steps, "steps", "timed steps; the result is the median")
	f.Add(&o.seconds, "seconds", "minimum total `seconds` of the timed steps; an energy reading needs a few")
	f.Add(&o.warmup, "warmup", "steps before the timed ones")
	f.Add(&o.check, "check", "fail if the memory estimate is off by more than 5%")
	f.Add(&o.beside, "beside", "also have a `command` time each shape: it gets the step as JSON and answers with JSON, "+
		"as cmd/bench/pytorch.py step does; may be repeated")

	f.Group("Output")
	f.Add(&o.log, "log", "also append a row per line to this CSV `file`")
	f.Add(&o.label, "label", "label of those rows")

	f.Group("Device")
	f.Add(&o.device, "device", cli.DeviceHelp)
	f.Add(&o.ranks, "ranks", "start this many processes, which sum their gradients; with --device cuda:all or cuda:0,1 "+
		"one for each GPU")
	f.Add(&o.own, "own-products", "on a GPU, multiply matrices with restyle's own kernels instead of cuBLASLt")
	f.Add(&o.deterministic, "deterministic", "on a GPU, use cuBLASLt's first algorithm for each product, as train does "+
		"with this flag; without it, an algorithm that is at least 3% faster replaces it")
	f.Add(&o.sync, "sync", syncHelp)
	f.Add(&o.threads, "threads", threadsHelp)
	return f
}

// modelFlags adds the flags of the model and its training, which bench precompile shares. The help of a setting is
// train's help up to the semicolon: the rest is about training an existing model.
func (o *stepOptions) modelFlags(f *cli.Flags) {
	f.Add(&o.config, "config", strings.Replace(configHelp, "`models`, separated by commas: each a", "`model`: a", 1))
	f.Add(&o.fused, "fused", fusedHelp+"; both for none and all")
	f.Optional("fused", "all")
	for _, x := range o.settings.Fields() {
		switch x.Name {
		case "train-only", "recompute", "dtype", "optimizer", "master", "gradients", "shard", "lora",
			"quantize-base":
			help, _, _ := strings.Cut(x.Help, ";")
			help, _, _ = strings.Cut(help, ". The result is")
			f.Add(x.Value, x.Name, help)
		}
	}
	f.Optional("lora", lora.Default().String())
}

// The help of flags that several measurements have.
const (
	fusedHelp   = "fused operations: none, all, or a `set` such as rmsnorm,swiglu"
	syncHelp    = "print how long every kernel took; a GPU is waited for after each, and slower in all"
	threadsHelp = "CPU threads; 0 for all"
)

func runStep(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := newStepOptions()
	o.shapes, o.fused = "1x512x4", "all"
	flags := o.flags(stdout, stderr)
	if code, done := flags.Parse(args); done {
		return code
	}
	group, code, done := o.join(ctx, flags, stderr)
	if done {
		return code
	}
	lines, err := o.lines()
	defer func() { group.Close(err) }()
	if shard := o.settings.CheckShard(group.Size()); err == nil && shard != nil {
		err = fmt.Errorf("--%w", shard)
	}
	if err = cmp.Or(err, cli.CheckThreads(o.threads), cli.CheckDevice(o.device)); err != nil {
		fmt.Fprintf(stderr, "bench step: %v\nsee bench step -h\n", err)
		return cli.Usage
	}
	table := &stepTable{out: stdout, log: o.log, label: o.label, dtype: flags.Lookup("dtype").Value.String(), group: group}
	notes := stderr
	if group.Rank() > 0 {
		table.out, table.log, notes = io.Discard, "", io.Discard
	}
	for _, l := range lines {
		if l.command != "" {
			if failed := l.runBeside(ctx, &o, table); failed != nil { // the other lines are still useful
				fmt.Fprintf(stderr, "bench step: %v\n", failed)
				err = errors.Join(err, failed)
			}
			continue
		}
		if failed := l.run(ctx, &o, table, notes); failed != nil {
			fmt.Fprintf(stderr, "bench step: %v\n", failed)
			err = failed
			return cli.Failed
		}
		notes = io.Discard // the next device has the same notes
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "bench step: stopped")
		err = ctx.Err()
		return cli.Failed
	case err != nil:
		return cli.Failed
	}
	if o.check {
		if err = table.check(); err != nil {
			fmt.Fprintf(stderr, "bench step: %v\n", err)
			return cli.Failed
		}
	}
	return cli.Done
}

// A stepLine is one measurement, a line of the table.
type stepLine struct {
	batch, seq, accumulate int
	config                 model.Config
	file                   []byte // the model's config.json
	name                   string // of the model
	fused                  kernels.Fused
	settings               trainer.Config
	command                string // another program that times it; "": this program does
}

// lines returns the measurements that the flags ask for.
func (o *stepOptions) lines() (list []stepLine, err error) {
	var l stepLine
	s, err := shapeOf("--config", o.config)
	if err != nil {
		return nil, err
	}
	l.config, l.file, l.name = s.config, s.file, s.name
	if o.steps < 1 {
		return nil, fmt.Errorf("--steps %d: must be at least 1", o.steps)
	}
	if o.warmup < 0 {
		return nil, fmt.Errorf("--warmup %d: must be at least 0", o.warmup)
	}
	if o.headRows < 0 {
		return nil, fmt.Errorf("--head-rows %d: must be at least 0", o.headRows)
	}
	if o.seconds != 0 {
		if err := checkSeconds(o.seconds); err != nil {
			return nil, err
		}
	}
	l.settings = o.settings
	if err := cmp.Or(l.settings.Check(), l.settings.CheckModel(l.config),
		l.settings.CheckLoRA(l.config, model.Quantization{})); err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	if len(o.beside) > 0 && l.settings.Adapts() && !l.besideLoRA().same(l.settings.LoRA) {
		return nil, fmt.Errorf("--beside: another program is told the rank and alpha of --lora only: leave out the rest")
	}
	sets, _, err := fusedSets(o.fused)
	if err != nil {
		return nil, err
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

// shape parses a shape such as 4x512 or 1x512x4.
func (l *stepLine) shape(s string) error {
	sizes := []*int{&l.batch, &l.seq, &l.accumulate}
	l.accumulate = 1
	parts := strings.Split(strings.TrimSpace(s), "x")
	if len(parts) < 2 || len(parts) > 3 {
		return fmt.Errorf("%q: must be a shape such as 4x512 or 1x512x4", s)
	}
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 1 || n > 1<<20 {
			return fmt.Errorf("%q: %q: must be a number from 1 to %d", s, p, 1<<20)
		}
		*sizes[i] = n
	}
	if l.seq > l.config.Positions() {
		return fmt.Errorf("%q: more tokens than the model's %d positions: choose a shorter shape", s, l.config.Positions())
	}
	return nil
}

// run times one line on a device of its own, so that no line finds what another one left in memory.
func (l *stepLine) run(ctx context.Context, o *stepOptions, table *stepTable, notes io.Writer) (err error) {
	d, err := kernels.Open(o.device, kernels.Options{
		Threads: o.threads, Fused: l.fused, OwnProducts: o.own, Deterministic: o.deterministic, Sync: o.sync,
		NoBF16: l.settings.DType != tensor.BF16,
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
	passes := l.passes(table.group.Rank())
	if l.settings.Gradients == trainer.LayerGradients || d.Capacity() > 0 && !o.apart {
		passes = []model.Batch{model.Join(passes...)}
	}
	plan := &trainer.Plan{Config: l.settings, MaxTokens: len(passes[0].IDs), Longest: l.seq}
	if !d.IsCPU() && len(passes) == 1 && l.settings.DType == tensor.BF16 {
		plan.GradType = tensor.BF16
	}
	if table.group != nil {
		plan.Ranks = table.group.Size()
	}
	plan.HeadBytes = o.headRows * l.config.Vocab * (tensor.F32.Size() + l.settings.DType.Size())
	estimate := trainer.MemoryOf(d, l.fused, l.config, plan).Total() + d.Overhead(plan.Ranks)
	rehearse := func(d *kernels.Device) error { return trainer.Rehearse(d, l.config, plan) }
	if err := table.rankByRank(func() error {
		if err := d.Precompile(ctx, rehearse, nil); err != nil {
			return err
		}
		return d.ChooseProducts(ctx, nil)
	}); err != nil {
		return err
	}
	m, err := model.New(d, l.config, plan.ModelOptions(l.config))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	randomWeights(m)
	weights, opt, err := optimizerOf(m, plan, table.group.Rank())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opt.Close(), weights.Close()) }()
	run := &trainer.Run{Plan: plan, Model: m, Optimizer: opt}
	if table.group != nil {
		if run.Ranks, err = trainer.NewRanks(table.group, m, weights, opt, plan); err != nil {
			return err
		}
		if n := run.Ranks.Note; n != "" {
			fmt.Fprintf(notes, "bench step: %s\n", n)
		}
	}
	r, err := l.time(ctx, o, run, passes)
	if err != nil {
		return err
	}
	if run.Ranks != nil {
		if err := run.Ranks.Close(); err != nil {
			return err
		}
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

// optimizerOf returns a rank's parts of the weights, which may be nil, and its optimizer.
func optimizerOf(m *model.Model, p *trainer.Plan, rank int) (*trainer.Weights, *optim.AdamW, error) {
	w, err := trainer.NewWeights(m, p, rank)
	if err != nil {
		return nil, nil, err
	}
	for layer := range m.Config().Layers {
		w.Keep(layer) // all have the same random weights
	}
	c := p.AdamW(rank)
	c.Shard.Weights = w.Parts()
	o, err := optim.New(m.Device(), m.Params(), c)
	if err != nil {
		err = errors.Join(err, w.Close())
	}
	return w, o, err
}

// time times the steps of a run.
func (l *stepLine) time(ctx context.Context, o *stepOptions, run *trainer.Run, passes []model.Batch) (
	r stepResult, err error) {
	d := run.Model.Device()
	targets := 0
	for _, p := range passes {
		targets += p.Targets()
	}
	if run.Ranks != nil {
		targets *= run.Ranks.Size() // every rank has as many
	}
	var last trainer.Updated
	var before, lasting float64
	var metered bool
	for i := 0; i < o.warmup+o.steps || lasting < o.seconds; i++ {
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if i == o.warmup {
			d.Profile() // resets it
			before, metered = d.Energy()
		}
		start := time.Now()
		if last, err = run.Update(passes, float32(1/float64(targets)), 1e-5); err != nil {
			return r, err
		}
		if took := time.Since(start).Seconds(); i >= o.warmup {
			r.Seconds = append(r.Seconds, took)
			lasting += took
		}
	}
	if after, known := d.Energy(); metered && known && run.Ranks == nil { // it is the energy of one GPU
		r.Joules = max(after-before, 0) // 0: unknown, because a processor's counter started again
	}
	r.Loss = last.Loss / float64(targets)
	r.Memory = int64(d.InUse())
	return r, nil
}

// runBeside has another program time one line. An earlier line, which this program timed, has already measured the
// ceiling.
func (l *stepLine) runBeside(ctx context.Context, o *stepOptions, table *stepTable) error {
	r, err := beside(ctx, l.command, besideStep{
		Config: l.file, Batch: l.batch, Seq: l.seq, Accumulate: l.accumulate, Trained: l.settings.TrainOnly,
		LoRA: l.besideLoRA(), Base: l.settings.QuantizeBase,
		DType: table.dtype, Device: table.device, Warmup: o.warmup, Steps: o.steps, Lasting: o.seconds,
	})
	if err != nil {
		return err
	}
	return table.add(l, r)
}

// besideLoRA returns the description of the adapters for another program, or nil without adapters.
func (l *stepLine) besideLoRA() *besideLoRA {
	if !l.settings.Adapts() {
		return nil
	}
	return &besideLoRA{l.settings.LoRA.Rank, l.settings.LoRA.Alpha}
}

// passes returns passes of random tokens. Every token but the first of its sequence is a target.
func (l *stepLine) passes(rank int) (passes []model.Batch) {
	r := rand.New(rand.NewPCG(1, 2+uint64(rank)))
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

// randomWeights fills matrices with normal values of standard deviation 0.02, and norms with 1.
func randomWeights(m *model.Model) {
	values, ones := normalValues(0.02), slices.Repeat([]float32{1}, 1<<14)
	rows := map[string][]byte{} // of quantized weights, by their type and width
	for _, p := range m.Params() {
		switch {
		case p.W.DType.Quantized():
			form := fmt.Sprint(p.W.DType, p.W.Dim(-1))
			if rows[form] == nil {
				rows[form] = quantizedRows(p.W, values)
			}
			fillRows(m.Device(), p.W, rows[form])
		case p.Norm:
			fill(m.Device(), p.W, ones)
		default:
			fill(m.Device(), p.W, values)
		}
	}
}

// quantizedRows quantizes as many rows of w as there are values for, and at least one. That is some hundred, because a
// GPU takes less power for rows that are all alike.
func quantizedRows(w tensor.Tensor, values []float32) []byte {
	in := w.Dim(-1)
	n := max(1, len(values)/in)
	rows := make([]byte, n*w.DType.RowBytes(in))
	values = slices.Repeat(values, n*in/len(values)+1)[:n*in]
	if err := quant.RuleFor(w.DType).Quantize(rows, values, in); err != nil {
		panic(err) // the sizes agree, and the values are finite
	}
	return rows
}

// fillRows repeats rows throughout a tensor of quantized weights.
func fillRows(d *kernels.Device, w tensor.Tensor, rows []byte) {
	whole := tensor.Tensor{DType: tensor.U8, Shape: []int{w.Bytes()}, Addr: w.Addr}
	for from := 0; from < w.Bytes(); from += len(rows) {
		to := min(from+len(rows), w.Bytes())
		d.UploadBytes(whole.Slice(from, to), rows[:to-from])
	}
}
