package main

import (
	"context"
	"errors"
	"fmt"

	"restyle/kernels"
	"restyle/kernels/cuda"
	"restyle/trainer"
)

// precompile compiles the kernels of a run on a GPU before it begins, in parallel: each would be compiled when it is launched for the
// first time, one after the other. And it chooses the algorithms of its matrix products, so that none is timed on the way.
func (t *train) precompile(ctx context.Context) error {
	rehearse := func(d *kernels.Device) error { return trainer.Rehearse(d, t.origin.Config, t.settings, t.plan) }
	defer t.status.Clear()
	err := t.device.Precompile(ctx, rehearse, func(done, of int) { t.status.Draw(fmt.Sprintf("compiling kernels: %d of %d", done, of)) })
	if err != nil {
		return err
	}
	return t.device.ChooseProducts(ctx, func(done, of int) { t.status.Draw(fmt.Sprintf("timing matrix products: %d of %d", done, of)) })
}

// filledError is that of a GPU which would have room for the run, were it not for other processes.
type filledError struct{ error }

// filled is the error of a run that takes total bytes, on a GPU with free ones.
func (t *train) filled(total, free int) error {
	return &filledError{fmt.Errorf("this run takes %s, and of the %s of %s only %s are free, as other processes have the rest (nvidia-smi lists them): wait for them, take another GPU, or, %s",
		kernels.Bytes(total), kernels.Bytes(t.device.Capacity()), t.device.Name(), kernels.Bytes(free), t.advice(free))}
}

// busy says whether err goes away when another process has done with a GPU.
func busy(err error) bool {
	var filled *filledError
	return cuda.Busy(err) || errors.As(err, &filled)
}

// withAdvice adds to the error of a GPU that has run out of memory on the way which flags take less.
func (t *train) withAdvice(err error) error {
	var e *kernels.OutOfMemory
	if !errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("%w\n%s", err, t.advice(min(e.Reach(), t.memory.Total()-1)))
}

// sayFault prints the error of a GPU that failed, and how to go on. After it every call fails, and what was to be closed says so too:
// the first is the one that matters.
func (t *train) sayFault(err error) {
	for _, e := range parts(err) {
		if cuda.Fault(e) {
			err = e
			break
		}
	}
	how := "run the same command again"
	if t.resume || t.outputs != nil {
		how = "go on from the last checkpoint with the same command and --resume"
	}
	fmt.Fprintf(t.stderr, "train: %v\nthe GPU failed: %s\n", err, how)
}
