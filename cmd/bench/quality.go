package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"restyle/cmd/bench/quality"
	"restyle/data"
	"restyle/hf/hub"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/internal/sandbox"
	"restyle/kernels/cuda"
	"restyle/voice"
)

const aboutQuality = `
bench quality asks a base model and a tuned one questions that training never saw, and says what the answers are worth:
code that parses, that runs and passes the question's check, answers that end by themselves, tone, openers, length, and
the loss on the plain answers, which rises when a model forgets.

  bench quality                                           the model in out/ beside the one that it was made from
  bench quality --base starter --only base --limit 20
  bench quality --check                                   exit code 1 unless every bar holds

The code of an answer is its first fence tagged python, py, or not at all; an answer without any fence is code as a whole.
A question whose check fails the question's own answer is named, and no answer to it counts as right or wrong. Tone and
openers are looked for in what stands outside of fences. Answers are made as chat makes them, always with the most probable
token. A file of results that exists already is kept as FILE.bak.

The answers are run in a sandbox that Linux makes of namespaces: they see Python and an empty folder, no other file or
process and no network, and have limits on time, memory, processes and output. Checks run in another, so that an answer cannot
say of itself that it is right. Without a sandbox nothing is asked: --python "" measures what needs no running, and
--run-code-unprotected lets answers do what your user may. Ctrl-C prints the figures of what is answered by then.`

// qualityOptions are the flags.
type qualityOptions struct {
	base, tuned, only string

	questions string
	limit     int
	maxTokens int
	python    string
	unsafe    bool
	style     string

	device, dtype string
	threads       int

	check                   bool
	json, answers, markdown string
}

func (o *qualityOptions) flags(out io.Writer) *cli.Flags {
	f := cli.New("bench quality", aboutQuality, out)
	f.Group("Who is asked")
	f.Add(&o.base, "base", "the base model: starter, a `directory` or a hub id, owner/name or owner/name@revision; if not given, the model that the tuned one says it was made from")
	f.Add(&o.tuned, "tuned", "the tuned model: a `directory` or a hub id")
	f.Add(&o.only, "only", "ask one of them alone: `base|tuned`")

	f.Group("What is asked, and how answers are judged")
	f.Add(&o.questions, "questions", "a `file` of questions, a JSON object a line with instruction, input, output, check, kind and seen; if not given, the embedded held-out questions")
	f.Add(&o.limit, "limit", "no more than this many `questions` of trained kinds, and as many of others; 0 for all")
	f.Add(&o.maxTokens, "max-tokens", "most tokens of an answer")
	f.Add(&o.python, "python", "the Python 3 that runs answers, a `name` or path; empty to run nothing and only tell whether they parse")
	f.Add(&o.unsafe, "run-code-unprotected", "run answers without a sandbox, where there is none: code that a model wrote and nobody has read may then read, change and send away all that your user may")
	f.Add(&o.style, "style", "whose tone is scored: a built-in `style` or a style file")

	f.Group("Where the models are")
	f.Add(&o.device, "device", cli.DeviceHelp)
	f.Add(&o.dtype, "dtype", cli.DTypeHelp)
	f.Add(&o.threads, "threads", "CPU threads of both models together; 0 for as many as GOMAXPROCS says")

	f.Group("What comes of it")
	f.Add(&o.check, "check", "exit with 1 where a bar is missed or was not measured")
	f.Add(&o.json, "json", "also write the figures as JSON to this `file`")
	f.Add(&o.answers, "answers", "also write every question with its answers and what was found in them as JSON lines to this `file`")
	f.Add(&o.markdown, "markdown", "also write the answers side by side as Markdown, in the form of chat's log, to this `file`")
	f.MayBeEmpty("python")
	return f
}

