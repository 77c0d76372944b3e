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
	"sync"
	"time"

	"restyle/infer"
	"restyle/infer/batch"
	"restyle/internal/cli"
	"restyle/internal/llamacpp"
	"restyle/internal/measure"
	"restyle/internal/models"
	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/model"
)

const aboutServe = `
bench serve times many answers at once, as serve gives them: each has a prompt of random tokens, and
all begin at the same time. With --beside it times llama.cpp in turns with it, on the CPU and with
the same number of threads.

  bench serve --config llama-3.2-1b --sequences 1,8,32,128
  bench serve --model FILE.gguf --beside FILE.gguf --device cpu --sequences 1,8
  bench serve --config llama-3.2-1b --sequences 32 --arrivals 100

RESTYLE_LLAMACPP names the directory of llama.cpp's libraries, as .ci/run installs them. The table
has tokens per second of all answers together: of the prompts, which is the time until the last has
its first token, and of what is generated after that, at the median and the quartiles. With --sync
tables of the kernels follow, of a model that is slower: a GPU runs no graphs then.`

// serveOptions are the flags.
type serveOptions struct {
	model, config, beside, dtype, quantize, device, sequences string
	prompt, answer, times, threads, rows, arrivals, adapters  int
	sync                                                      bool

	sampling infer.Sampling // except for the seed: each answer has its own
	counts   []int          // of sequences
}

func newServeOptions() *serveOptions {
	return &serveOptions{dtype: "auto", device: "auto", sequences: "1,8", prompt: 128, answer: 128, times: 5, rows: 512}
}

func (o *serveOptions) flags(stdout, stderr io.Writer) *cli.Flags {
	f := cli.New("bench serve", aboutServe, stdout, stderr)
	f.Group("Models")
	f.Add(&o.model, "model", "the `model`: a directory, a GGUF file, or a repository on the hub")
	f.Add(&o.config, "config", "instead, a model with random weights: a config.json, or a `name` as of bench infer")
	f.Add(&o.beside, "beside", "also time llama.cpp with this GGUF `file` of the same vocabulary")
	f.Add(&o.dtype, "dtype", "type of weights and activations, `auto|bf16|fp16|fp32`; auto is bf16 with --config")
	f.Add(&o.quantize, "quantize", "quantize the weights to `int8|int4|nf4` while the model is loaded")
	f.Group("Measurement")
	f.Add(&o.sequences, "sequences", "`numbers` of answers at once, separated by commas")
	f.Add(&o.prompt, "prompt", "tokens of each prompt")
	f.Add(&o.answer, "answer", "tokens of each answer, at least 2")
	f.Add(&o.rows, "rows", "most tokens of a step")
	f.Add(&o.adapters, "adapters", "adapters of rank 16 that share the model, with random weights: the answers are of "+
		"each of them and of the model itself, in turns")
	f.Add(&o.times, "times", "timings of each, after one that does not count")
	f.Add(&o.arrivals, "arrivals", "`number` of answers to ask for at random times, at half of the measured rate, to see "+
		"the time to the first token")
	f.Add(&o.sync, "sync", syncHelp)
	f.Group("Sampling")
	f.Add(&o.sampling.Temperature, "temperature", "temperature; 0 chooses the most likely token")
	f.Add(&o.sampling.TopK, "top-k", "keep this many of the most likely tokens; 0: all")
	f.Add(&o.sampling.TopP, "top-p", "keep the most likely tokens up to this probability; 0: all")
	f.Group("Device")
	f.Add(&o.device, "device", cli.DeviceHelp)
	f.Add(&o.threads, "threads", threadsHelp)
	return f
}

