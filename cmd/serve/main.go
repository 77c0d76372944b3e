// Command serve implements the HTTP APIs of OpenAI and Anthropic with models on this machine. See -h.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"restyle/hf/hub"
	"restyle/internal/cli"
	_ "restyle/internal/limits" // checks them before main
	"restyle/kernels"
	"restyle/kernels/cuda"
)

func main() {
	os.Exit(run(cli.StopContext(cli.StopSignals...), os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the command until ctx is done, and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	status := cli.NewStatusLine(stderr)
	notes := cli.CleanWriter(status)
	if _, ok := cli.LoadEnv("serve", notes); !ok {
		return cli.Usage
	}
	o := defaults()
	names, code, done := o.flags(stdout, notes).ParsePaths(args)
	if done {
		return code
	}
	if o.version {
		fmt.Fprintln(stdout, "serve", cli.Version())
		return cli.Done
	}
	c := &command{options: o, notes: notes, status: status}
	err := o.check(names)
	if err == nil {
		err = c.serve(ctx)
	}
	var usage *cli.UsageError
	var full *kernels.OutOfMemory
	switch {
	case err == nil:
		return cli.Done
	case errors.As(err, &usage):
		fmt.Fprintf(notes, "serve: %v\nsee serve -h\n", err)
		return cli.Usage
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		fmt.Fprintln(notes, "serve: stopped before it was ready")
		return cli.Stopped
	case hub.Retryable(err), cuda.Fault(err), cuda.Busy(err):
		fmt.Fprintf(notes, "serve: %v\ntry again later\n", err)
		return cli.Retry
	case errors.As(err, &full):
		fmt.Fprintf(notes, "serve: %v\na smaller --cache needs less, and so do smaller weights (--quantize)\n", err)
		return cli.Failed
	}
	fmt.Fprintf(notes, "serve: %v\n", err)
	return cli.Failed
}