func runQuality(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := &qualityOptions{tuned: "out", maxTokens: 320, python: "python3", style: voice.Default, device: "auto", dtype: "auto"}
	flags := o.flags(stderr)
	if code, done := flags.Parse(args); done {
		return code
	}
	options, err := o.resolve(flags.Given)
	if err != nil {
		fmt.Fprintf(stderr, "bench quality: %v\nsee bench quality -h\n", err)
		return cli.Usage
	}
	show := &progress{status: cli.NewStatusLine(cli.Raw(stderr))}
	var drawn time.Time
	options.Progress = func(doing, what string, share float64) {
		if now := time.Now(); doing != show.folder || now.Sub(drawn) > 100*time.Millisecond {
			drawn = now
			show.step(doing, what, share)
		}
	}
	options.Note = func(line string) {
		show.status.Clear()
		fmt.Fprintf(stderr, "bench quality: %s\n", line)
	}
	if options.Python == "" && o.python != "" {
		fmt.Fprintf(stderr, "bench quality: there is no %s: answers are parsed and not run\n", o.python)
	}
	begun := time.Now()
	report, err := quality.Run(ctx, options)
	show.status.Clear()
	if err == nil {
		err = o.print(report, time.Since(begun), stdout, stderr)
	}
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		fmt.Fprintln(stderr, "bench quality: stopped before anything was answered")
		return cli.Stopped
	case hub.Retryable(err), cuda.Fault(err), cuda.Busy(err):
		fmt.Fprintf(stderr, "bench quality: %v\nrun the same command again later\n", err)
		return cli.Retry
	case errors.Is(err, sandbox.ErrUnavailable):
		fmt.Fprintf(stderr, "bench quality: %v\nthe answers of a model are code that nobody has read: run none of it with --python \"\", or give --run-code-unprotected and let it do all that your user may\n", err)
		return cli.Failed
	case err != nil:
		fmt.Fprintf(stderr, "bench quality: %v\n", err)
		return cli.Failed
	case !report.Complete:
		fmt.Fprintf(stderr, "bench quality: stopped; the figures are of the questions that were answered by then, %d of %d\n", report.Questions, report.Of)
		return cli.Stopped
	case o.check && !report.OK:
		fmt.Fprintln(stderr, "bench quality: not every bar holds")
		return cli.Failed
	}
	return cli.Done
}

// resolve turns the flags into what is to be done. All that can be wrong without a model is found here.
func (o *qualityOptions) resolve(given func(flag string) bool) (q quality.Options, err error) {
	dtype, known := infer.DTypes[o.dtype]
	switch {
	case o.only != "" && o.only != quality.Base && o.only != quality.Tuned:
		return q, fmt.Errorf("--only %q is neither base nor tuned", o.only)
	case o.limit < 0:
		return q, fmt.Errorf("--limit is %d: give a number of questions, or 0 for all", o.limit)
	case o.maxTokens < 1:
		return q, fmt.Errorf("--max-tokens is %d: give at least 1", o.maxTokens)
	case o.threads < 0:
		return q, fmt.Errorf("--threads is %d: give a number of threads, or 0 for all", o.threads)
	case !known:
		return q, fmt.Errorf("--dtype %q is not auto, bf16 or fp32", o.dtype)
	}
	if err := o.checkFiles(); err != nil {
		return q, err
	}
	q = quality.Options{Unprotected: o.unsafe, MaxTokens: o.maxTokens, Device: o.device, Threads: o.threads, DType: dtype}
	if q.Models, err = o.models(); err != nil {
		return q, err
	}
	if q.Questions, err = o.read(); err != nil {
		return q, err
	}
	if q.Style, err = voice.Load(o.style); err != nil {
		return q, fmt.Errorf("--style: %w", err)
	}
	if o.python != "" {
		if q.Python, err = exec.LookPath(o.python); err != nil && given("python") {
			return q, fmt.Errorf("--python: %w", err)
		}
	}
	return q, nil
}

// checkFiles finds what is wrong with the files to be written now, and not when all is answered.
func (o *qualityOptions) checkFiles() error {
	taken := map[string]string{} // by path: which flag
	for _, file := range []struct{ flag, path string }{{"questions", o.questions}, {"json", o.json}, {"answers", o.answers}, {"markdown", o.markdown}} {
		if info, err := os.Stat(file.path); file.path == "" || err == nil && !info.Mode().IsRegular() {
			continue
		}
		_, err := os.Stat(filepath.Dir(file.path))
		path := file.path
		if err == nil {
			path, err = filepath.Abs(file.path)
		}
		if err != nil {
			return fmt.Errorf("--%s: %w", file.flag, err)
		}
		if real, err := filepath.EvalSymlinks(path); err == nil { // else there is no such file yet
			path = real
		}
		if other, ok := taken[path]; ok {
			return fmt.Errorf("--%s and --%s are the same file, %s: give each its own", other, file.flag, file.path)
		}
		taken[path] = file.flag
	}
	return nil
}

