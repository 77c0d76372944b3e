package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"restyle/internal/cli"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

const aboutDecode = `
bench decode times answers of a model with random weights, one token after the other, each the most likely one. Nothing is
downloaded: a configuration is enough, and that of Llama-3.2-1B is built in. For each token all weights are read, so their bytes
are compared with what a copy within the device's memory reads and writes, measured in the same call.

  bench decode
  bench decode --device cuda --context 2000 --tokens 200
  bench decode --model path/to/config.json --dtype fp32 --fused none`

// decodeOptions are the flags.
type decodeOptions struct {
	model, fused, dtype, device      string
	context, tokens, warmup, threads int
	sync                             bool
}

func (o *decodeOptions) flags(out io.Writer) *cli.Flags {
	f := cli.New("bench decode", aboutDecode, out)
	f.Group("What is timed")
	f.Add(&o.model, "model", "config.json of the model, a `file`; default: the shape of Llama-3.2-1B")
	f.Add(&o.context, "context", "tokens of the prompt, which are in the cache before the first that is timed")
	f.Add(&o.tokens, "tokens", "tokens that are timed; the median counts")
	f.Add(&o.warmup, "warmup", "tokens before them")
	f.Add(&o.fused, "fused", "how operations run: none (one a kernel), all (fused), or a `set` such as rmsnorm,swiglu")
	f.Add(&o.dtype, "dtype", "type of weights and activations, `bf16|fp32`")

	f.Group("Where it runs")
	f.Add(&o.device, "device", cli.DeviceHelp)
	f.Add(&o.sync, "sync", "on a GPU, wait for and time every kernel, and print how long each took: slower in all")
	f.Add(&o.threads, "threads", "threads of the CPU; 0 for all")
	return f
}

func runDecode(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := &decodeOptions{context: 128, tokens: 100, warmup: 10, fused: "all", dtype: "bf16", device: "auto"}
	flags := o.flags(stderr)
	if code, done := flags.Parse(args); done {
		return code
	}
	l, err := o.line()
	if err != nil {
		fmt.Fprintf(stderr, "bench decode: %v\nsee bench decode -h\n", err)
		return cli.Usage
	}
	err = l.run(ctx, o, stdout, stderr)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "bench decode: stopped")
		return cli.Failed
	case err != nil:
		fmt.Fprintf(stderr, "bench decode: %v\n", err)
		return cli.Failed
	}
	return cli.Done
}

// A decodeLine is what is timed.
type decodeLine struct {
	config model.Config
	name   string
	fused  kernels.Fused
	dtype  tensor.DType
}

// line is what the flags ask for.
func (o *decodeOptions) line() (l decodeLine, err error) {
	if l.config, _, l.name, err = benchModel(o.model); err != nil {
		return l, err
	}
	if l.fused, err = kernels.ParseFused(o.fused); err != nil {
		return l, fmt.Errorf("--fused: %w", err)
	}
	if l.dtype, err = benchDType(o.dtype); err != nil {
		return l, err
	}
	if o.context < 0 || o.tokens < 1 || o.warmup < 0 {
		return l, fmt.Errorf("--context %d, --tokens %d, --warmup %d: give at least one token, and no fewer than 0 before", o.context, o.tokens, o.warmup)
	}
	if n := o.context + o.warmup + o.tokens; n > l.config.MaxPositions {
		return l, fmt.Errorf("--context %d, --warmup %d and --tokens %d are %d together, and the model has %d positions",
			o.context, o.warmup, o.tokens, n, l.config.MaxPositions)
	}
	return l, nil
}

func (l *decodeLine) run(ctx context.Context, o *decodeOptions, stdout, notes io.Writer) (err error) {
	d, err := kernels.Open(o.device, kernels.Options{Threads: o.threads, Fused: l.fused, Sync: o.sync, NoBF16: l.dtype == tensor.F32})
	if err != nil {
		return err
	}
	for _, n := range d.Notes() {
		fmt.Fprintf(notes, "bench decode: %s\n", n)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	copied, err := d.CopyRate()
	if err != nil {
		return err
	}
	m, err := model.New(d, l.config, model.Options{DType: l.dtype})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	randomWeights(m)
	cache, err := m.NewKVCache(o.context + o.warmup + o.tokens)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cache.Close()) }()
	seconds, err := l.time(ctx, o, m, cache)
	if err != nil {
		return err
	}
	again, err := d.CopyRate()
	if err != nil {
		return err
	}
	copied = max(copied, again)
	form := "standard"
	if l.fused.String() != "none" {
		form = "fused"
	}
	slices.Sort(seconds)
	median, weights := seconds[len(seconds)/2], l.read(m)
	rate := float64(weights) / median
	fmt.Fprintf(stdout, "%s, %s, %s, behind %d tokens: %.1f tokens/s, %.3f ms a token (%.3f to %.3f), %.4g GB/s of weights (%s), %.1f %% of a copy's %.4g\n",
		l.name, o.dtype, form, o.context, 1/median, 1e3*median, 1e3*seconds[0], 1e3*seconds[len(seconds)-1], rate/1e9, kernels.Bytes(weights),
		100*rate/copied, copied/1e9)
	if !o.sync {
		return nil
	}
	return kernels.PrintProfile(stdout, d.Profile(), o.tokens)
}

// time is the seconds that each token took.
func (l *decodeLine) time(ctx context.Context, o *decodeOptions, m *model.Model, cache *model.KVCache) (seconds []float64, err error) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []int32 {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32(r.IntN(l.config.Vocab))
		}
		return ids
	}
	if o.context > 0 {
		if _, err := m.Extend(cache, random(o.context)); err != nil {
			return nil, err
		}
	}
	id := random(1)[0]
	for i := range o.warmup + o.tokens {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if i == o.warmup {
			m.Device().Profile() // from here on it counts
		}
		start := time.Now()
		if id, _, err = m.Greedy(cache, []int32{id}); err != nil {
			return nil, err
		}
		if id < 0 {
			return nil, errors.New("the logits are not finite")
		}
		if i >= o.warmup {
			seconds = append(seconds, time.Since(start).Seconds())
		}
	}
	return seconds, nil
}

// read is how many bytes of weights a token reads: all, but of an embedding that is not the head too one row.
func (l *decodeLine) read(m *model.Model) (bytes int) {
	for _, p := range m.Params() {
		bytes += p.W.Bytes()
	}
	if !l.config.Tied {
		bytes -= (l.config.Vocab - 1) * l.config.Dim * l.dtype.Size()
	}
	return bytes
}
