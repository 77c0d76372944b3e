package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"restyle/cmd/bench/results"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/measure"
	"restyle/internal/plot"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

const aboutInfer = `
bench infer times how models with random weights read a prompt and how they answer, at several
lengths of the context: tokens per second with the KV cache and without it, and the memory, as
planned and as allocated. It downloads nothing.

  bench infer --config llama-3.2-1b --out docs/bench/mine
  bench infer --device cuda --lengths 128,2000 --tokens 200 --sync
  bench infer --config small --moe --fused all
  bench infer --quantize int8,int4 --lengths 128,2000

Each token reads all weights, so bench infer compares their bytes per second with those of a copy
within the device's memory, which it measures too. Without the cache, a token costs what reading the
whole context costs: both are the same measurement. --moe times a mixture of experts beside each dense
model, and a dense model beside each mixture, for which a token takes the same multiplications.`

// inferOptions are the flags.
type inferOptions struct {
	pageOptions
	config, lengths, fused, dtype, quantize string
	tokens, warmup                          int
	moe, sync                               bool

	shapes  []shape
	sets    []kernels.Fused
	forms   []string
	weights []string // how they are quantized: names of infer.Quantizations, the first is ""
	at      []int    // lengths
	t       tensor.DType
}

func newInferOptions(args []string) *inferOptions {
	return &inferOptions{pageOptions: newPageOptions(args), config: "llama-3.2-1b",
		lengths: "32,64,128,256,512,1024,2048,4096", fused: "both", dtype: "bf16", tokens: 20, warmup: 3}
}

func (o *inferOptions) flags(stdout, stderr io.Writer) *cli.Flags {
	f := cli.New("bench infer", aboutInfer, stdout, stderr)
	f.Group("Measurement")
	f.Add(&o.config, "config", configHelp)
	f.Add(&o.moe, "moe", "also time the counterpart of each model with the same active size: of a dense one a mixture of "+
		"8 experts, 2 per token, and of a mixture of experts a dense one")
	f.Add(&o.lengths, "lengths", "tokens of the context, `numbers` separated by commas")
	f.Add(&o.tokens, "tokens", "timed tokens with the cache at each length; the result is the median")
	f.Add(&o.warmup, "warmup", "tokens before the timed ones")
	f.Add(&o.fused, "fused", fusedHelp+"; both for none and all")
	f.Optional("fused", "all")
	f.Add(&o.dtype, "dtype", "type of weights and activations, `bf16|fp32`")
	f.Add(&o.quantize, "quantize", "also time the models with quantized weights: `int8|int8x8|int4|nf4`, or several, "+
		"separated by commas; int8x8 also quantizes activations, on a GPU only if they have more than eight rows")
	f.Add(&o.sync, "sync", syncHelp)
	o.add(f)
	return f
}

func runInfer(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := newInferOptions(append([]string{"infer"}, args...))
	return runMeasurement(ctx, "infer", o, &o.pageOptions, args, stdout, stderr)
}

func (o *inferOptions) kernelOptions() kernels.Options {
	return kernels.Options{Sync: o.sync, NoBF16: o.t != tensor.BF16}
}

// check parses the flags.
func (o *inferOptions) check() (err error) {
	if o.shapes, err = shapesOf("--config", o.config); err != nil {
		return err
	}
	if o.moe {
		for i := 0; i < len(o.shapes); i += 2 {
			other, err := o.shapes[i].counterpart()
			if err != nil {
				return err
			}
			o.shapes = slices.Insert(o.shapes, i+1, other)
		}
	}
	if o.sets, o.forms, err = fusedSets(o.fused); err != nil {
		return err
	}
	if o.t, err = benchDType(o.dtype); err != nil {
		return err
	}
	if o.at, err = numbers("--lengths", o.lengths); err != nil {
		return err
	}
	o.weights = []string{""}
	if o.quantize != "" {
		o.weights = append(o.weights, strings.Split(o.quantize, ",")...)
	}
	for i, name := range o.weights {
		if _, known := infer.Quantizations[name]; !known || slices.Contains(o.weights[:i], name) {
			return fmt.Errorf("--quantize %q: must be int8, int8x8, int4 or nf4, or several of them, separated by commas",
				o.quantize)
		}
	}
	if o.tokens < 1 {
		return fmt.Errorf("--tokens %d: must be at least 1", o.tokens)
	}
	if o.warmup < 0 {
		return fmt.Errorf("--warmup %d: must be at least 0", o.warmup)
	}
	return nil
}

// numbers parses a list of positive numbers.
func numbers(flag, list string) (all []int, err error) {
	for part := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > 1<<20 {
			return nil, fmt.Errorf("%s %q: must be numbers from 1 to %d, separated by commas", flag, list, 1<<20)
		}
		all = append(all, n)
	}
	return all, nil
}

