package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"restyle/internal/cli"
	"restyle/kernels"
)

const aboutAll = `
bench all measures operations, layers, an ablation, answers, answers with quantized weights and of
mixtures of experts, and training, one after the other, and writes their tables and pictures to one
directory. Run again, it measures what is missing.

  bench all --out docs/bench/mine
  bench all --out docs/bench/mine --device cuda --layers llama-2-7b,llama-3.1-8b --seconds 2
  bench all --out docs/bench/mine --seconds 0.5 --max-time 1s

It runs the other measurements with the flags that its pages name.`

// allOptions are the flags.
type allOptions struct {
	pageOptions
	layers, tokens, answers, lengths, modes string
	rows                                    int
	seconds                                 float64

	moe bool // each of the answers' models has a counterpart
}

func (o *allOptions) flags(stdout, stderr io.Writer) *cli.Flags {
	f := cli.New("bench all", aboutAll, stdout, stderr)
	f.Group("Measurements")
	f.Add(&o.seconds, "seconds", "at most about this many `seconds` for the timings of an operation or a layer")
	f.Add(&o.layers, "layers", "the models whose layers are run, as --config of bench layer")
	f.Add(&o.tokens, "tokens", "lengths of the layers' sequences")
	f.Add(&o.answers, "answers", "the models that answer, as --config of bench infer")
	f.Add(&o.lengths, "lengths", "lengths of the answers' contexts")
	f.Add(&o.modes, "modes", "modes of training, as for bench train")
	f.Add(&o.rows, "rows", "rows of the epoch that is trained")
	o.add(f)
	return f
}

// check checks the flags, before anything is measured.
func (o *allOptions) check() error {
	if o.out == "" {
		return errors.New(`--out "": name a directory`)
	}
	if o.rows < 1 {
		return fmt.Errorf("--rows %d: must be at least 1", o.rows)
	}
	if err := checkSeconds(o.seconds); err != nil {
		return err
	}
	_, tokens := numbers("--tokens", o.tokens)
	_, lengths := numbers("--lengths", o.lengths)
	if err := cmp.Or(o.checkPage(), checkModes(o.modes), tokens, lengths); err != nil {
		return err
	}
	if _, err := shapesOf("--layers", o.layers); err != nil {
		return err
	}
	shapes, err := shapesOf("--answers", o.answers)
	o.moe = !slices.ContainsFunc(shapes, func(s shape) bool {
		_, err := s.counterpart()
		return err != nil
	})
	return err
}

// parts returns the arguments of the measurements.
func (o *allOptions) parts() (parts [][]string) {
	seconds := strconv.FormatFloat(o.seconds, 'g', -1, 64)
	ablation, quantized := "512", "128" // tokens
	for _, part := range [][]string{
		{"kernels", "--seconds", seconds},
		{"layer", "--config", o.layers, "--tokens", o.tokens, "--seconds", seconds},
		{"layer", "--config", "llama-3.2-1b", "--tokens", ablation, "--ablation", "--passes", "training", "--seconds",
			seconds},
		{"infer", "--config", o.answers, "--lengths", o.lengths},
		{"infer", "--config", o.answers, "--lengths", quantized, "--quantize", "int8,int4", "--fused", "all",
			"--moe=" + strconv.FormatBool(o.moe)},
		{"train", "--modes", o.modes, "--rows", strconv.Itoa(o.rows)},
	} {
		part = append(part, "--device", o.device, "--max-time", o.maxTime.String(), "--out", o.out)
		if o.threads > 0 {
			part = append(part, "--threads", strconv.Itoa(o.threads))
		}
		if o.note != "" {
			part = append(part, "--note", o.note)
		}
		parts = append(parts, part)
	}
	return parts
}

// settle chooses the device for all measurements, so that none of them has to print again which device auto is.
func (o *allOptions) settle(notes io.Writer) error {
	if o.device != "auto" {
		return nil
	}
	d, err := kernels.Open(o.device, kernels.Options{})
	if err != nil {
		return err
	}
	o.device = d.Name()
	fmt.Fprintf(notes, "bench all: %s\n", d.Notes()[0])
	return d.Close()
}

func newAllOptions(args []string) *allOptions {
	return &allOptions{pageOptions: newPageOptions(args), layers: "llama-3.2-1b,llama-2-7b", tokens: "512,1024,2048,4096",
		answers: "small,llama-3.2-1b", lengths: "32,64,128,256,512,1024,2048,4096",
		modes: "standard,fused,torch-eager,torch-compile", rows: 576, seconds: 5}
}

func runAll(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := newAllOptions(args)
	if code, done := o.flags(stdout, stderr).Parse(args); done {
		return code
	}
	if err := o.check(); err != nil {
		fmt.Fprintf(stderr, "bench all: %v\nsee bench all -h\n", err)
		return cli.Usage
	}
	if err := o.settle(stderr); err != nil {
		return o.exit(ctx, "all", err, stderr)
	}
	worst := cli.Done
	for _, part := range o.parts() {
		if err := ctx.Err(); err != nil {
			return o.exit(ctx, "all", err, stderr)
		}
		fmt.Fprintf(stdout, "bench %s\n", part[0])
		worst = max(worst, commands[part[0]](ctx, part[1:], stdout, stderr)) // the other parts are still useful
	}
	return worst
}
