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
	"strings"
	"time"

	"restyle/data"
	"restyle/hf/hub"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/internal/models"
	"restyle/internal/sandbox"
	"restyle/kernels/cuda"
	"restyle/quality"
	"restyle/voice"
)

const aboutQuality = `
bench quality asks a base model and a tuned one questions that training never saw, and grades the
answers: code that parses, that runs and passes the question's check, answers that stop by
themselves, tone, openers, length, and the loss on the reference answers, which rises when a model
forgets.

  bench quality                                           the model in out/ and the model that it was made from
  bench quality --base starter --only base --limit 20
  bench quality --check                                   exit code 1 unless every threshold is met

The code of an answer is its first fence that is tagged python, py, or not at all. An answer without
fences is code as a whole. If a question's check fails its own reference answer, bench quality names
the question, and no answer to it counts as right or wrong. Tone and openers come from the text
outside of fences. The models answer by greedy decoding to chat's prompts, many questions at once, as
serve answers. A file of results that exists already becomes FILE.bak.

Answers run in a sandbox of Linux namespaces. They see Python and an empty directory, no other file
or process and no network, and have limits on time, memory, processes and output. Checks run in
another sandbox, so that an answer cannot declare itself right. If the machine has no sandbox, bench
quality asks nothing: --python "" measures what needs no running, and --run-code-unprotected lets
answers do what your user may do. After Ctrl-C it prints the metrics of the questions answered so
far.`

// qualityOptions are the flags.
type qualityOptions struct {
	base, tuned, only, template string

	questions string
	limit     int
	after     int
	maxTokens int
	python    string
	unsafe    bool
	style     string

	device, dtype string
	threads       int
	sequences     int

	check                   bool
	json, answers, markdown string
}

func (o *qualityOptions) flags(stdout, stderr io.Writer) *cli.Flags {
	f := cli.New("bench quality", aboutQuality, stdout, stderr)
	f.Group("Models")
	f.Add(&o.base, "base", "base model: starter, a `directory`, a .gguf file or a hub id, as chat takes them; default: "+
		"the model that the tuned model was made from")
	f.Add(&o.tuned, "tuned", "tuned model: a `directory` or hub id, of a model or of an adapter, or a .gguf file")
	f.Add(&o.only, "only", "ask only one of them, `base|tuned`")
	f.Add(&o.template, "template", infer.TemplateHelp())

	f.Group("Questions and grading")
	f.Add(&o.questions, "questions", "a `file` of questions, one JSON object per line with instruction, input, output, "+
		"check, "+
		"kind, seen, words, group and before; default: the embedded held-out questions")
	f.Add(&o.limit, "limit", "maximum `questions` of kinds seen in training, of other kinds, and of each other "+
		"group; 0 for all")
	f.Add(&o.after, "after", "ask each question in a conversation, after as many `questions` and the model's own "+
		"answers: those before it in the list; 0: in a new conversation")
	f.Add(&o.maxTokens, "max-tokens", "maximum tokens of an answer")
	f.Add(&o.python, "python", "the Python 3 that runs answers, a `name` or path; \"\" only tells whether they parse")
	f.Add(&o.unsafe, "run-code-unprotected", "run answers without a sandbox if the machine has none: code that a model "+
		"wrote "+
		"and nobody has read may then read, change and send away whatever your user may")
	f.Add(&o.style, "style", "style whose tone is scored: a built-in `style` or a style file")

	f.Group("Device")
	f.Add(&o.device, "device", cli.DeviceHelp)
	f.Add(&o.dtype, "dtype", cli.DTypeHelp)
	f.Add(&o.threads, "threads", "CPU threads of both models together; 0 for GOMAXPROCS")
	f.Add(&o.sequences, "sequences", "questions asked at once, which changes no answer, only speed and memory; 0 for 16 "+
		"on a CPU and 64 on a GPU. With --after it is always 1")

	f.Group("Output")
	f.Add(&o.check, "check", "exit with 1 if a threshold is not met or was not measured")
	f.Add(&o.json, "json", "also write the metrics as JSON to this `file`")
	f.Add(&o.answers, "answers", "also write every question with its answers and their grades as JSON lines to this "+
		"`file`")
	f.Add(&o.markdown, "markdown", "also write the answers side by side as Markdown, like chat's log, to this `file`")
	f.MayBeEmpty("python")
	return f
}

func newQualityOptions() *qualityOptions {
	return &qualityOptions{tuned: "out", maxTokens: 320, python: "python3", style: voice.Default, device: "auto",
		dtype: "auto"}
}

