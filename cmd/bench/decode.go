package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/llamacpp"
	"restyle/internal/measure"
	"restyle/internal/models"
	"restyle/kernels"
	"restyle/kernels/cpu"
)

const aboutDecode = `
bench decode times how a model reads a prompt of random tokens, and how it answers with one token
after another. With --beside it times llama.cpp in turns with it, on the CPU and with the same number
of threads.

  bench decode --model HuggingFaceTB/SmolLM2-135M-Instruct --quantize int4
  bench decode --model FILE.gguf --beside FILE.gguf --device cpu --threads 2

RESTYLE_LLAMACPP names the directory of llama.cpp's libraries, as .ci/run installs them. The result
is a table: tokens per second at the median, and at the quartiles. With --sync tables of the kernels
follow, of a model that is slower: a GPU runs no graphs then. The threads of llama.cpp spin
while they wait for each other: on a busy machine give both one thread, or wait.`

// decodeOptions are the flags.
type decodeOptions struct {
	model, beside, dtype, quantize, device string
	prompt, answer, times, threads         int
	sync                                   bool
}

func newDecodeOptions() *decodeOptions {
	return &decodeOptions{dtype: "auto", device: "auto", prompt: 512, answer: 128, times: 9}
}

func (o *decodeOptions) flags(stdout, stderr io.Writer) *cli.Flags {
	f := cli.New("bench decode", aboutDecode, stdout, stderr)
	f.Group("Models")
	f.Add(&o.model, "model", "the `model`: a directory, a GGUF file, or a repository on the hub")
	f.Add(&o.beside, "beside", "also time llama.cpp with this GGUF `file` of the same vocabulary")
	f.Add(&o.dtype, "dtype", "type of weights and activations, `auto|bf16|fp16|fp32`")
	f.Add(&o.quantize, "quantize", "quantize the weights to `int8|int8x8|int4|nf4` while the model is loaded")
	f.Group("Measurement")
	f.Add(&o.prompt, "prompt", "tokens of the prompt")
	f.Add(&o.answer, "answer", "tokens of the answer")
	f.Add(&o.times, "times", "timings of each, after one that does not count")
	f.Add(&o.sync, "sync", syncHelp)
	f.Group("Device")
	f.Add(&o.device, "device", cli.DeviceHelp)
	f.Add(&o.threads, "threads", threadsHelp)
	return f
}

// check checks the flags.
func (o *decodeOptions) check() error {
	if o.model == "" {
		return errors.New("--model: name a model")
	}
	if _, known := infer.DTypes[o.dtype]; !known {
		return fmt.Errorf("--dtype %q: must be auto, bf16, fp16 or fp32", o.dtype)
	}
	if _, known := infer.Quantizations[o.quantize]; !known {
		return fmt.Errorf("--quantize %q: must be int8, int8x8, int4 or nf4", o.quantize)
	}
	return cmp.Or(checkNumbers([]number{{"--prompt", o.prompt, 1}, {"--answer", o.answer, 1}, {"--times", o.times, 1}}),
		cli.CheckThreads(o.threads), cli.CheckDevice(o.device))
}

func runDecode(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return runTimed(ctx, "bench decode", newDecodeOptions(), args, stdout, stderr)
}

// A decoder is a program that holds a model and a KV cache.
type decoder struct {
	name  string
	read  func(ids []int32) (int32, error)                 // empties the cache, reads a prompt, returns the next token
	next  func(id int32, at, n int) (ids []int32, e error) // truncates the cache to at tokens, continues with id, n tokens
	vocab int
}

// run opens the programs, times them and prints the table.
func (o *decodeOptions) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	d, err := openTimed("bench decode", o.device, o.threads, o.sync, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	own, closeOwn, err := o.openOwn(ctx, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeOwn()) }()
	programs := []decoder{own}
	if o.beside != "" {
		m, err := openBeside(ctx, o.beside, own.vocab, llamacpp.Options{Context: o.prompt + o.answer})
		if err != nil {
			return err
		}
		defer func() { _ = m.Close() }() // it has answered
		programs = append(programs, besideModel(m))
	}
	fmt.Fprintf(stdout, "%s, %s: a prompt of %d tokens, an answer of %d\n\n", cmp.Or(d.Model(), d.Name()),
		cli.Count(cpu.Threads(), "CPU thread"), o.prompt, o.answer)
	return o.time(ctx, d, programs, stdout)
}

