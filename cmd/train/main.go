// Command train fine-tunes a model on a dataset, or trains one from scratch. See -h.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"restyle/dataset"
	"restyle/hf/hub"
	"restyle/internal/cli"
	_ "restyle/internal/limits" // checks them before main
	"restyle/kernels/cuda"
	"restyle/ranks"
	"restyle/trainer"
)

func main() {
	if dataset.IsChild() {
		os.Exit(dataset.ChildMain())
	}
	os.Exit(run(cli.StopContext(cli.StopSignals...), os.Args[1:], os.Stdout, os.Stderr, nil))
}

// run runs the command and returns its exit code. It calls watch, which may be nil, with every phase of the run.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, watch func(trainer.Phase)) int {
	status := cli.NewStatusLine(stderr)
	stdout, stderr = cli.CleanWriter(stdout), cli.CleanWriter(status)
	if _, ok := cli.LoadEnv("train", stderr); !ok {
		return cli.Usage
	}
	o, flags := newOptions(stdout, stderr)
	if code, done := flags.Parse(args); done {
		return code
	}
	if o.version {
		fmt.Fprintln(stdout, "train", cli.Version())
		return cli.Done
	}
	t := newTrain(o, flags, stdout, stderr, status, watch)
	start, err := t.findPlace()
	switch {
	case err != nil:
		return t.exit(ctx, err)
	case start:
		return t.startRanks()
	case t.place.Rank > 0 && t.alone():
		return cli.Done
	case t.place.Rank > 0:
		t.stdout, t.quiet = io.Discard, true
	}
	do := t.do
	if o.selfcheck {
		do = t.checkDevice
	}
	return t.exit(ctx, do(ctx))
}

// exit prints what ended the program and returns the exit code.
func (t *train) exit(ctx context.Context, err error) int {
	err = cli.NameFlag(err)
	var usage *cli.UsageError
	var at *stopped
	var lost *ranks.Lost
	switch {
	case err == nil:
		return cli.Done
	case errors.As(err, &usage):
		fmt.Fprintf(t.stderr, "train: %v\nsee train -h\n", err)
		return cli.Usage
	case errors.As(err, &lost):
		fmt.Fprintf(t.stderr, "train: %v\nall ranks end: %s\n", lost, t.again(err))
		return cli.Retry
	case errors.As(err, &at):
		fmt.Fprintf(t.stderr, "train: %v; all of it is in %s: continue with the same command and --resume\n", at, t.out)
		code := cli.Stopped
		for _, e := range parts(err) {
			if !errors.Is(e, trainer.ErrStopped) {
				fmt.Fprintf(t.stderr, "train: besides: %v\n", e)
				code = cli.Failed
			}
		}
		return code
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		if t.resume {
			fmt.Fprintln(t.stderr, "train: stopped before the run continued; nothing was changed: run the same command again")
			return cli.Stopped
		}
		fmt.Fprintln(t.stderr, "train: stopped before the first step; nothing was changed: run the same command again")
		return cli.Retry
	case cuda.Fault(err):
		t.printFault(err)
		return cli.Retry
	case hub.Retryable(err), busy(err):
		fmt.Fprintf(t.stderr, "train: %v\nrun the same command again later\n", err)
		return cli.Retry
	}
	fmt.Fprintf(t.stderr, "train: %s\n", cli.Text(err))
	return cli.Failed
}

// again says how to continue after an error: a run that has started has saved.
func (t *train) again(err error) string {
	if e := (*begun)(nil); t.resume || errors.As(err, &e) {
		return "continue from the last checkpoint with the same command and --resume"
	}
	return "run the same command again"
}

// printFault prints the error of a GPU that failed, and what to do. After such an error every call fails, including
// those that close something, so only the first error matters.
func (t *train) printFault(err error) {
	how := t.again(err)
	for _, e := range parts(err) {
		if cuda.Fault(e) {
			err = e
			break
		}
	}
	fmt.Fprintf(t.stderr, "train: %v\nthe GPU failed: %s\n", err, how)
}

// busy reports whether err may go away once other processes stop using a GPU.
func busy(err error) bool {
	var e *tooLarge
	return cuda.Busy(err) || errors.As(err, &e) && e.busy
}

// parts returns the errors that err joins.
func parts(err error) (list []error) {
	if e, ok := err.(*begun); ok {
		err = e.error
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		list = append(list, parts(e)...)
	}
	return list
}
