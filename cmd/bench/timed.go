package main

import (
	"context"
	"fmt"
	"io"

	"restyle/internal/cli"
	"restyle/internal/llamacpp"
	"restyle/kernels"
	"restyle/kernels/cpu"
)

// timed are the flags of a command that times a model.
type timed interface {
	flags(stdout, stderr io.Writer) *cli.Flags
	check() error
	run(ctx context.Context, stdout, stderr io.Writer) error
}

// runTimed runs such a command, and returns its exit code.
func runTimed(ctx context.Context, name string, o timed, args []string, stdout, stderr io.Writer) int {
	if code, done := o.flags(stdout, stderr).Parse(args); done {
		return code
	}
	if err := o.check(); err != nil {
		fmt.Fprintf(stderr, "%s: %v\nsee %[1]s -h\n", name, err)
		return cli.Usage
	}
	err := o.run(ctx, stdout, stderr)
	switch {
	case err == nil:
		return cli.Done
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "%s: stopped\n", name)
	default:
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
	}
	return cli.Failed
}

// openTimed opens a device as chat and serve do, except for sync, and prints its notes.
func openTimed(name, device string, threads int, sync bool, stderr io.Writer) (*kernels.Device, error) {
	d, err := kernels.Open(device, kernels.Options{Threads: threads, Fused: kernels.All(), Sync: sync})
	if err != nil {
		return nil, err
	}
	for _, n := range d.Notes() {
		fmt.Fprintf(stderr, "%s: %s\n", name, n)
	}
	return d, nil
}

// openBeside opens the model of --beside in llama.cpp, with as many threads as here.
func openBeside(ctx context.Context, path string, vocab int, o llamacpp.Options) (*llamacpp.Model, error) {
	o.Threads = cpu.Threads()
	m, err := llamacpp.Open(ctx, path, o)
	if err != nil {
		return nil, fmt.Errorf("--beside: %w", err)
	}
	if m.Vocab != vocab {
		_ = m.Close()
		return nil, fmt.Errorf("--beside %s: %d tokens in its vocabulary, but the model has %d: name the same model", path,
			m.Vocab, vocab)
	}
	return m, nil
}

// A number is a flag that takes a number, with its minimum.
type number struct {
	flag         string
	value, least int
}

// checkNumbers reports a number that is out of range.
func checkNumbers(all []number) error {
	const most = 1 << 20
	for _, n := range all {
		if n.value < n.least || n.value > most {
			return fmt.Errorf("%s %d: must be a number from %d to %d", n.flag, n.value, n.least, most)
		}
	}
	return nil
}