// check checks the flags.
func (o *serveOptions) check() error {
	if (o.model == "") == (o.config == "") {
		return errors.New("name a model with --model, or one with random weights with --config")
	}
	if _, known := infer.DTypes[o.dtype]; !known {
		return fmt.Errorf("--dtype %q: must be auto, bf16, fp16 or fp32", o.dtype)
	}
	if _, known := infer.Quantizations[o.quantize]; !known || o.quantize == infer.INT8x8 {
		return fmt.Errorf("--quantize %q: must be int8, int4 or nf4", o.quantize)
	}
	for text := range strings.SplitSeq(o.sequences, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || n > 1<<12 {
			return fmt.Errorf("--sequences %q: must be numbers from 1 to %d", o.sequences, 1<<12)
		}
		o.counts = append(o.counts, n)
	}
	switch {
	case o.beside != "" && o.sampling.Temperature != 0:
		return errors.New("--temperature with --beside: llama.cpp is asked for the most likely tokens only")
	case o.beside != "" && o.adapters > 0:
		return errors.New("--adapters with --beside: llama.cpp is asked without adapters")
	}
	return cmp.Or(checkNumbers([]number{{"--prompt", o.prompt, 1}, {"--answer", o.answer, 2}, {"--times", o.times, 1},
		{"--rows", o.rows, 1}, {"--arrivals", o.arrivals, 0}, {"--adapters", o.adapters, 0}}), o.checkSampling(),
		cli.CheckThreads(o.threads), cli.CheckDevice(o.device))
}

func (o *serveOptions) checkSampling() error {
	if err := o.sampling.Check(); err != nil {
		return fmt.Errorf("--%w", err)
	}
	return nil
}

func runServe(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return runTimed(ctx, "bench serve", newServeOptions(), args, stdout, stderr)
}

// An answerer is a program that gives many answers at once. It returns them, the time until all have a first token, and
// the time to the end.
type answerer struct {
	name string
	ask  func(prompts [][]int32, n int) (answers [][]int32, first, whole time.Duration, err error)
}

func (o *serveOptions) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	d, err := openTimed("bench serve", o.device, o.threads, o.sync, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	m, closeModel, err := o.open(ctx, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeModel()) }()
	fmt.Fprintf(stdout, "%s, %s: prompts of %d tokens, answers of %d\n\n| program | sequences | prompts, tokens/s | "+
		"generated, tokens/s | quartiles |\n|---|---:|---:|---:|---:|\n", cmp.Or(d.Model(), d.Name()),
		cli.Count(cpu.Threads(), "CPU thread"), o.prompt, o.answer)
	for _, n := range o.counts {
		d.Profile() // without what came before
		if err := o.timeMany(ctx, m, n, stdout); err != nil {
			return err
		}
		if o.sync {
			fmt.Fprintf(stdout, "\nof %s\n", cli.Count(n, "answer"))
			if err := kernels.PrintProfile(stdout, d.Profile(), 1+o.times); err != nil {
				return err
			}
		}
	}
	return nil
}

// open opens the model.
func (o *serveOptions) open(
	ctx context.Context, d *kernels.Device,
) (m *model.Model, closeModel func() error, err error) {
	if o.config != "" {
		s, err := shapeOf("--config", o.config)
		if err != nil {
			return nil, nil, err
		}
		m, err = model.New(d, s.config, model.Options{DType: cmp.Or(infer.DTypes[o.dtype], infer.DTypes["bf16"]),
			Quantization: infer.Quantizations[o.quantize], AdapterRoom: o.room()})
		if err != nil {
			return nil, nil, err
		}
		randomWeights(m)
		return m, m.Close, nil
	}
	c, err := models.Open(ctx, nil, o.model)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	e, err := infer.Load(ctx, d, c, infer.OpenOptions{DType: infer.DTypes[o.dtype], Context: 1,
		Quantization: infer.Quantizations[o.quantize], AdapterRoom: o.room()})
	if err != nil {
		return nil, nil, err
	}
	return e.Model, e.Close, nil
}

