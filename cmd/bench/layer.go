package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"restyle/cmd/bench/results"
	"restyle/internal/cli"
	"restyle/internal/measure"
	"restyle/internal/plot"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

const aboutLayer = `
bench layer runs one layer of a model with random weights, forward alone and forward and backward, and
prints the times of its parts. Around the layer are an embedding and a head of 32 tokens, which are
among the parts.

  bench layer --config llama-2-7b
  bench layer --config llama-2-70b,llama-3.1-8b --tokens 512,4096 --device cuda --out docs/bench/mine
  bench layer --config llama-3.2-1b --tokens 512 --ablation

With --ablation it fuses nothing, everything, everything but one operation, and one operation alone.`

// layerOptions are the flags.
type layerOptions struct {
	pageOptions
	config, tokens, dtype, passes string
	ablation                      bool
	iterations                    int
	seconds                       float64

	shapes []shape
	at     []int // numbers of tokens
	t      tensor.DType
}

func newLayerOptions(args []string) *layerOptions {
	return &layerOptions{pageOptions: newPageOptions(args), config: "llama-3.2-1b", tokens: "512,1024,2048,4096",
		dtype: "bf16", passes: "forward,training", iterations: 50, seconds: 10}
}

func (o *layerOptions) flags(stdout, stderr io.Writer) *cli.Flags {
	f := cli.New("bench layer", aboutLayer, stdout, stderr)
	f.Group("Measurement")
	f.Add(&o.config, "config", configHelp)
	f.Add(&o.tokens, "tokens", "tokens of the sequence, `numbers` separated by commas")
	f.Add(&o.passes, "passes", "`passes`: forward, training (forward and backward), or both, separated by a comma")
	f.Add(&o.ablation, "ablation", "also all fused operations but one, and one alone")
	f.Add(&o.dtype, "dtype", "type of weights and activations, `bf16|fp32`")
	f.Add(&o.iterations, "iterations", "timings of each row; the result is the median")
	f.Add(&o.seconds, "seconds", "at most about this many `seconds` for the timings of a pass in all forms, but at least "+
		"three timings each")
	o.add(f)
	return f
}

func runLayer(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := newLayerOptions(append([]string{"layer"}, args...))
	return runMeasurement(ctx, "layer", o, &o.pageOptions, args, stdout, stderr)
}

func (o *layerOptions) kernelOptions() kernels.Options {
	return kernels.Options{NoBF16: o.t == tensor.F32}
}

// check parses the flags.
func (o *layerOptions) check() (err error) {
	if o.shapes, err = shapesOf("--config", o.config); err != nil {
		return err
	}
	if o.at, err = numbers("--tokens", o.tokens); err != nil {
		return err
	}
	if o.t, err = benchDType(o.dtype); err != nil {
		return err
	}
	for p := range strings.SplitSeq(o.passes, ",") {
		if p != "forward" && p != "training" {
			return fmt.Errorf("--passes %q: must be forward, training, or both", o.passes)
		}
	}
	return checkTimings(o.iterations, o.seconds)
}

var layerKeys = []results.Column{
	{Name: "model", Type: results.Text, Role: results.Key},
	{Name: "type", Type: results.Text, Role: results.Key},
	{Name: "tokens", Type: results.Integer, Role: results.Key},
	{Name: "pass", Type: results.Text, Role: results.Key},
	{Name: "fused", Type: results.Text, Role: results.Key},
}

var layerColumns = slices.Concat(layerKeys, []results.Column{
	{Name: "time", Type: results.Number, Role: results.Time, Unit: "ms", About: "median of a pass"},
	{Name: "noise", Type: results.Number, Role: results.Noise, Unit: "%",
		About: "half the width of the median's 95% confidence interval"},
	{Name: "timings", Type: results.Integer, About: "number of timings"},
	{Name: "rate", Type: results.Number, Unit: "tokens/s", About: "through this layer"},
	{Name: "tflops", Type: results.Number, Unit: "TFLOP/s", About: "of the operations that the layer's matrices and " +
		"attention need"},
	{Name: "of_product", Type: results.Number, Unit: "%", About: "of what a bare product reaches in the same run"},
	{Name: "speedup", Type: results.Number, Unit: "×", About: "how many times as fast as without fused operations"},
	{Name: "speedup_noise", Type: results.Number, Unit: "%"},
	{Name: "memory", Type: results.Number, Unit: "MiB",
		About: "weights, gradients, activations and scratch memory, as the " +
			"allocator counts them"},
	{Name: "saved", Type: results.Number, Unit: "%", About: "memory that the pass without fused operations takes and " +
		"this one does not"},
	{Name: "why", Type: results.Text, Role: results.Why, About: "why nothing was measured"},
})

