package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"restyle/grade"
	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/internal/sandbox"
)

const (
	tinyBase  = "../../infer/testdata/tiny/base"
	tinyTuned = "../../infer/testdata/tiny/tuned"
)

// known are questions that the tiny models can answer, in the form of --questions.
const known = `{"instruction":"How do I print hello world?","output":"print(\"hello world\")",` +
	`"check":"assert printed == 'hello world\\n'","kind":"print","seen":true}
{"instruction":"How do I reverse a list?","output":"xs = [1]\nprint(xs[::-1])",` +
	`"check":"pass","kind":"reverse","seen":true}
{"instruction":"Count to ten.","input":"","output":"print(1)","check":"pass","kind":"count","seen":false}
`

func knownFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "known.jsonl")
	expect.OK(t, os.WriteFile(path, []byte(known), 0o644))
	return path
}

func TestQualityUsage(t *testing.T) {
	t.Setenv("HF_HUB_OFFLINE", "1")
	t.Setenv("HF_HOME", t.TempDir())
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	bad := filepath.Join(t.TempDir(), "bad.jsonl")
	for path, text := range map[string]string{empty: "\n", bad: known + `{"instruction":"x"}`} {
		expect.OK(t, os.WriteFile(path, []byte(text), 0o644))
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	expect.OK(t, syscall.Mkfifo(pipe, 0o600))
	adapter := t.TempDir()
	expect.OK(t, os.WriteFile(filepath.Join(adapter, "adapter_config.json"), []byte("{}"), 0o666))
	for _, c := range []struct {
		args string
		code int
		want string // on stderr
	}{
		{"-h", cli.Done, "--max-tokens"},
		{"x", cli.Usage, "unexpected argument"},
		{"--only both", cli.Usage, `"both": must be base or tuned`},
		{"--limit -1", cli.Usage, "--limit -1: must be"},
		{"--max-tokens 0", cli.Usage, "--max-tokens 0: must be"},
		{"--threads -2", cli.Usage, "--threads -2: must be"},
		{"--threads 1025", cli.Usage, "--threads 1025: must be"},
		{"--dtype fp8", cli.Usage, `"fp8": must be`},
		{"--json no/such/folder/a.json", cli.Usage, "--json: stat no/such/folder"},
		{"--json " + bad + " --questions " + bad, cli.Usage, "--questions and --json "},
		{"--json results", cli.Usage, "--json results: it is a directory: choose a file"},
		{"--json x --markdown ./x", cli.Usage, "--json and --markdown ./x: the same file"},
		{"--tuned no-such-folder", cli.Usage, "there is no tuned model in no-such-folder: make one with go run"},
		{"--base " + tinyBase + " --tuned no-such-folder", cli.Usage, "there is no tuned model in no-such-folder"},
		{"--only tuned --tuned no-such-folder", cli.Usage, "there is no tuned model in no-such-folder"},
		{"--tuned " + tinyTuned, cli.Usage, "with --base"},
		{"--base a/b --tuned c/d --questions no-such-file", cli.Usage, "no-such-file: no such file or directory"},
		{"--base a/b --tuned c/d --questions " + pipe, cli.Usage, "not a file but a named pipe"},
		{"--base a/b --tuned c/d --questions " + empty, cli.Usage, "no questions"},
		{"--base a/b --tuned c/d --questions " + bad, cli.Usage, "question 4: output"},
		{"--base a/b --tuned c/d --style no-such-style", cli.Usage, "--style: "},
		{"--base a/b --tuned c/d --python no-such-python", cli.Usage, "--python: "},
		{"--only base --base " + tinyBase + " --device tpu", cli.Usage, `--device "tpu"`},
		{"--tuned x/y --base " + adapter, cli.Usage, "--base: " + adapter + " is an adapter, not a whole model"},
		{"--tuned " + adapter, cli.Usage, "does not say which model it was made from: name that model with --base\n"},
		{"--only base --base no-such-folder", cli.Failed, "base model no-such-folder: "},
	} {
		code, stdout, stderr := bench(t, append([]string{"quality"}, strings.Fields(c.args)...)...)
		said, other := stderr, stdout
		if c.code == cli.Done { // the help
			said, other = other, said
		}
		if code != c.code || !strings.Contains(said, c.want) || other != "" {
			t.Errorf("bench quality %s: exit %d, stderr %q, stdout %q; want %d and %q", c.args, code, stderr, stdout, c.code,
				c.want)
		}
	}
}

// TestQuality_OwnNamedTemplate asks and trains a model that has a named chat template, but no default one.
func TestQuality_OwnNamedTemplate(t *testing.T) {
	model := t.TempDir()
	expect.OK(t, os.CopyFS(model, os.DirFS(tinyBase)))
	config := `{"eos_token": "<|im_end|>", "chat_template": [{"name": "short", "template": "{% for m in messages %}` +
		"[{{ m.role }}]{{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}" + `"}]}`
	expect.OK(t, os.WriteFile(filepath.Join(model, "tokenizer_config.json"), []byte(config), 0o666))
	for _, args := range [][]string{
		{"quality", "--base", model, "--only", "base", "--python", "", "--limit", "1", "--max-tokens", "4"},
		{"train", "--model", model, "--modes", "fused", "--rows", "8", "--steps", "1", "--seq", "64"},
	} {
		args = append(args, "--device", "cpu")
		for _, c := range []struct {
			more []string
			want string
		}{
			{nil, "none of the chat templates is the default"},
			{[]string{"--template", "long"}, `chat template "long": unknown`},
		} {
			code, _, stderr := bench(t, append(args, c.more...)...)
			if code != cli.Usage || !strings.HasPrefix(stderr, "bench "+args[0]+": --template: "+c.want) {
				t.Errorf("%s %v: exit %d, %s", args[0], c.more, code, stderr)
			}
		}
		for _, name := range []string{"short", "chatml"} {
			code, stdout, stderr := bench(t, append(args, "--template", name)...)
			if code != cli.Done || args[0] == "quality" && name == "chatml" && !strings.Contains(stdout, "template chatml,") {
				t.Errorf("%s %s: exit %d, %s\n%s", args[0], name, code, stderr, stdout)
			}
		}
	}
}

// TestQuality checks bench quality with two real, tiny models, from questions in a file to the table, the files and the
// last line.
func TestQuality(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "a.json"), filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "a.md")}
	args := []string{"quality", "--device", "cpu", "--base", tinyBase, "--tuned", tinyTuned, "--questions", knownFile(t),
		"--json", files[0], "--answers", files[1], "--markdown", files[2]}
	if _, err := grade.Run(t.Context(), "python3", []grade.Trial{{}}); errors.Is(err, sandbox.ErrUnavailable) {
		args = append(args, "--run-code-unprotected")
	}
	code, stdout, stderr := bench(t, args...)
	if code != cli.Done || stderr != "" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	for _, want := range []string{
		"asked  3 of 3 questions, at most 320 tokens, greedy; answers run with Python 3.",
		"seen in training: 2         base ", "not seen in training: 1 ",
		"  it runs and is right                        1   50.0%",
		"  base: it runs and is right               at least 80%   50.0%    MISSED",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("there is no %q in\n%s", want, stdout)
		}
	}
	last := lastLine(t, stdout)
	if last["command"] != "quality" || last["complete"] != true || last["ok"] != false ||
		len(last["models"].([]any)) != 2 || len(last["bars"].([]any)) != 6 {
		t.Errorf("the last line is %v", last)
	}
	var written [3][]byte
	for i, path := range files {
		var err error
		if written[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.HasSuffix(stdout, "\n"+string(written[0])) {
		t.Errorf("--json has\n%s", written[0])
	}
	if n := bytes.Count(written[1], []byte("\n")); n != 3 || !json.Valid(bytes.SplitN(written[1], []byte("\n"), 2)[0]) {
		t.Errorf("--answers has %d lines:\n%s", n, written[1])
	}
	if want := "### Query: *\"How do I print hello world?\"*\n\n**Base model, " + tinyBase + ":**\n> Use `print`:\n> " +
		"\n> ```python\n> print(\"hello world\")\n> ```\n\n*(right, tone 0)*\n\n"; !strings.HasPrefix(
		string(written[2]), want) {
		t.Errorf("--markdown has\n%s", written[2])
	}
	if code, _, stderr := bench(t, append(args, "--check")...); code != cli.Failed ||
		!strings.Contains(stderr, "not every threshold is met") {
		t.Errorf("--check: exit %d, %s", code, stderr)
	}
}

// TestQualityBaseGone checks what bench says about a tuned model whose base no longer exists.
func TestQualityBaseGone(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "base")
	run := fmt.Appendf(nil, `{"base_model": %q}`, gone)
	expect.OK(t, os.WriteFile(filepath.Join(dir, "run.json"), run, 0o644))
	code, _, stderr := bench(t, "quality", "--tuned", dir)
	want := dir + " was made from the model in " + gone + ", which is not there any more: say where it is with --base"
	if code != cli.Usage || !strings.Contains(stderr, want) {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

// TestQualityWithoutPython checks that without python3 the answers are parsed, and that the output says that they were
// not run.
func TestQualityWithoutPython(t *testing.T) {
	questions := knownFile(t)
	t.Setenv("PATH", t.TempDir())
	args := []string{"quality", "--device", "cpu", "--base", tinyBase, "--only", "base", "--questions", questions}
	code, stdout, stderr := bench(t, args...)
	if code != cli.Done || !strings.Contains(stderr, "there is no python3") ||
		strings.Count(stdout, "not measured") != 3 || !strings.Contains(stdout, "nothing was run") {
		t.Errorf("exit %d, %s\n%s", code, stderr, stdout)
	}
	code, stdout, stderr = bench(t, append(args, "--python", "")...)
	if code != cli.Done || stderr != "" || !strings.Contains(stdout,
		"  the code parses                             2  100.0%") {
		t.Errorf("exit %d, %s\n%s", code, stderr, stdout)
	}
}

// TestQualityLimit checks that --limit applies to each group of questions.
func TestQualityLimit(t *testing.T) {
	o := &qualityOptions{limit: 7}
	questions, err := o.read()
	expect.OK(t, err)
	seen := 0
	for _, q := range questions {
		if q.Seen {
			seen++
		}
	}
	if len(questions) != 5*7 || seen != 7 { // kinds seen and not, typed, outside, turns
		t.Errorf("%d questions, %d of them of trained kinds", len(questions), seen)
	}
}

// TestQualityStopped checks that Ctrl-C ends the command with exit code 34, with metrics if there are any.
func TestQualityStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	args := []string{"quality", "--base", tinyBase, "--tuned", tinyTuned, "--python", ""}
	if code := run(ctx, args, &out, &errs); code != cli.Stopped || out.Len() > 0 ||
		!strings.Contains(errs.String(), "stopped before") {
		t.Errorf("exit %d, %s%s", code, &errs, &out)
	}
	wait := 100 * time.Millisecond
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		out.Reset()
		errs.Reset()
		code := run(ctx, args, &out, &errs)
		cancel()
		switch {
		case code == cli.Done: // all questions were answered in time
			wait = wait * 2 / 3
		case strings.Contains(errs.String(), "stopped before"): // none was answered
			wait *= 2
		default:
			last := lastLine(t, out.String())
			if code != cli.Stopped || !strings.Contains(errs.String(), "stopped; the metrics cover the") ||
				last["complete"] != false || last["questions"] == 0.0 {
				t.Errorf("exit %d, %s%s", code, &errs, &out)
			}
			return
		}
	}
	t.Error("no run was stopped in the middle")
}