// timeMany times n answers at once.
func (o *serveOptions) timeMany(ctx context.Context, m *model.Model, n int, stdout io.Writer) error {
	length := o.prompt + o.answer
	blocks := n * (length/model.PoolBlock + 1)
	pool, err := m.NewPool(model.PoolOptions{Blocks: blocks, Rows: max(o.rows, n), Pieces: n, Context: length})
	if err != nil {
		return err
	}
	defer pool.Close()
	b := batch.New(pool, infer.Codec{}, m.Config().Vocab, batch.Options{Context: length, Queue: n + o.arrivals})
	defer b.Close()
	start, err := o.starts(m, b)
	if err != nil {
		return err
	}
	times := 0
	programs := []answerer{{"restyle", func(prompts [][]int32, n int) ([][]int32, time.Duration, time.Duration, error) {
		times++
		return o.askBatch(ctx, start, prompts, n, strconv.Itoa(times))
	}}}
	if o.beside != "" {
		l, err := openBeside(ctx, o.beside, m.Config().Vocab, llamacpp.Options{Context: n * length, Sequences: n})
		if err != nil {
			return err
		}
		defer func() { _ = l.Close() }() // it has answered
		programs = append(programs, answerer{"llama.cpp " + l.Version + " for " + l.CPU,
			func(prompts [][]int32, n int) ([][]int32, time.Duration, time.Duration, error) {
				start := time.Now()
				_, err := l.Many(prompts, 1)
				first := time.Since(start)
				answers, again := l.Many(prompts, n)
				return answers, first, time.Since(start) - first, errors.Join(err, again)
			}})
	}
	seconds, err := o.compare(ctx, programs, n, m.Config().Vocab, stdout)
	if err != nil || o.arrivals == 0 {
		return err
	}
	return o.halfLoad(ctx, start, time.Duration(2*seconds/float64(n)*float64(time.Second)), m.Config().Vocab, stdout)
}

// halfLoad asks for answers one after another, and then as they arrive at random, on average after pause, and prints
// the time to the first token.
func (o *serveOptions) halfLoad(
	ctx context.Context, start []starter, pause time.Duration, vocab int, stdout io.Writer,
) error {
	r := rand.New(rand.NewPCG(2, 3))
	prompts := o.prompts(r, o.arrivals, vocab)
	var alone, loaded measure.Sample
	for i, prompt := range prompts {
		_, first, _, err := o.askBatch(ctx, start[i%len(start):], [][]int32{prompt}, o.answer, fmt.Sprint("alone ", i))
		if err != nil {
			return err
		}
		alone.Seconds = append(alone.Seconds, first.Seconds())
	}
	var group sync.WaitGroup
	loaded.Seconds = make([]float64, len(prompts))
	failed := make([]error, len(prompts))
	for i, prompt := range prompts {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(r.ExpFloat64() * float64(pause))):
		}
		group.Go(func() {
			var first time.Duration
			_, first, _, failed[i] = o.askBatch(ctx, start[i%len(start):], [][]int32{prompt}, o.answer,
				fmt.Sprint("arrival ", i))
			loaded.Seconds[i] = first.Seconds()
		})
	}
	group.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	_, err := fmt.Fprintf(stdout, "\nfirst token: alone after %.0f ms, at half load (%.2f answers a second, at random "+
		"times) after %.0f ms: %.2f times\n\n", 1e3*alone.Median(), 1/pause.Seconds(), 1e3*loaded.Median(),
		loaded.Median()/alone.Median())
	return err
}

// prompts returns n prompts of random tokens.
func (o *serveOptions) prompts(r *rand.Rand, n, vocab int) [][]int32 {
	prompts := make([][]int32, n)
	for i := range prompts {
		for range o.prompt {
			prompts[i] = append(prompts[i], int32(r.IntN(vocab)))
		}
	}
	return prompts
}

// adapterRank is the rank of --adapters.
const adapterRank = 16

func (o *serveOptions) room() int {
	return model.AdapterRoom(0, slices.Repeat([]int{adapterRank}, o.adapters)...)
}

// A starter starts an answer of a model or of an adapter.
type starter func(batch.Request) (*batch.Answer, error)