var partColumns = slices.Concat(layerKeys, []results.Column{
	{Name: "part", Type: results.Text, Role: results.Key},
	{Name: "count", Type: results.Integer, About: "runs in a pass"},
	{Name: "time", Type: results.Number, Role: results.Time, Unit: "ms",
		About: "of all of them; on a GPU each kernel is " +
			"waited for, so the sum is more than the pass takes"},
	{Name: "share", Type: results.Number, Unit: "%", About: "of the sum of all parts"},
	{Name: "tflops", Type: results.Number, Unit: "TFLOP/s", About: "of products"},
})

// sets returns the sets of fused operations that are measured for a model.
func (o *layerOptions) sets(c model.Config) (sets []kernels.Fused) {
	sets = []kernels.Fused{{}, kernels.All()}
	if !o.ablation {
		return sets
	}
	for _, but := range []bool{true, false} {
		for _, op := range kernels.FusedOps {
			// The loss is not a part of a layer.
			if op == "crossentropy" || op == "layernorm" && !c.LayerNorm || op == "rmsnorm" && c.LayerNorm ||
				op == "swiglu" && c.GELU != "" || op == "linear_activation" && c.GELU == "" {
				continue
			}
			set := kernels.Fused{op: true}
			if but {
				set = kernels.All()
				delete(set, op)
			}
			sets = append(sets, set)
		}
	}
	return sets
}

// setName names a set for a row.
func setName(f kernels.Fused) string {
	switch missing := slices.DeleteFunc(slices.Clone(kernels.FusedOps), func(op string) bool { return f[op] }); {
	case len(missing) == 1:
		return "all but " + missing[0]
	case len(missing) == len(kernels.FusedOps)-1:
		return "only " + f.String()
	}
	return f.String()
}

