package main

import (
	"context"
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
	"restyle/trainer/report"
)

const aboutStep = `
bench step times training steps of a model with random weights on random tokens: forward, backward,
clipping and AdamW. Nothing is downloaded: a configuration is enough, and that of Llama-3.2-1B is
built in.

  bench step
  bench step --device cuda --shapes 1x512x4,4x512,8x2048 --fused both --log benchmark_log.csv
  bench step --model path/to/config.json --train-only mlp

Each line is a shape: sequences of a pass x tokens of each, and x passes of a step where there are several.`

// llama1B is the shape of Llama-3.2-1B.
var llama1B = model.Config{
	Family: "llama", Vocab: 128256, Dim: 2048, Inner: 8192, Layers: 16, Heads: 32, KVHeads: 8, HeadDim: 64, MaxPositions: 131072,
	NormEps: 1e-5, RoPETheta: 500000, Tied: true, PadID: -1,
	RoPEScaling: &model.Llama3Scaling{Factor: 32, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: 8192},
}

// stepOptions are the flags.
type stepOptions struct {
	model, shapes, fused, trainOnly, recompute, optimizer, master, dtype, gradients string
	steps, warmup, headRows                                                         int
	device, log, label                                                              string
	threads                                                                         int
	own, sync, apart                                                                bool
}

func (o *stepOptions) flags(out io.Writer) *cli.Flags {
	f := cli.New("bench step", aboutStep, out)
	f.Group("What is timed")
	f.Add(&o.model, "model", "config.json of the model, a `file`; default: the shape of Llama-3.2-1B")
	f.Add(&o.shapes, "shapes", "the `shapes`, with commas between them")
	f.Add(&o.fused, "fused", "how operations run: none (one a kernel), all (fused), both, or a `set` such as rmsnorm,swiglu")
	f.Add(&o.trainOnly, "train-only", "`patterns` of the parameters that are trained, such as mlp; default all")
	f.Add(&o.recompute, "recompute", "what the backward pass computes again, `none|attention|block`")
	f.Add(&o.gradients, "gradients", "how much of the gradients there is at a time, `step|block`, as train has it")
	f.Add(&o.headRows, "head-rows", "rows of logits at a time; 0 for as many as train has on the device")
	f.Add(&o.apart, "apart", "have the passes of a step go through a GPU one after the other; together, if not given, as train does")
	f.Add(&o.dtype, "dtype", "type of weights and activations, `bf16|fp32`")
	f.Add(&o.optimizer, "optimizer", "`adamw8bit|adamw`")
	f.Add(&o.master, "master", "what stands behind bf16 weights, `split8|sr|fp32|none`")
	f.Add(&o.steps, "steps", "steps that are timed; the median counts")
	f.Add(&o.warmup, "warmup", "steps before them")

	f.Group("What is written")
	f.Add(&o.log, "log", "also add a row for each line to this CSV `file`")
	f.Add(&o.label, "label", "a word of your own in those rows")

	f.Group("Where it runs")
	f.Add(&o.device, "device", cli.DeviceHelp)
	f.Add(&o.own, "own-products", "on a GPU, multiply matrices by restyle's own kernels, not by cuBLASLt")
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
	notes := stderr
	for _, l := range lines {
		if err = l.run(ctx, o, stdout, notes); err != nil {
			break
		}
		notes = io.Discard // each has a device of its own, and the same notes
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "bench step: stopped")
		return cli.Failed
	case err != nil:
		fmt.Fprintf(stderr, "bench step: %v\n", err)
		return cli.Failed
	}
	return cli.Done
}

// A stepLine is one thing that is timed.
type stepLine struct {
	batch, seq, accumulate int
	config                 model.Config
	name                   string // of the model
	fused                  kernels.Fused
	settings               trainer.Settings
}