// starts returns a starter for the model and one for each adapter. It makes the adapters.
func (o *serveOptions) starts(m *model.Model, b *batch.Batch) ([]starter, error) {
	all, values, modules := []starter{b.Start}, normalValues(0.02), map[string]model.Factors{}
	for _, p := range m.Params() {
		if module, ok := strings.CutSuffix(p.Name, "_proj.weight"); ok && !strings.Contains(module, "experts") {
			out, in := p.W.Dim(0), p.W.Dim(1)
			modules[module+"_proj"] = model.Factors{A: repeated(values, adapterRank*in), B: repeated(values, out*adapterRank),
				Rank: adapterRank, Scale: 2}
		}
	}
	for i := range o.adapters {
		a, err := b.Attach(infer.Codec{}, strconv.Itoa(i), func(taken []model.Columns) (model.Columns, bool) {
			return m.PlaceAdapter(adapterRank, taken)
		}, func(at model.Columns) error { return m.SetAdapter(at, modules) })
		if err != nil {
			return nil, err
		}
		all = append(all, a.Start)
	}
	return all, nil
}

// repeated returns n values: the given ones, again and again.
func repeated(values []float32, n int) []float32 {
	return slices.Repeat(values, n/len(values)+1)[:n]
}

// askBatch asks all prompts at once. Each key keeps its cache blocks to itself, so a new key finds no blocks of
// earlier calls.
func (o *serveOptions) askBatch(
	ctx context.Context, start []starter, prompts [][]int32, n int, key string,
) (answers [][]int32, first, whole time.Duration, err error) {
	var group sync.WaitGroup
	all := make([]*batch.Answer, len(prompts))
	for i, prompt := range prompts {
		sampling := o.sampling
		sampling.Seed = uint64(i)
		all[i], err = start[i%len(start)](batch.Request{Prompt: prompt, Key: key,
			Options: infer.Options{Sampling: sampling, MaxTokens: n, IgnoreEnd: true}})
		if err != nil {
			return nil, 0, 0, err
		}
		group.Go(func() {
			for all[i].Next(ctx) {
			}
		})
	}
	group.Wait()
	for _, a := range all {
		r := a.Result()
		answers, err = append(answers, r.IDs), errors.Join(err, a.Err())
		first, whole = max(first, r.First), max(whole, r.Total)
	}
	return answers, first, whole, cmp.Or(err, ctx.Err())
}

// compare times the programs alternately and prints a row for each. It returns how many seconds the first one takes.
func (o *serveOptions) compare(
	ctx context.Context, programs []answerer, n, vocab int, stdout io.Writer,
) (seconds float64, err error) {
	prompts := o.prompts(rand.New(rand.NewPCG(1, uint64(n))), n, vocab)
	reads, answers := make([]measure.Sample, len(programs)), make([]measure.Sample, len(programs))
	said := make([][][]int32, len(programs))
	for time := range o.times + 1 {
		for i, p := range programs {
			all, first, whole, err := p.ask(prompts, o.answer)
			if err != nil {
				return 0, err
			}
			if said[i] = all; time > 0 {
				reads[i].Seconds = append(reads[i].Seconds, first.Seconds())
				answers[i].Seconds = append(answers[i].Seconds, (whole - first).Seconds())
			}
		}
	}
	for i, p := range programs {
		low, high := answers[i].Quartiles()
		tokens := float64(n * (o.answer - 1))
		if _, err := fmt.Fprintf(stdout, "| %s | %d | %.0f | %.0f | %.0f to %.0f |\n", p.name, n,
			float64(n*o.prompt)/reads[i].Median(), tokens/answers[i].Median(), tokens/high, tokens/low); err != nil {
			return 0, err
		}
	}
	for i := range programs[1:] {
		same := 0
		for s := range prompts {
			for k := 0; k < o.answer && said[0][s][k] == said[i+1][s][k]; k++ {
				same++
			}
		}
		fmt.Fprintf(stdout, "\n%d: restyle is %v; %d of %d tokens are the same before the first that differs\n\n", n,
			answers[0].Faster(answers[i+1]), same, n*o.answer)
	}
	return reads[0].Median() + answers[0].Median(), ctx.Err()
}