func runQuality(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := newQualityOptions()
	flags := o.flags(stdout, stderr)
	if code, done := flags.Parse(args); done {
		return code
	}
	options, err := o.resolve(ctx, flags.Given)
	if hub.Retryable(err) {
		fmt.Fprintf(stderr, "bench quality: %v\nrun the same command again later\n", err)
		return cli.Retry
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench quality: %v\nsee bench quality -h\n", err)
		return cli.Usage
	}
	show := cli.Progress{Line: cli.NewStatusLine(cli.Raw(stderr))}
	var task string
	var drawn time.Time
	options.Progress = func(doing, what string, share float64) {
		if now := time.Now(); doing != task || now.Sub(drawn) > 100*time.Millisecond {
			task, drawn = doing, now
			show.Draw(doing, what, share)
		}
	}
	options.Note = func(line string) {
		show.Line.Clear()
		fmt.Fprintf(stderr, "bench quality: %s\n", line)
	}
	if options.Python == "" && o.python != "" {
		fmt.Fprintf(stderr, "bench quality: there is no %s: answers are parsed but not run\n", o.python)
	}
	start := time.Now()
	report, err := quality.Run(ctx, options)
	show.Line.Clear()
	if err == nil {
		err = o.print(report, time.Since(start), stdout, stderr)
	}
	var unknown *infer.UnknownTemplate
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		fmt.Fprintln(stderr, "bench quality: stopped before the first answer")
		return cli.Stopped
	case errors.As(err, &unknown):
		fmt.Fprintf(stderr, "bench quality: --template: %v\nsee bench quality -h\n", unknown)
		return cli.Usage
	case hub.Retryable(err), cuda.Fault(err), cuda.Busy(err):
		fmt.Fprintf(stderr, "bench quality: %v\nrun the same command again later\n", err)
		return cli.Retry
	case errors.Is(err, sandbox.ErrUnavailable):
		fmt.Fprintf(stderr, "bench quality: %v\nthe answers of a model are code that nobody has read: run none of it with "+
			"--python \"\", or let it do whatever your user may with --run-code-unprotected\n", err)
		return cli.Failed
	case err != nil:
		fmt.Fprintf(stderr, "bench quality: %v\n", err)
		return cli.Failed
	case !report.Complete:
		fmt.Fprintf(stderr, "bench quality: stopped; the metrics cover the %d of %d questions answered so far\n",
			report.Questions, report.Of)
		return cli.Stopped
	case o.check && !report.OK:
		fmt.Fprintln(stderr, "bench quality: not every threshold is met")
		return cli.Failed
	}
	return cli.Done
}