// What is timed at each length.
const (
	cached   = "with the cache"
	uncached = "without it"
	prefill  = "prefill"
)

var inferColumns = []results.Column{
	{Name: "model", Type: results.Text, Role: results.Key},
	{Name: "type", Type: results.Text, Role: results.Key},
	{Name: "form", Type: results.Text, Role: results.Key},
	{Name: "mode", Type: results.Text, Role: results.Key},
	{Name: "context", Type: results.Integer, Role: results.Key, Unit: "tokens"},
	{Name: "rate", Type: results.Number, Unit: "tokens/s", About: "tokens of the answer, or of the prompt for prefill"},
	{Name: "time", Type: results.Number, Role: results.Time, Unit: "ms", About: "median for a token, or for the whole " +
		"prompt"},
	{Name: "noise", Type: results.Number, Role: results.Noise, Unit: "%",
		About: "half the width of the median's 95% confidence interval"},
	{Name: "timings", Type: results.Integer, About: "number of timings"},
	{Name: "of_copy", Type: results.Number, Unit: "%", About: "bytes of weights, keys and values per second, as a share " +
		"of what a copy reaches in the same run"},
	{Name: "planned", Type: results.Number, Unit: "MiB", About: "memory as planned beforehand"},
	{Name: "allocated", Type: results.Number, Unit: "MiB", About: "memory as the allocator counts it afterwards"},
	{Name: "cache", Type: results.Number, Unit: "MiB", About: "the KV cache's part of the planned memory, with its " +
		"activations"},
	{Name: "why", Type: results.Text, Role: results.Why, About: "why nothing was measured"},
}

