// Command chat asks a base model and a tuned one the same questions and shows both answers side by side. See -h.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"restyle/hf/hub"
	"restyle/internal/cli"
	_ "restyle/internal/limits" // checks them before main
	"restyle/kernels"
	"restyle/kernels/cuda"
)

func main() {
	os.Exit(run(cli.StopContext(syscall.SIGTERM, syscall.SIGHUP), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run runs the command and returns its exit code. It handles Ctrl-C itself, because its meaning depends on the moment.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	status := cli.NewStatusLine(stderr)
	notes := cli.CleanWriter(status)
	if _, ok := cli.LoadEnv("chat", notes); !ok {
		return cli.Usage
	}
	o := defaults()
	flags := o.flags(stdout, notes)
	if code, done := flags.Parse(args); done {
		return code
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	c := &chatter{
		options: o, stdin: stdin, out: stdout, notes: notes, status: status,
		interrupts: &interrupts{leave: leave}, terminal: cli.IsTerminal(stdout),
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	defer signal.Stop(signals)
	go func() {
		for {
			select {
			case <-signals:
				c.interrupts.hit()
			case <-ctx.Done():
				signal.Stop(signals) // another Ctrl-C kills the process, whatever it is waiting for
				return
			}
		}
	}()
	err := o.check()
	if err == nil {
		err = c.do(ctx)
	}
	return c.exit(ctx, err)
}

// exit prints the error, if there is one, and returns the exit code.
func (c *chatter) exit(ctx context.Context, err error) int {
	var usage *cli.UsageError
	var told *printed
	var full *kernels.OutOfMemory
	switch {
	case err == nil:
		return cli.Done
	case errors.As(err, &told):
		return cli.Failed
	case errors.As(err, &usage):
		fmt.Fprintf(c.notes, "chat: %v\nsee chat -h\n", err)
		return cli.Usage
	case errors.Is(err, errStopped), ctx.Err() != nil && errors.Is(err, ctx.Err()):
		if c.record != nil {
			fmt.Fprintln(c.notes, "chat: stopped; all answers are in", c.log)
		} else {
			fmt.Fprintln(c.notes, "chat: stopped")
		}
		return cli.Stopped
	case hub.Retryable(err), cuda.Fault(err), cuda.Busy(err):
		fmt.Fprintf(c.notes, "chat: %v\ntry again later\n", err)
		return cli.Retry
	case errors.As(err, &full):
		fmt.Fprintf(c.notes, "chat: %v\na smaller --context needs less, and so does one model (--only)\n", err)
		return cli.Failed
	}
	fmt.Fprintf(c.notes, "chat: %v\n", err)
	return cli.Failed
}

// errStopped is the error of a batch of questions that Ctrl-C stopped.
var errStopped = errors.New("stopped")
