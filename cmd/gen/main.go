// Command gen rewrites the answers of a dataset in another voice and keeps their code byte for byte.
//
// Without flags it uses the embedded starter dataset and the built-in rewriter, and needs nothing else. See -h.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"restyle/dataset"
	"restyle/hf/hub"
	"restyle/internal/cli"
	"restyle/internal/disk"
	_ "restyle/internal/limits" // checks them before main
	"restyle/internal/secret"
	"restyle/teacher"
	"restyle/teacher/openai"
	"restyle/voice"
)

func main() {
	if dataset.IsChild() {
		os.Exit(dataset.ChildMain())
	}
	ctx := cli.StopContext(cli.StopSignals...)
	// Ctrl-C also ends tee: its closed pipe must not kill gen while it stops.
	context.AfterFunc(ctx, func() { signal.Ignore(syscall.SIGPIPE) })
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the command and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	env, ok := cli.LoadEnv("gen", stderr)
	if !ok {
		return cli.Usage
	}
	key := secret.New(os.Getenv("OPENAI_API_KEY"))
	// All output is scrubbed once more, so that no message from anywhere can carry the key.
	status := cli.NewStatusLine(stderr)
	status.W = scrubbed{stderr, key}
	if !key.Dummy() { // a dummy key may be a word of the results
		stdout = scrubbed{stdout, key}
	}
	stdout, stderr = cli.CleanWriter(stdout), cli.CleanWriter(status)
	log.SetOutput(stderr) // net/http logs what servers sent
	o := defaults()
	flags := o.flags(stdout, stderr)
	if code, done := flags.Parse(args); done {
		return code
	}
	o.rowsGiven, o.languageGiven = flags.Given("rows"), flags.Given("language")
	g := &gen{options: o, key: key, baseKey: key, stdout: stdout, stderr: stderr,
		status: status, start: time.Now()}
	if flags.ByEnv("base-url") && env.Gave("OPENAI_BASE_URL") && !env.Gave("OPENAI_API_KEY") && !key.Empty() {
		g.baseKey = secret.Secret{}
		g.say("the teacher's address comes from .env and OPENAI_API_KEY does not: gen sends no key there. " +
			"If you trust the address, set it with --base-url or in the environment")
	}
	err := o.check()
	if err == nil {
		err = g.do(ctx)
	}
	return g.exit(ctx, err)
}

// exit prints why the run ended and returns the exit code.
func (g *gen) exit(ctx context.Context, err error) int {
	err = cli.NameFlag(err)
	var usage *cli.UsageError
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
		if !errors.Is(err, context.Cause(ctx)) && !errors.Is(err, ctx.Err()) { // another error besides the stop
			fmt.Fprintf(g.stderr, "gen: %v\n", err)
		}
		fmt.Fprintln(g.stderr, "gen: stopped; run the same command again to resume")
		return cli.Stopped
	case errors.As(err, &unavailable) && unavailable.Damage:
		fmt.Fprintf(g.stderr, "gen: %v%s\nasking again did not change that: the answers so far are kept, and the same "+
			"command resumes once the server works, or with another --base-url\n", err, g.remedy(err))
		return cli.Failed
	case errors.As(err, &unavailable), hub.Retryable(err):
		fmt.Fprintf(g.stderr, "gen: %v%s\nthe answers so far are kept; run the same command again later\n", err,
			g.remedy(err))
		return cli.Retry
	}
	fmt.Fprintf(g.stderr, "gen: %s%s\n", cli.Text(err), g.remedy(err))
	return cli.Failed
}

// remedy returns which flags may help after an error of the teacher package, or "" if none does.
func (g *gen) remedy(err error) string {
	var different *teacher.DifferentRun
	var unsuitable *teacher.Unsuitable
	var bad *dataset.BadRow
	switch {
	case errors.As(err, &different):
		return ", or start over with --restart"
	case errors.As(err, &unsuitable) && unsuitable.Cut:
		return ": " + g.lessThought() + ", with --restart"
	case errors.As(err, &unsuitable):
		return "; --preview 1 shows what the teacher is asked and what it answers; " +
			"the same command continues with the rows after these, --restart asks again for all"
	case noSystem.MatchString(err.Error()):
		return "; if the model takes no system prompt, put it into the user's message with --fold-system"
	case refusedField.MatchString(err.Error()):
		return g.withoutFields(err.Error())
	case errors.As(err, &bad):
		return ": correct it, or leave out all rows that cannot be read with --skip-bad"
	case errors.Is(err, disk.ErrLocked):
		return ", or set another --out or --work for this run"
	case errors.Is(err, voice.ErrNoBank):
		return ", or choose a model with --model"
	}
	return ""
}

// noSystem matches what servers and chat templates say about a system prompt that they do not take.
var noSystem = regexp.MustCompile(`(?i)system (?:role|message|prompt|instruction)s?\b[^.]{0,30} not (?:be )?` +
	`(?:supported|allowed|enabled)|developer instruction is not enabled|not support '?(?:the )?system\b|` +
	`only user\b[^.]{0,40} roles are supported|: conversation roles must alternate`)

// refusedField matches the refusal of a request because of what is in it.
var refusedField = regexp.MustCompile(`(?s)(?:refused the request \(|: status )(?:400|422)\b.*`)

// withoutFields returns how to leave out the fields of the request that a refusal names, or "" if it names none.
func (g *gen) withoutFields(refusal string) string {
	refusal = refusedField.FindString(refusal)
	if tooLong.MatchString(refusal) {
		return ""
	}
	var fields []string
	for _, field := range []string{"max_tokens", "temperature", "seed", "stop", "stream_options"} {
		if regexp.MustCompile(`\b`+field+`\b`).MatchString(refusal) && (field != "stop" || quotedStop.MatchString(refusal)) {
			fields = append(fields, `"`+field+`":null`)
		}
	}
	if len(fields) == 0 {
		return ""
	}
	if strings.Contains(refusal, "max_completion_tokens") {
		fields = append(fields, fmt.Sprintf(`"max_completion_tokens":%d`, g.maxTokens))
	}
	all := strings.Join(fields, ",")
	if g.extra != "" {
		return fmt.Sprintf("; to leave out what the server refuses, add %s to --extra", all)
	}
	return fmt.Sprintf("; to leave out what the server refuses: --extra '{%s}'", all)
}

// tooLong matches refusals of texts that are too long, which also name max_tokens.
var tooLong = regexp.MustCompile(`(?i)context (?:length|window|size)|too large|reduce the length`)

// quotedStop matches stop as the name of a field rather than as a word.
var quotedStop = regexp.MustCompile("[\"'`.]stop[\"'`:]|\\bstop:")

// errIncomplete ends a run whose missing answers have to come from a batch, which the run has already printed.
var errIncomplete = errors.New("incomplete")

// scrubbed is a writer that removes the key from what is written.
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