// resolve turns the flags into options. It finds all errors that can be found without a model.
func (o *qualityOptions) resolve(ctx context.Context, given func(flag string) bool) (q quality.Options,
	err error) {
	dtype, known := infer.DTypes[o.dtype]
	switch {
	case o.only != "" && o.only != quality.Base && o.only != quality.Tuned:
		return q, fmt.Errorf("--only %q: must be base or tuned", o.only)
	case o.limit < 0:
		return q, fmt.Errorf("--limit %d: must be at least 0", o.limit)
	case o.after < 0:
		return q, fmt.Errorf("--after %d: must be at least 0", o.after)
	case o.maxTokens < 1:
		return q, fmt.Errorf("--max-tokens %d: must be at least 1", o.maxTokens)
	case o.after > 0 && o.sequences > 1:
		return q, errors.New("--sequences with --after: each question waits for the answer before: leave one out")
	case o.sequences < 0 || o.sequences > maxSequences:
		return q, fmt.Errorf("--sequences %d: must be 0 to %d", o.sequences, maxSequences)
	case cli.CheckThreads(o.threads) != nil:
		return q, cli.CheckThreads(o.threads)
	case cli.CheckDevice(o.device) != nil:
		return q, cli.CheckDevice(o.device)
	case !known:
		return q, fmt.Errorf("--dtype %q: must be auto, bf16, fp16 or fp32", o.dtype)
	}
	if err := o.checkFiles(); err != nil {
		return q, err
	}
	q = quality.Options{Unprotected: o.unsafe, After: o.after, MaxTokens: o.maxTokens, Device: o.device,
		Threads: o.threads, DType: dtype, Template: o.template, Sequences: o.sequences}
	if q.Models, err = o.models(ctx); err != nil {
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

// checkFiles reports what is wrong with the output files, before the first question.
func (o *qualityOptions) checkFiles() error {
	taken := map[string]string{} // flag by path
	for _, file := range []struct{ flag, path string }{
		{"questions", o.questions}, {"json", o.json}, {"answers", o.answers}, {"markdown", o.markdown},
	} {
		info, err := os.Stat(file.path)
		if file.path == "" || err == nil && !info.IsDir() && !info.Mode().IsRegular() {
			continue
		}
		if err == nil && info.IsDir() {
			return fmt.Errorf("--%s %s: it is a directory: choose a file", file.flag, file.path)
		}
		_, err = os.Stat(filepath.Dir(file.path))
		path := file.path
		if err == nil {
			path, err = filepath.Abs(file.path)
		}
		if err != nil {
			return fmt.Errorf("--%s: %w", file.flag, err)
		}
		if real, err := filepath.EvalSymlinks(path); err == nil { // otherwise the file does not exist yet
			path = real
		}
		if other, ok := taken[path]; ok {
			return fmt.Errorf("--%s and --%s %s: the same file: choose another for one of them", other, file.flag, file.path)
		}
		taken[path] = file.flag
	}
	return nil
}

// models returns the models that the flags ask for, the base model first.
func (o *qualityOptions) models(ctx context.Context) ([]quality.Model, error) {
	base := quality.Model{Label: quality.Base, Name: o.base}
	tuned := quality.Model{Label: quality.Tuned, Name: o.tuned, On: o.base}
	// Checked before anything is loaded. A name that can be a hub id is left to hf.Open.
	_, err := os.Stat(o.tuned)
	known := err == nil || strings.Contains(o.tuned, "/") || o.tuned == data.StarterName
	if o.only != quality.Base && !known {
		return nil, noTuned(o.tuned)
	}
	if o.only == quality.Tuned {
		return []quality.Model{tuned}, nil
	}
	if base.Name == "" {
		var failed error
		base.Name, failed = infer.BaseOf(ctx, nil, o.tuned)
		switch {
		case errors.Is(failed, infer.ErrBaseGone):
			return nil, fmt.Errorf("%w: say where it is with --base%s", failed, models.LeaveOut(ctx, nil, o.tuned))
		case failed != nil:
			return nil, fmt.Errorf("--tuned %s: %w", o.tuned, failed)
		case base.Name == "" && err != nil && !strings.Contains(o.tuned, "/"):
			return nil, noTuned(o.tuned)
		case base.Name == "":
			return nil, fmt.Errorf("--tuned %s: does not say which model it was made from: name that model with --base%s",
				o.tuned, models.LeaveOut(ctx, nil, o.tuned))
		}
	}
	if err := models.CheckWhole(base.Name); err != nil {
		return nil, fmt.Errorf("--base: %w", err)
	}
	if o.only == quality.Base {
		return []quality.Model{base}, nil
	}
	return []quality.Model{base, tuned}, nil
}

func noTuned(dir string) error {
	return fmt.Errorf("there is no tuned model in %s: make one with %s, or name the models with --base "+
		"and --tuned, or ask only a base model, such as the embedded one: --base starter --only base", dir,
		cli.Command("train"))
}

// maxSequences is the maximum of --sequences.
const maxSequences = 4096

// maxQuestions is the maximum size of --questions, in bytes.
const maxQuestions = 64 << 20

// read returns the questions, at most --limit of each group.
func (o *qualityOptions) read() ([]data.Question, error) {
	text := data.Heldout
	if o.questions != "" {
		var err error
		if text, err = disk.ReadInput(o.questions, maxQuestions); err != nil {
			return nil, fmt.Errorf("--questions: %w", err)
		}
	}
	all, err := data.ParseQuestions(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("--questions %s: %w", o.questions, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("--questions %s: no questions: write one JSON object per line", o.questions)
	}
	if o.limit == 0 {
		return all, nil
	}
	var some []data.Question
	type group struct {
		name string
		seen bool // whether the kind was seen in training
	}
	taken := map[group]int{}
	for _, q := range all {
		of := group{q.Group, q.Seen}
		if taken[of]++; taken[of] <= o.limit {
			some = append(some, q)
		}
	}
	return some, nil
}

// qualityResult is the JSON of the result line and of the file of --json.
type qualityResult struct {
	Command string  `json:"command"`
	Seconds float64 `json:"seconds"`
	*quality.Report
}

// print writes the table, the files and the result line. If a file cannot be written, print still writes the rest.
func (o *qualityOptions) print(r *quality.Report, took time.Duration, stdout, stderr io.Writer) error {
	for _, m := range r.Models {
		fmt.Fprintf(stdout, "%-6s %s, %s, template %s, %.0f tokens/s\n", m.Label, m.Name, m.DType, m.Template,
			m.TokensPerSecond)
	}
	with := "nothing was run"
	if r.Python != "" {
		with = "answers run with Python " + r.Python
		if o.unsafe {
			with += ", unprotected"
		}
	}
	each := ""
	if r.After > 0 {
		each = fmt.Sprintf(", each after %s in one conversation", cli.Count(r.After, "other"))
	}
	fmt.Fprintf(stdout, "asked  %d of %s%s, at most %d tokens, greedy; %s; tone of the style %s\n\n",
		r.Questions, cli.Count(r.Of, "question"), each, r.MaxTokens, with, r.Style)
	if err := r.Write(stdout); err != nil {
		return err
	}
	for _, m := range r.Models {
		if n := m.All(func(of quality.Metrics) int { return of.Failed }); n > 0 {
			fmt.Fprintf(stderr, "bench quality: %s: %s failed, the first: %s\n",
				m.Label, cli.Count(n, "question"), r.FirstError(m.Label))
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