// measure measures all rows that are missing.
func (o *inferOptions) measure(ctx context.Context, s *session, d *kernels.Device) error {
	table, err := s.table(results.Table{Name: "infer", Title: "Answers", Columns: inferColumns,
		Settings: fmt.Sprintf("%d tokens after %d", o.tokens, o.warmup)})
	if err != nil {
		return err
	}
	for _, shape := range o.shapes {
		for i, fused := range o.sets {
			for _, weights := range o.weights {
				for _, length := range o.at {
					d.SetFused(fused)
					if err := o.answers(ctx, s, table, d, shape, o.forms[i], weights, length); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// answers measures the rows of a model at one length, unless the table has them.
func (o *inferOptions) answers(ctx context.Context, s *session, table *results.Table, d *kernels.Device, shape shape,
	form, weights string, length int) error {
	modes := []string{cached, uncached, prefill}
	rows := map[string]results.Row{}
	missing := false
	for _, mode := range modes {
		rows[mode] = results.Row{"model": shape.name, "type": o.typeOf(weights), "form": form, "mode": mode,
			"context": float64(length)}
		missing = missing || !table.Done(rows[mode])
	}
	if !missing {
		return nil
	}
	s.status.Draw(fmt.Sprintf("%s, %s, %s, %d tokens", shape.name, o.typeOf(weights), form, length))
	err := attempt(func() error { return o.length(ctx, s, d, shape, weights, length, rows) })
	if err != nil && ctx.Err() != nil || d.Err() != nil {
		return err
	}
	for _, mode := range modes {
		r := rows[mode]
		if err != nil {
			r["why"] = err.Error()
		}
		if err := s.Add(table, r); err != nil {
			return err
		}
		if err != nil {
			continue
		}
		found := fmt.Sprintf("%9s tokens/s ±%.0f%%, %s ms", plot.Digits(r.Number("rate"), 4), 100*r.Number("noise"),
			plot.Digits(r.Number("time"), 4))
		if noise := r.Number("noise"); noise > measure.MaxNoise {
			found = fmt.Sprintf("too noisy, ±%.0f%%", 100*noise)
		}
		_, printed := fmt.Fprintf(s.stdout, "%s, %s, %s, %d tokens, %-14s %s\n", shape.name, r["type"], r["form"], length,
			mode, found)
		if printed != nil {
			return printed
		}
	}
	if err != nil {
		_, err = fmt.Fprintf(s.stdout, "%s, %s, %s, %d tokens: %v\n", shape.name, o.typeOf(weights), form, length, err)
	}
	return err
}

// typeOf returns what a row's type says: the type of weights and activations, or how the weights are quantized.
func (o *inferOptions) typeOf(weights string) string {
	if weights == "" {
		return o.t.String()
	}
	return weights
}

// length measures a model at one length. If it cannot be measured, the error says why.
func (o *inferOptions) length(ctx context.Context, s *session, d *kernels.Device, shape shape, weights string,
	length int, rows map[string]results.Row) (err error) {
	d.SetINT8Activations(weights == infer.INT8x8)
	cfg, room := shape.config, length+o.warmup+o.tokens
	if room > cfg.Positions() {
		return fmt.Errorf("%d tokens with the timed ones: the model has %d positions", room, cfg.Positions())
	}
	ceiling, err := ceilingOf(d, o.t)
	if err != nil {
		return err
	}
	flops := model.FLOPs(cfg, model.Options{}, 0) * float64(length)
	if least := flops / ceiling.FLOPs; least > o.maxTime.Seconds() {
		return fmt.Errorf("reading the context takes %.0f s or more, longer than --max-time %v", least, o.maxTime)
	}
	options := model.Options{DType: o.t, Context: room, Quantization: infer.Quantizations[weights]}
	m := model.MemoryOf(d, d.Fused(), cfg, options)
	planned := m.Weights + m.Gradients + m.Activations + m.Angles + m.KVCache + m.Scratch
	if free, whose, known := d.Free(); known && planned > free {
		return fmt.Errorf("needs %s, but %s has %s", kernels.Bytes(planned), whose, kernels.Bytes(free))
	}
	if err := d.TrimScratch(); err != nil {
		return err
	}
	before := d.Allocated()
	mod, err := model.New(d, cfg, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mod.Close()) }()
	randomWeights(mod)
	cache, err := mod.NewKVCache(room)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cache.Close()) }()
	read, tokens, err := o.time(ctx, mod, cache, length)
	if err != nil {
		return err
	}
	// The keys and values of a token, of all layers.
	perToken := float64(2 * cfg.Layers * cfg.KVHeads * cfg.HeadDim * o.t.Size())
	bytes := float64(weightsRead(mod)) + perToken*float64(length)
	set := func(mode string, sample measure.Sample, count float64) {
		r := rows[mode]
		for name, v := range map[string]float64{"time": 1e3 * sample.Median(), "noise": sample.Noise(),
			"timings": float64(len(sample.Seconds)), "rate": count / sample.Median(), "planned": mib(planned),
			"allocated": mib(d.Allocated() - before), "cache": mib(m.KVCache)} {
			r.Set(name, v)
		}
	}
	set(cached, tokens, 1)
	set(uncached, read, 1)
	set(prefill, read, float64(length))
	rows[cached].Set("of_copy", bytes/tokens.Median()/ceiling.Bytes)
	if o.sync {
		return kernels.PrintProfile(s.stdout, d.Profile(), o.tokens)
	}
	return nil
}

func mib(bytes int) float64 { return float64(bytes) / (1 << 20) }

// time returns the times of reading a context, and of tokens that follow it.
func (o *inferOptions) time(ctx context.Context, m *model.Model, cache *model.KVCache, length int) (read,
	tokens measure.Sample, err error) {
	r := rand.New(rand.NewPCG(1, 2))
	ids := make([]int32, length)
	for i := range ids {
		ids[i] = int32(r.IntN(m.Config().Vocab))
	}
	read, err = measure.Run(ctx, measure.Options{Warmup: 1, Iterations: 10, Least: 3, Budget: 5 * time.Second},
		func(int) error {
			cache.Trim(0)
			_, err := m.Extend(cache, ids)
			return err
		})
	if err != nil {
		return read, tokens, err
	}
	id := ids[0]
	for i := range o.warmup + o.tokens {
		if ctx.Err() != nil {
			return read, tokens, ctx.Err()
		}
		if i == o.warmup {
			m.Device().Profile() // resets it
		}
		start := time.Now()
		if id, _, err = m.Greedy(cache, []int32{id}); err != nil {
			return read, tokens, err
		}
		if id < 0 {
			return read, tokens, errors.New("the logits are not finite")
		}
		if i >= o.warmup {
			tokens.Seconds = append(tokens.Seconds, time.Since(start).Seconds())
		}
	}
	return read, tokens, nil
}

// weightsRead returns how many bytes of weights a token reads: all weights, but only one row of the embedding, unless
// the embedding is also the head, and only the experts that it goes through.
func weightsRead(m *model.Model) (bytes int) {
	cfg, experts := m.Config(), 0
	for i, p := range m.Params() {
		switch {
		case i == 0 && !cfg.Tied:
			bytes += p.W.Slice(0, 1).Bytes()
		case strings.Contains(p.Name, ".experts."):
			experts += p.W.Bytes()
		default:
			bytes += p.W.Bytes()
		}
	}
	if x := cfg.Mixture; x != nil {
		bytes += experts / x.Experts * x.PerToken
	}
	return bytes
}