// models are those that the flags ask for, the base model first.
func (o *qualityOptions) models() ([]quality.Model, error) {
	base, tuned := quality.Model{Label: quality.Base, Name: o.base}, quality.Model{Label: quality.Tuned, Name: o.tuned}
	if o.only == quality.Tuned {
		return []quality.Model{tuned}, nil
	}
	if base.Name == "" {
		if base.Name = infer.BaseOf(o.tuned); base.Name == "" {
			if _, err := os.Stat(o.tuned); err != nil {
				return nil, fmt.Errorf("there is no tuned model in %s: make one with go run ./cmd/train, or give the models with --base and --tuned", o.tuned)
			}
			return nil, fmt.Errorf("which model %s was made from is not known: give it with --base", o.tuned)
		}
	}
	if o.only == quality.Base {
		return []quality.Model{base}, nil
	}
	return []quality.Model{base, tuned}, nil
}

// read gives the questions, cut down to --limit.
func (o *qualityOptions) read() ([]data.Question, error) {
	text := data.Heldout
	if o.questions != "" {
		var err error
		if text, err = disk.ReadInput(o.questions); err != nil {
			return nil, fmt.Errorf("--questions: %w", err)
		}
	}
	all, err := data.ParseQuestions(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("--questions %s: %w", o.questions, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("--questions %s: there are none in it: give one JSON object a line", o.questions)
	}
	if o.limit == 0 {
		return all, nil
	}
	var some []data.Question
	taken := map[bool]int{} // by whether the kind was trained
	for _, q := range all {
		if taken[q.Seen]++; taken[q.Seen] <= o.limit {
			some = append(some, q)
		}
	}
	return some, nil
}

// qualityResult is what is written as JSON.
type qualityResult struct {
	Command string  `json:"command"`
	Seconds float64 `json:"seconds"`
	*quality.Report
}

// print writes the table, the files and the last line. A file that cannot be written keeps nothing else from it.
func (o *qualityOptions) print(r *quality.Report, took time.Duration, stdout, stderr io.Writer) error {
	for _, m := range r.Models {
		fmt.Fprintf(stdout, "%-6s %s, %s, %.0f tokens/s\n", m.Label, m.Name, m.DType, m.TokensPerSecond)
	}
	with := "nothing was run"
	if r.Python != "" {
		with = "answers run with Python " + r.Python
		if o.unsafe {
			with += ", unprotected"
		}
	}
	fmt.Fprintf(stdout, "asked  %d of %s, at most %d tokens, greedy; %s; tone of the style %s\n\n", r.Questions, cli.Count(r.Of, "question"), r.MaxTokens, with, r.Style)
	if err := r.Write(stdout); err != nil {
		return err
	}
	for _, m := range r.Models {
		if n := m.Seen.Failed + m.Unseen.Failed; n > 0 {
			fmt.Fprintf(stderr, "bench quality: %s: %s went wrong, the first: %s\n", m.Label, cli.Count(n, "question"), r.FirstError(m.Label))
		}
	}
	if broken := r.Broken(); broken != "" {
		fmt.Fprintf(stderr, "bench quality: %s\n", broken)
	}
	v := qualityResult{Command: "quality", Seconds: took.Round(time.Millisecond).Seconds(), Report: r}
	var failed []error
	for _, file := range []struct {
		flag, path string
		write      func(w io.Writer) error
	}{
		{"json", o.json, func(w io.Writer) error { return cli.PrintJSON(w, v) }},
		{"answers", o.answers, r.WriteAnswers},
		{"markdown", o.markdown, r.WriteMarkdown},
	} {
		if file.path == "" {
			continue
		}
		var b bytes.Buffer
		err := file.write(&b)
		if err == nil {
			err = writeFile(file.path, b.Bytes())
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("--%s: %w", file.flag, err))
		}
	}
	return errors.Join(append(failed, cli.PrintJSON(stdout, v))...)
}
