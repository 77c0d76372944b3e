// Command train fine-tunes a model on a dataset, or trains one from nothing. See -h.
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
	"restyle/kernels/cuda"
	"restyle/trainer"
)

func main() {
	if dataset.IsChild() {
		os.Exit(dataset.ChildMain())
	}
	os.Exit(run(cli.StopContext(cli.StopSignals...), os.Args[1:], os.Stdout, os.Stderr, nil))
}

// run is the command: it returns the exit code. watch, which may be nil, is told what the training does.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, watch func(trainer.Phase)) int {
	status := cli.NewStatusLine(stderr)
	stdout, stderr = cli.CleanWriter(stdout), cli.CleanWriter(status)
	if _, ok := cli.LoadEnv("train", stderr); !ok {
		return cli.Usage
	}
	o := defaults()
	flags := o.flags(stderr)
	if code, done := flags.Parse(args); done {
		return code
	}
	if o.version {
		fmt.Fprintln(stdout, "train", cli.Version())
		return cli.Done
	}
	t := &train{options: o, given: flags, stdout: stdout, stderr: stderr, status: status, watch: watch}
	do := t.do
	if o.selfcheck {
		do = t.checkDevice
	}
	err := do(ctx)
	return t.exit(ctx, err)
}

// exit says what ended the program and picks the exit code.
func (t *train) exit(ctx context.Context, err error) int {
	err = cli.NameFlag(err)
	var usage *cli.UsageError
	switch {
	case err == nil:
		return cli.Done
	case errors.As(err, &usage):
		fmt.Fprintf(t.stderr, "train: %v\nsee train -h\n", err)
		return cli.Usage
	case errors.Is(err, trainer.ErrStopped):
		fmt.Fprintf(t.stderr, "train: stopped after step %d of %d; all of it is in %s: go on with the same command and --resume\n",
			t.run.State().Step, t.plan.Steps, t.out)
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
			fmt.Fprintln(t.stderr, "train: stopped before it went on; nothing was changed: run the same command again")
			return cli.Stopped
		}
		fmt.Fprintln(t.stderr, "train: stopped before the first step; nothing was changed: run the same command again")
		return cli.Retry
	case cuda.Fault(err):
		t.sayFault(err)
		return cli.Retry
	case hub.Retryable(err), busy(err):
		fmt.Fprintf(t.stderr, "train: %v\nrun the same command again later\n", err)
		return cli.Retry
	}
	fmt.Fprintf(t.stderr, "train: %v\n", err)
	return cli.Failed
}

// parts are the errors that one joins.
func parts(err error) (list []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		list = append(list, parts(e)...)
	}
	return list
}
