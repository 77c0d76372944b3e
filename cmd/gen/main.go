// Command gen rewrites the answers of a dataset in another voice, with their code kept as it was.
//
// Without a flag it takes the embedded starter set and the built-in rewriter and needs nothing else. See -h.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"restyle/dataset"
	"restyle/hf/hub"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/internal/secret"
	"restyle/teacher"
	"restyle/teacher/openai"
)

func main() {
	if dataset.IsChild() {
		os.Exit(dataset.ChildMain())
	}
	ctx := cli.StopContext(cli.StopSignals...)
	// Ctrl-C ends tee and its like, too: their pipe must not end this.
	context.AfterFunc(ctx, func() { signal.Ignore(syscall.SIGPIPE) })
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the command: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	env, ok := cli.LoadEnv("gen", stderr)
	if !ok {
		return cli.Usage
	}
	key := secret.New(os.Getenv("OPENAI_API_KEY"))
	// Whatever goes out has the key taken out once more, so that no message from anywhere can carry it.
	status := cli.NewStatusLine(stderr)
	status.W = scrubbed{stderr, key}
	if !key.Dummy() { // else it may be a word of the results
		stdout = scrubbed{stdout, key}
	}
	stdout, stderr = cli.CleanWriter(stdout), cli.CleanWriter(status)
	log.SetOutput(stderr) // net/http quotes servers there
	o := defaults()
	flags := o.flags(stderr)
	if code, done := flags.Parse(args); done {
		return code
	}
	o.rowsGiven = flags.Given("rows")
	g := &gen{options: o, key: key, baseKey: key, stdout: stdout, stderr: stderr,
		status: status, start: time.Now()}
	if flags.ByEnv("base-url") && env.Gave("OPENAI_BASE_URL") && !env.Gave("OPENAI_API_KEY") && !key.Empty() {
		g.baseKey = secret.Secret{}
		g.say("the teacher's address is from .env and OPENAI_API_KEY is not: no key is sent there. " +
			"If you trust the address, give it as --base-url or in the environment")
	}
	err := o.check()
	if err == nil {
		err = g.do(ctx)
	}
	return g.exit(ctx, err)
}

// exit prints what ended the run and picks the exit code.
func (g *gen) exit(ctx context.Context, err error) int {
	var usage *cli.UsageError
	var different *teacher.DifferentRun
	var unavailable *openai.Unavailable
	switch {
	case err == nil:
		return cli.Done
	case errors.As(err, &usage):
		fmt.Fprintf(g.stderr, "gen: %v\nsee gen -h\n", err)
		return cli.Usage
	case errors.Is(err, errIncomplete):
		return cli.Stopped
	case ctx.Err() != nil:
		if !errors.Is(err, context.Cause(ctx)) && !errors.Is(err, ctx.Err()) { // something else went wrong besides
			fmt.Fprintf(g.stderr, "gen: %v\n", err)
		}
		fmt.Fprintln(g.stderr, "gen: stopped; run the same command again to go on")
		return cli.Stopped
	case errors.As(err, &different), errors.Is(err, disk.ErrLocked):
		fmt.Fprintf(g.stderr, "gen: %v\n", err)
		return cli.Failed
	case errors.As(err, &unavailable), hub.Retryable(err):
		fmt.Fprintf(g.stderr, "gen: %v\nwhat was answered so far is kept; run the same command again later\n", err)
		return cli.Retry
	}
	fmt.Fprintf(g.stderr, "gen: %v\n", err)
	return cli.Failed
}

// errIncomplete ends a run that did what it could and said so: the dataset waits for a batch.
var errIncomplete = errors.New("incomplete")

// scrubbed is a writer without the key.
type scrubbed struct {
	io.Writer
	key secret.Secret
}

func (s scrubbed) Write(p []byte) (int, error) {
	if s.key.Empty() {
		return s.Writer.Write(p)
	}
	_, err := io.WriteString(s.Writer, s.key.Scrub(string(p)))
	return len(p), err
}