// benchModel is the configuration that --model names, Llama-3.2-1B's if it names none, and what the model is called.
func benchModel(path string) (c model.Config, name string, err error) {
	if path == "" {
		return llama1B, "Llama-3.2-1B, random weights", nil
	}
	data, err := os.ReadFile(path)
	if err == nil {
		c, err = hf.ParseConfig(data)
	}
	if err != nil {
		return c, "", fmt.Errorf("--model: %w", err)
	}
	return c, path, nil
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
	if l.config, l.name, err = benchModel(o.model); err != nil {
		return nil, err
	}
	if o.steps < 1 || o.warmup < 0 {
		return nil, fmt.Errorf("--steps %d, --warmup %d: give at least one step, and no fewer than 0 before", o.steps, o.warmup)
	}
	s := &l.settings
	s.Optimizer = optim.Default
	if s.Optimizer.Master, err = optim.ParseMaster(o.master); err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	if s.BlockGradients = o.gradients == "block"; !s.BlockGradients && o.gradients != "step" {
		return nil, fmt.Errorf("--gradients %q is neither step nor block", o.gradients)
	}
	bits, ok := map[string]int{"adamw8bit": 8, "adamw": 32}[o.optimizer]
	if !ok {
		return nil, fmt.Errorf("--optimizer %q is neither adamw8bit nor adamw", o.optimizer)
	}
	s.Optimizer.Bits = bits
	if s.Recompute, err = model.ParseRecompute(o.recompute); err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	if s.DType, err = benchDType(o.dtype); err != nil {
		return nil, err
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
func (l *stepLine) run(ctx context.Context, o *stepOptions, stdout, notes io.Writer) (err error) {
	d, err := kernels.Open(o.device, kernels.Options{
		Threads: o.threads, Fused: l.fused, OwnProducts: o.own, Sync: o.sync, NoBF16: l.settings.DType == tensor.F32,
	})
	if err != nil {
		return err
	}
	for _, n := range d.Notes() {
		fmt.Fprintf(notes, "bench step: %s\n", n)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	passes := l.passes()
	if l.settings.BlockGradients || d.Capacity() > 0 && !o.apart {
		passes = []model.Batch{model.Join(passes...)}
	}
	if !d.IsCPU() && len(passes) == 1 && l.settings.DType == tensor.BF16 {
		l.settings.GradType = tensor.BF16
	}
	plan := &trainer.Plan{MaxTokens: len(passes[0].IDs), Longest: l.seq}
	l.settings.HeadBytes = o.headRows * l.config.Vocab * (tensor.F32.Size() + l.settings.DType.Size())
	options := l.settings.ModelOptions(l.config, plan)
	m, err := model.New(d, l.config, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	randomWeights(m)
	opt, err := optim.New(d, m.Params(), l.settings.Optimizer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opt.Close()) }()
	run := trainer.Run{Settings: l.settings, Model: m, Optimizer: opt}
	trained := 0
	for _, p := range passes {
		trained += p.Trained()
	}
	var seconds []float64
	var last kernels.Record
	var before kernels.Meters
	for i := range o.warmup + o.steps {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if i == o.warmup {
			d.Profile() // from here on it counts
			before, _ = d.Meters()
		}
		start := time.Now()
		if last, err = run.Move(passes, float32(1/float64(trained)), 1e-5); err != nil {
			return err
		}
		if i >= o.warmup {
			seconds = append(seconds, time.Since(start).Seconds())
		}
	}
	after, metered := d.Meters()
	joules := 0.0 // a step's
	if metered && before.Energy > 0 {
		joules = float64(after.Energy-before.Energy) / 1e3 / float64(o.steps)
	}
	if err := l.print(o, d, options, seconds, joules, last.Loss/float64(trained), stdout); err != nil || !o.sync {
		return err
	}
	return kernels.PrintProfile(stdout, d.Profile(), o.steps)
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

// randomWeights fills matrices with the same normal values of deviation 0.02 again and again, which is quick and as good for time.
func randomWeights(m *model.Model) {
	d := m.Device()
	r := rand.New(rand.NewPCG(3, 4))
	values := make([]float32, 1<<20)
	for i := range values {
		values[i] = float32(0.02 * r.NormFloat64())
	}
	ones := slices.Repeat([]float32{1}, 1<<14)
	for _, p := range m.Params() {
		w, from := p.W.View(p.W.Len()), values
		if p.Norm {
			from = ones
		}
		have := min(w.Len(), len(from))
		d.Upload(w.Slice(0, have), from[:have])
		for ; have < w.Len(); have *= 2 {
			n := min(have, w.Len()-have)
			d.Copy(w.Slice(have, have+n), w.Slice(0, n))
		}
	}
}

// print writes a line, and adds it to the log.
func (l *stepLine) print(o *stepOptions, d *kernels.Device, options model.Options, seconds []float64, joules, loss float64, stdout io.Writer) error {
	slices.Sort(seconds)
	median := seconds[len(seconds)/2]
	tokens := l.batch * l.seq * l.accumulate
	flops := model.FLOPs(l.config, options, float64(l.seq+1)/2) * float64(tokens)
	row := report.BenchmarkRow{
		Time: time.Now(), Mode: "standard", Wall: time.Duration(median * float64(time.Second)), TotalTokens: int64(tokens), TrainedTokens: int64(tokens - l.batch*l.accumulate),
		PaddedTokens: int64(tokens), PeakMemory: int64(d.Allocated()), TFLOPS: flops / median / 1e12, Device: d.Name(), DType: o.dtype, Model: l.name,
		Batch: l.batch, Seq: l.seq, Accumulate: l.accumulate, Label: o.label, Version: cli.Version(),
		Joules: joules,
	}
	if l.fused.String() != "none" {
		row.Mode = "fused"
	}
	memory := kernels.Bytes(d.Allocated())
	if free, _, known := d.Free(); known && d.Capacity() > 0 { // of a GPU that nobody else uses
		row.PeakMemory = int64(d.Capacity() - free)
		memory += fmt.Sprintf(" (%s as the driver counts)", kernels.Bytes(int(row.PeakMemory)))
	}
	energy := ""
	if joules > 0 {
		energy = fmt.Sprintf(", %.1f J a thousand tokens", 1e3*joules/float64(tokens))
	}
	fmt.Fprintf(stdout, "%dx%dx%d %s%s: %.0f tokens/s, %.2f ms a step (%.2f to %.2f), %.1f TFLOP/s, %s%s, loss %.4f\n", l.batch, l.seq, l.accumulate, row.Mode,
		strings.TrimRight(" "+strings.Join(l.settings.TrainOnly, ","), " "), float64(tokens)/median, 1e3*median, 1e3*seconds[0], 1e3*seconds[len(seconds)-1],
		row.TFLOPS, memory, energy, loss)
	if o.log == "" {
		return nil
	}
	return report.AppendBenchmark(o.log, row)
}