// measure measures all rows that are missing.
func (o *layerOptions) measure(ctx context.Context, s *session, d *kernels.Device) error {
	settings := fmt.Sprintf("%d timings, %g seconds", o.iterations, o.seconds)
	table, err := s.table(results.Table{Name: "layer", Title: "Layers", Columns: layerColumns, Settings: settings})
	if err != nil {
		return err
	}
	parts, err := s.table(results.Table{Name: "layer-parts", Title: "Parts of a layer", Columns: partColumns,
		Settings: settings})
	if err != nil {
		return err
	}
	for _, shape := range o.shapes {
		for _, tokens := range o.at {
			for pass := range strings.SplitSeq(o.passes, ",") {
				l := &layerRun{o: o, d: d, shape: shape, tokens: tokens, training: pass == "training",
					sets: o.sets(shape.config)}
				for _, f := range l.sets {
					l.rows = append(l.rows, results.Row{"model": shape.name, "type": o.t.String(), "tokens": float64(tokens),
						"pass": pass, "fused": setName(f)})
				}
				if !slices.ContainsFunc(l.rows, func(r results.Row) bool { return !table.Done(r) }) {
					continue
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
				s.status.Draw(fmt.Sprintf("%s, %d tokens, %s", shape.name, tokens, pass))
				ceiling, err := ceilingOf(d, o.t)
				if err != nil {
					return err
				}
				err = attempt(func() error { return l.run(ctx, ceiling) })
				if err != nil && ctx.Err() != nil || d.Err() != nil {
					return err
				}
				for _, r := range l.rows {
					if err != nil {
						r["why"] = err.Error()
					}
					if err := s.Add(table, r); err != nil {
						return err
					}
					if err := printLayer(s.stdout, r); err != nil {
						return err
					}
				}
				for _, r := range l.parts {
					if err := s.Add(parts, r); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// A layerRun is a layer at a length, in one kind of pass and several forms.
type layerRun struct {
	o           *layerOptions
	d           *kernels.Device
	shape       shape
	tokens      int
	training    bool
	sets        []kernels.Fused
	rows, parts []results.Row
}

// flops returns the operations of a pass: two per weight and token and, with causal attention, two per pair of a query
// and a key in each of two products; three times as many with the backward pass.
func (l *layerRun) flops() float64 {
	c, n := l.config(), float64(l.tokens)
	weights := 0
	for _, p := range c.Params() {
		if p.Layer == 0 && len(p.W.Shape) == 2 {
			weights += p.W.Len()
		}
	}
	flops := 2*float64(weights)*n + 4*float64(c.Heads*c.HeadDim)*n*(n+1)/2
	if l.training {
		flops *= 3
	}
	return flops
}

// config returns the model of one layer.
func (l *layerRun) config() model.Config {
	c := l.shape.config
	c.Layers = 1
	c.Vocab = 32
	c.PadID = -1
	c.BOS = nil
	c.EOS = nil
	return c
}

func (l *layerRun) run(ctx context.Context, ceiling measure.Ceiling) (err error) {
	c := l.config()
	if l.tokens > c.Positions() {
		return fmt.Errorf("the model has %d positions", c.Positions())
	}
	flops := l.flops()
	if least := flops / ceiling.FLOPs; least > l.o.maxTime.Seconds() {
		return fmt.Errorf("a pass takes %.1f s or more, longer than --max-time %v", least, l.o.maxTime)
	}
	options := model.Options{DType: l.o.t, MaxTokens: l.tokens, Longest: l.tokens, Train: l.training}
	most := 0
	for i, f := range l.sets {
		m := model.MemoryOf(l.d, f, c, options)
		sum := m.Weights + m.Gradients + m.Activations + m.Angles + m.Scratch
		most = max(most, sum)
		l.rows[i].Set("memory", mib(sum))
		l.rows[i].Set("saved", 1-float64(sum)/(1<<20)/l.rows[0].Number("memory"))
	}
	delete(l.rows[0], "saved")
	if free, whose, known := l.d.Free(); known && most > free {
		return fmt.Errorf("needs %s, but %s has %s", kernels.Bytes(most), whose, kernels.Bytes(free))
	}
	pass, done, err := l.open(l.d, c, options)
	if err != nil {
		return err
	}
	var works []measure.Work
	for _, f := range l.sets {
		works = append(works, func(times int) error {
			l.d.SetFused(f)
			for range times {
				if err := pass(); err != nil {
					return err
				}
			}
			return l.d.Sync()
		})
	}
	samples, err := measure.Turns(ctx, measure.Options{Warmup: 2, Iterations: l.o.iterations, Least: 3,
		Budget: time.Duration(l.o.seconds * float64(time.Second))}, works...)
	if err = errors.Join(err, done()); err != nil {
		return err
	}
	for i, sample := range samples {
		seconds, r := sample.Median(), l.rows[i]
		for name, v := range map[string]float64{"time": 1e3 * seconds, "noise": sample.Noise(),
			"timings": float64(len(sample.Seconds)), "rate": float64(l.tokens) / seconds, "tflops": flops / seconds / 1e12,
			"of_product": flops / seconds / ceiling.FLOPs} {
			r.Set(name, v)
		}
		if i > 0 {
			ratio := sample.Faster(samples[0])
			r.Set("speedup", ratio.Times)
			r.Set("speedup_noise", ratio.Noise)
		}
	}
	return l.profile(c, options)
}

// open opens the model of one layer, and returns a function that makes a pass, and one that closes the model.
func (l *layerRun) open(d *kernels.Device, c model.Config, options model.Options) (pass, done func() error, err error) {
	m, err := model.New(d, c, options)
	if err != nil {
		return nil, nil, err
	}
	randomWeights(m)
	r := rand.New(rand.NewPCG(1, 2))
	ids := make([]int32, l.tokens)
	for i := range ids {
		ids[i] = int32(r.IntN(c.Vocab))
	}
	b := model.Batch{IDs: ids, Labels: ids}
	pass = func() error {
		_, err := m.Loss(b)
		return err
	}
	if l.training {
		pass = func() error {
			_, err := m.Gradient(b, 1/float32(l.tokens-1), model.Gradients{Overwrite: true})
			return err
		}
	}
	return pass, m.Close, nil
}

// profile times the parts of a pass without and with all fused operations, on a device that times every kernel.
func (l *layerRun) profile(c model.Config, options model.Options) (err error) {
	d, err := l.o.open(kernels.Options{Sync: true, NoBF16: l.o.t == tensor.F32}, io.Discard)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	pass, done, err := l.open(d, c, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	for i, f := range l.sets[:2] {
		d.SetFused(f)
		const runs = 3
		for n := range runs + 1 {
			if n == 1 { // after a warm-up
				d.Profile()
			}
			if err := errors.Join(pass(), d.Sync()); err != nil {
				return err
			}
		}
		list := d.Profile()
		var sum time.Duration
		for _, t := range list {
			sum += t.Time
		}
		for _, t := range list {
			r := results.Row{"part": t.Kernel, "count": float64(t.Count / runs)}
			for _, key := range layerKeys {
				r[key.Name] = l.rows[i][key.Name]
			}
			r.Set("time", 1e3*t.Time.Seconds()/runs)
			r.Set("share", float64(t.Time)/float64(sum))
			if t.FLOPs > 0 {
				r.Set("tflops", t.FLOPs/t.Time.Seconds()/1e12)
			}
			l.parts = append(l.parts, r)
		}
	}
	return nil
}

// printLayer prints a row in a line.
func printLayer(w io.Writer, r results.Row) (err error) {
	name := fmt.Sprintf("%s, %s, %v tokens, %s, %s", r["model"], r["type"], r["tokens"], r["pass"], r["fused"])
	if why := r.Text("why"); why != "" {
		_, err = fmt.Fprintf(w, "%s: %s\n", name, why)
		return err
	}
	if noise := r.Number("noise"); noise > measure.MaxNoise {
		_, err = fmt.Fprintf(w, "%-58s too noisy, ±%.0f%%\n", name, 100*noise)
		return err
	}
	_, err = fmt.Fprintf(w, "%-58s %9s ms ±%.0f%% %8.4g TFLOP/s", name, plot.Digits(r.Number("time"), 4),
		100*r.Number("noise"), r.Number("tflops"))
	if x := r.Number("speedup"); x > 0 && err == nil {
		_, err = fmt.Fprintf(w, ", %v", measure.Ratio{Times: x, Noise: r.Number("speedup_noise")})
	}
	if err == nil {
		_, err = fmt.Fprintln(w)
	}
	return err
}

// layerSection says what the rows mean, and draws them.
func layerSection(t *results.Table) (s results.Section) {
	s.Words = []string{"The layer is really run: norms, products, rotation, attention, residuals and MLP, one after the " +
		"other, with random weights."}
	bars := &plot.Bars{Title: "Layers with fused operations", Label: "times as fast as without fused operations",
		Subtitle: "the whisker is the noise of both medians; blue is forward, orange forward and backward"}
	var groups []string
	var all []float64 // speedups of all operations together
	for _, r := range t.Rows {
		if v := r.Number("speedup"); v > 0 {
			if r["fused"] == "all" {
				all = append(all, v)
			}
			color := 0
			if r["pass"] == "training" {
				color = 1
			}
			bars.Bars = append(bars.Bars, plot.Bar{Name: fmt.Sprintf("%s, %v tokens, %s", r["model"], r["tokens"], r["fused"]),
				Ratio: v, Noise: r.Number("speedup_noise"), Color: color})
		}
		if g := fmt.Sprintf("%s, %s", r["model"], r["pass"]); !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	if len(all) > 0 {
		s.Headline = fmt.Sprintf("with all operations fused, a layer is %s to %s times as fast as with none.",
			plot.Digits(slices.Min(all), 3), plot.Digits(slices.Max(all), 3))
	}
	if len(bars.Bars) > 0 {
		s.Pictures = append(s.Pictures, results.Picture{Name: "layer-speedup", Alt: bars.Title, SVG: bars.SVG()})
	}
	points := func(g, form, column string) (at [][2]float64) {
		for _, r := range t.Rows {
			v := r.Number(column)
			if fmt.Sprintf("%s, %s", r["model"], r["pass"]) == g && r["fused"] == form && !math.IsNaN(v) {
				at = append(at, [2]float64{r.Number("tokens"), v})
			}
		}
		return at
	}
	for _, p := range []struct{ name, title, column, unit string }{
		{"layer-rate", "Tokens per second through one layer", "rate", "tokens/s"},
		{"layer-memory", "Memory of one layer", "memory", "MiB"},
	} {
		c := curves(p.title, p.unit, true, groups, func(g string) []plotted {
			fused := plotted{g + ", fused", points(g, "all", p.column), false}
			if len(groups) > 6 { // more than three models: too many to tell apart
				return []plotted{fused}
			}
			return []plotted{fused, {g + ", standard", points(g, "none", p.column), true}}
		})
		c.X.Label = "tokens of the sequence"
		if len(c.Series) > 0 {
			s.Pictures = append(s.Pictures, results.Picture{Name: p.name, Alt: p.title, SVG: c.SVG()})
		}
	}
	return s
}
