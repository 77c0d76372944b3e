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
bench decode times how a model with random weights answers, one token after another by greedy
decoding. It downloads nothing: it needs only a configuration, and that of Llama-3.2-1B is built in.
Each token reads all weights, so bench decode compares their bytes per second with those of a copy
within the device's memory, which it measures too.

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
	f.Group("Measurement")
	f.Add(&o.model, "model", "config.json of the model, a `file`; default: the shape of Llama-3.2-1B")
	f.Add(&o.context, "context", "tokens in the KV cache before the first timed token")
	f.Add(&o.tokens, "tokens", "timed tokens; the result is the median")
	f.Add(&o.warmup, "warmup", "tokens before the timed ones")
	f.Add(&o.fused, "fused", fusedHelp)
	f.Add(&o.dtype, "dtype", "type of weights and activations, `bf16|fp32`")

	f.Group("Device")
	f.Add(&o.device, "device", cli.DeviceHelp)
	f.Add(&o.sync, "sync", syncHelp)
	f.Add(&o.threads, "threads", threadsHelp)
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

// A decodeLine is a measurement.
type decodeLine struct {
	config model.Config
	name   string
	fused  kernels.Fused
	dtype  tensor.DType
}

// benchDType returns the type that --dtype names.
func benchDType(name string) (tensor.DType, error) {
	t, ok := map[string]tensor.DType{"bf16": tensor.BF16, "fp32": tensor.F32}[name]
	if !ok {
		return t, fmt.Errorf("--dtype %q: must be bf16 or fp32", name)
	}
	return t, nil
}

// line returns the measurement that the flags ask for.
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
		return l, fmt.Errorf("--context %d, --tokens %d, --warmup %d: must be at least 0, and --tokens at least 1",
			o.context, o.tokens, o.warmup)
	}
	if n := o.context + o.warmup + o.tokens; n > l.config.MaxPositions {
		return l, fmt.Errorf("--context %d, --warmup %d, --tokens %d: %d tokens in all, but the model has %d positions: "+
			"choose fewer",
			o.context, o.warmup, o.tokens, n, l.config.MaxPositions)
	}
	return l, nil
}

func (l *decodeLine) run(ctx context.Context, o *decodeOptions, stdout, notes io.Writer) (err error) {
	d, err := kernels.Open(o.device, kernels.Options{Threads: o.threads, Fused: l.fused, Sync: o.sync,
		NoBF16: l.dtype == tensor.F32})
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
	fmt.Fprintf(stdout, "%s, %s, %s, after %s: %.1f tokens/s, %.3f ms per token (%.3f to %.3f), "+
		"%.4g GB/s of weights (%s), %.1f%% of a copy's %.4g\n",
		l.name, o.dtype, form, cli.Count(o.context, "token"), 1/median, 1e3*median, 1e3*seconds[0],
		1e3*seconds[len(seconds)-1], rate/1e9, kernels.Bytes(weights), 100*rate/copied, copied/1e9)
	if !o.sync {
		return nil
	}
	return kernels.PrintProfile(stdout, d.Profile(), o.tokens)
}

// time returns the seconds that each timed token took.
func (l *decodeLine) time(ctx context.Context, o *decodeOptions, m *model.Model, cache *model.KVCache) (
	seconds []float64, err error) {
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
			m.Device().Profile() // resets it
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

// read returns how many bytes of weights a token reads: all weights, but only one row of the embedding, unless the
// embedding is also the head.
func (l *decodeLine) read(m *model.Model) (bytes int) {
	for _, p := range m.Params() {
		bytes += p.W.Bytes()
	}
	if !l.config.Tied {
		bytes -= (l.config.Vocab - 1) * l.config.Dim * l.dtype.Size()
	}
	return bytes
}