// openOwn opens the model in this program.
func (o *decodeOptions) openOwn(ctx context.Context, d *kernels.Device) (p decoder, close func() error, err error) {
	c, err := models.Open(ctx, nil, o.model)
	if err != nil {
		return p, nil, err
	}
	defer c.Close()
	room := o.prompt + o.answer
	if most := c.Config.Positions(); room > most {
		return p, nil, fmt.Errorf("--prompt and --answer are %d tokens, but the model has %d positions", room, most)
	}
	d.SetINT8Activations(o.quantize == infer.INT8x8)
	e, err := infer.Load(ctx, d, c, infer.OpenOptions{DType: infer.DTypes[o.dtype], Context: 1,
		Quantization: infer.Quantizations[o.quantize]})
	if err != nil {
		return p, nil, err
	}
	cache, err := e.Model.NewKVCache(room)
	if err != nil {
		return p, nil, errors.Join(err, e.Close())
	}
	p = decoder{name: strings.TrimSpace(fmt.Sprint("restyle, ", e.DType(), " ", o.quantize)), vocab: c.Config.Vocab}
	greedy := func(ids []int32) (id int32, err error) {
		if id, _, err = e.Model.Greedy(cache, ids); err == nil && id < 0 {
			err = errors.New("the logits are not finite")
		}
		return id, err
	}
	p.read = func(ids []int32) (int32, error) {
		cache.Trim(0)
		return greedy(ids)
	}
	p.next = func(id int32, at, n int) (ids []int32, err error) {
		cache.Trim(at)
		for range n {
			if id, err = greedy([]int32{id}); err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
		return ids, nil
	}
	return p, func() error { return errors.Join(cache.Close(), e.Close()) }, nil
}

// besideModel returns llama.cpp as a decoder.
func besideModel(m *llamacpp.Model) decoder {
	return decoder{
		name:  fmt.Sprintf("llama.cpp %s for %s", m.Version, m.CPU),
		vocab: m.Vocab,
		read: func(ids []int32) (int32, error) {
			if err := m.Trim(0); err != nil {
				return 0, err
			}
			return m.Read(ids)
		},
		next: func(id int32, at, n int) ([]int32, error) {
			if err := m.Trim(at); err != nil {
				return nil, err
			}
			return m.Next(id, n)
		},
	}
}

// time times the programs alternately, first with the prompt, then with the answer, and prints the table.
func (o *decodeOptions) time(ctx context.Context, d *kernels.Device, programs []decoder, stdout io.Writer) error {
	r := rand.New(rand.NewPCG(1, 2))
	prompt := make([]int32, o.prompt)
	for i := range prompt {
		prompt[i] = int32(r.IntN(programs[0].vocab))
	}
	var reads, answers []measure.Work
	first, said := make([]int32, len(programs)), make([][]int32, len(programs))
	for i, p := range programs {
		reads = append(reads, func(int) (err error) {
			first[i], err = p.read(prompt)
			return err
		})
		answers = append(answers, func(int) (err error) {
			said[i], err = p.next(first[i], o.prompt, o.answer)
			return err
		})
	}
	settings := measure.Options{Warmup: 1, Iterations: o.times}
	d.Profile() // without the profile of loading the model
	read, err := measure.Turns(ctx, settings, reads...)
	if err != nil {
		return err
	}
	reading := d.Profile()
	answered, err := measure.Turns(ctx, settings, answers...)
	if err != nil {
		return err
	}
	text := "| program | prompt, tokens/s | quartiles | answer, tokens/s | quartiles |\n|---|---:|---:|---:|---:|\n"
	for i, p := range programs {
		text += fmt.Sprintf("| %s | %s | %s |\n", p.name, rates(read[i], o.prompt), rates(answered[i], o.answer))
	}
	for i := range programs[1:] {
		same := 0
		for same < o.answer && said[0][same] == said[i+1][same] {
			same++
		}
		text += fmt.Sprintf("\nprompt: restyle is %v\nanswer: restyle is %v\nthe first %d of %d tokens are the same\n",
			read[0].Faster(read[i+1]), answered[0].Faster(answered[i+1]), same, o.answer)
	}
	if _, err = io.WriteString(stdout, text); err != nil || !o.sync {
		return err
	}
	fmt.Fprintln(stdout, "\nof a prompt")
	if err := kernels.PrintProfile(stdout, reading, 1+o.times); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "\nof a token of the answer")
	return kernels.PrintProfile(stdout, d.Profile(), (1+o.times)*o.answer)
}

// rates returns two cells: tokens per second at the median, and at the quartiles.
func rates(s measure.Sample, tokens int) string {
	low, high := s.Quartiles()
	n := float64(tokens)
	return fmt.Sprintf("%.1f | %.1f to %.1f", n/s.Median(), n/high, n/low)
}
