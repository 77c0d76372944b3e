package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/internal/expect"
	"restyle/trainer"
	"restyle/trainer/checkpoint"
)

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	expect.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(content), 0o666)))
}

// realDir returns a new directory by its real path, which messages contain.
func realDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	expect.OK(t, err)
	return dir
}

// change edits the record of a run.
func change(t testing.TB, out string, f func(r map[string]any)) {
	t.Helper()
	var r map[string]any
	path := filepath.Join(out, trainer.RunName)
	expect.OK(t, json.Unmarshal(readFile(t, path), &r))
	f(r)
	data, err := json.Marshal(r)
	expect.OK(t, err)
	writeFile(t, path, string(data))
}

// TestSecondRun_TouchesNothing checks that a second run touches nothing of one that is running.
func TestSecondRun_TouchesNothing(t *testing.T) {
	out := filepath.Join(realDir(t), "out")
	args := small(t, out, "--save-every", "4")
	must(t, cli.Done, args...)
	change(t, out, func(r map[string]any) { r["finished"] = false })
	writing := filepath.Join(out, "checkpoints", ".writing-step-000020", "model.safetensors")
	writeFile(t, writing, "half")
	unlock, err := checkpoint.Lock(out)
	expect.OK(t, err)
	for _, flags := range [][]string{{"--resume"}, {"--restart"}, {}} {
		if o := must(t, cli.Failed, append(slices.Clone(args), flags...)...); !strings.Contains(o.stderr,
			"another run is at work there") {
			t.Errorf("%q beside a run: %v", flags, o)
		}
	}
	readFile(t, writing)
	expect.OK(t, unlock())
	must(t, cli.Done, append(args, "--resume")...)
}

// TestLogCSV_RefusesSecondRun runs two trainings with one file of --log-csv, which is next to the directory of the
// first or in it. The second is refused and touches nothing.
func TestLogCSV_RefusesSecondRun(t *testing.T) {
	for _, name := range []string{"steps.csv", "a/steps.csv"} {
		dir := realDir(t)
		log := filepath.Join(dir, name)
		var stdout, stderr bytes.Buffer
		seen := 0
		code := run(t.Context(), small(t, filepath.Join(dir, "a"), "--log-csv", log), &stdout, &stderr,
			func(p trainer.Phase) {
				if p != trainer.Saving || seen > 0 {
					return
				}
				seen++
				b := filepath.Join(dir, "b")
				if o := must(t, cli.Failed, small(t, b, "--log-csv", log)...); !strings.Contains(o.stderr,
					"--log-csv: "+log+".lock: another run is at work there") {
					t.Errorf("%s: beside a run: %v", name, o)
				}
				if _, err := os.Stat(b); err == nil {
					t.Errorf("%s: the refused run made its directory", name)
				}
			})
		if code != cli.Done || seen == 0 {
			t.Errorf("%s: exit code %d: %s", name, code, &stderr)
		}
		for _, file := range []string{log + ".bak", log + ".lock"} {
			if _, err := os.Stat(file); err == nil {
				t.Errorf("%s is left", file)
			}
		}
	}
}

// TestOut_EveryKindOfPath names --out in every possible way.
func TestOut_EveryKindOfPath(t *testing.T) {
	dir := realDir(t)
	out := filepath.Join(dir, "out")
	args := func(name string, more ...string) []string {
		return append([]string{"--model", filepath.Join(dir, "base"), "--data", filepath.Join(dir, "rows.json"), "--out",
			name, "--seq", "128",
			"--max-steps", "2", "--samples", "0", "--benchmark-log", "", "--fused"}, more...)
	}
	expect.OK(t, os.CopyFS(filepath.Join(dir, "base"), os.DirFS(tinyBase)))
	writeFile(t, filepath.Join(dir, "rows.json"), string(readFile(t, rows(t, 20))))
	must(t, cli.Done, args(out)...)
	weights := readFile(t, filepath.Join(out, "model.safetensors"))

	// A link is followed: the directory that it names is renamed and made again.
	link := filepath.Join(dir, "link")
	expect.OK(t, os.Symlink("out", link))
	if o := must(t, cli.Done, args(link)...); !strings.Contains(o.stderr, "is kept as "+out+".bak") {
		t.Error(o)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != os.ModeSymlink ||
		!bytes.Equal(readFile(t, filepath.Join(link, "model.safetensors")), weights) {
		t.Errorf("the link: %v, %v", info, err)
	}
	expect.OK(t, os.Symlink("nowhere", filepath.Join(dir, "loose")))

	// The working directory, or a directory around it, must not be renamed: train refuses it.
	expect.OK(t, os.Mkdir(filepath.Join(out, "below"), 0o777))
	for name, c := range map[string]struct {
		cwd  string
		args []string
		code int
		want string
	}{
		"the working directory":       {out, args("."), cli.Usage, "the working directory"},
		"around the working one":      {filepath.Join(out, "below"), args(out), cli.Usage, "the working directory"},
		"the model's":                 {dir, args("base"), cli.Usage, "--model"},
		"around the model":            {dir, args("out", "--model", "out/below/../../out"), cli.Usage, "--model"},
		"around the data":             {dir, args(filepath.Join(dir, "out"), "--data", "out/run.json"), cli.Usage, "--data"},
		"around the batches":          {dir, args("out", "--write-batches", "out/b.jsonl"), cli.Usage, "--write-batches"},
		"a link to nothing":           {dir, args("loose"), cli.Failed, "loose"},
		"a directory beside the same": {dir, args("base2", "--max-memory", "1kB"), cli.Failed, "this run takes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(c.cwd)
			if o := must(t, c.code, c.args...); !strings.Contains(o.stderr, c.want) {
				t.Errorf("%q is not in %v", c.want, o)
			}
			if got := readFile(t, filepath.Join(out, "model.safetensors")); !bytes.Equal(got, weights) {
				t.Error("the finished model is another")
			}
		})
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 6 { // base, link, loose, out, out.bak, rows.json
		t.Errorf("there are %v", names)
	}
}

// TestFinishedRun_StaysIfNextCannotStart checks that a run that cannot start leaves a finished one in its place.
func TestFinishedRun_StaysIfNextCannotStart(t *testing.T) {
	out := filepath.Join(realDir(t), "out")
	args := small(t, out, "--samples", "0", "--max-steps", "2")
	must(t, cli.Done, args...)
	record := readFile(t, filepath.Join(out, trainer.RunName))
	log := filepath.Join(t.TempDir(), "log.csv")
	writeFile(t, log, "dear diary\n")
	for name, c := range map[string]struct {
		code int
		args []string
		want string
	}{
		"weight decay":      {cli.Usage, []string{"--weight-decay", "-1"}, "--weight-decay"},
		"warmup":            {cli.Usage, []string{"--warmup", "1e18"}, "--warmup"},
		"batch":             {cli.Usage, []string{"--batch", "4611686018427387904"}, "--batch"},
		"accumulate":        {cli.Usage, []string{"--accumulate", "9223372036854775807"}, "--accumulate"},
		"epochs":            {cli.Usage, []string{"--epochs", "2000000000"}, "--epochs"},
		"batches":           {cli.Failed, []string{"--write-batches", "/nonexistent/x"}, "--write-batches"},
		"batches in a file": {cli.Usage, []string{"--write-batches", log}, "the file exists"},
		"benchmark log":     {cli.Failed, []string{"--benchmark-log", log}, "benchmark log"},
		"threads":           {cli.Usage, []string{"--threads", "100000"}, "--threads"},
		"device":            {cli.Usage, []string{"--device", "tpu"}, "--device"},
		"pattern":           {cli.Usage, []string{"--freeze", "["}, "--freeze"},
		"pattern without":   {cli.Usage, []string{"--train-only", "proj"}, "--train-only"},
		"memory":            {cli.Failed, []string{"--max-memory", "1MB"}, "this run takes"},
		"resume, unstarted": {cli.Failed, []string{"--resume", "--out", out + "2"}, "there is no run"},
	} {
		t.Run(name, func(t *testing.T) {
			if o := must(t, c.code, append(slices.Clone(args), c.args...)...); !strings.Contains(o.stderr, c.want) {
				t.Errorf("%q is not in %v", c.want, o)
			}
			if got := readFile(t, filepath.Join(out, trainer.RunName)); !bytes.Equal(got, record) {
				t.Errorf("the record changed: %s", got)
			}
			if got := readFile(t, log); string(got) != "dear diary\n" {
				t.Errorf("a file of the user's is now %s", got)
			}
			if names, _ := filepath.Glob(filepath.Join(filepath.Dir(out), "*")); !slices.Equal(names, []string{out}) {
				t.Errorf("there are %v", names)
			}
		})
	}
}

// TestKills_BeforeFirstCheckpoint resumes what early kills leave: a directory without a record, and a run without a
// checkpoint.
func TestKills_BeforeFirstCheckpoint(t *testing.T) {
	out := filepath.Join(realDir(t), "out")
	args := small(t, out, "--samples", "0", "--max-steps", "4")
	pending := filepath.Join(out, ".restyle-"+strings.Repeat("A", 26)+".tmp")
	if !disk.IsPending(filepath.Base(pending)) {
		t.Fatal("the names of pending files are others")
	}
	writeFile(t, filepath.Join(out, ".lock"), "")
	writeFile(t, pending, "{")
	if o := must(t, cli.Failed, append(slices.Clone(args), "--max-memory", "1MB")...); !strings.Contains(o.stderr,
		"this run takes") {
		t.Error(o)
	}
	if names, _ := filepath.Glob(filepath.Join(out, ".*")); len(names) != 0 {
		t.Errorf("there are %v", names)
	}
	writeFile(t, pending, "{")
	want := summaryOf(t, must(t, cli.Done, args...))
	if names, _ := filepath.Glob(filepath.Join(out, ".*")); len(names) != 1 { // .lock
		t.Errorf("there are %v", names)
	}

	expect.OK(t, os.RemoveAll(trainer.CheckpointsIn(out)))
	change(t, out, func(r map[string]any) {
		r["finished"] = false
		r["decisions"].(map[string]any)["cpu"] = "portable"
	})
	record := readFile(t, filepath.Join(out, trainer.RunName))
	resume := append(slices.Clone(args), "--resume")
	for _, c := range []struct{ flag, value, want string }{
		{"--lr", "0.5", "lr was 0.001 and is now 0.5"},
		{"--train-on", "all", "train-on was responses and is now all"},
		{"--val", "0.2", "val was 0.1 and is now 0.2"},
	} {
		if o := must(t, cli.Failed, append(slices.Clone(resume), c.flag, c.value)...); !strings.Contains(o.stderr, c.want) {
			t.Errorf("%q is not in %v", c.want, o)
		}
		if got := readFile(t, filepath.Join(out, trainer.RunName)); !bytes.Equal(got, record) {
			t.Errorf("the record changed: %s", got)
		}
	}
	o := must(t, cli.Done, resume...)
	if got := summaryOf(t, o); !strings.Contains(o.stdout, "(portable)") || got.Steps != want.Steps ||
		got.Tokens != want.Tokens {
		t.Errorf("resumed: %v", o)
	}
	// TensorBoard drops the events of the first run: SessionLog (field 7) with status START.
	files, _ := filepath.Glob(filepath.Join(out, "tensorboard", "*"))
	if len(files) != 2 || !bytes.Contains(readFile(t, files[1]), []byte{0x3a, 2, 8, 1}) {
		t.Errorf("no mark in the last of %v", files)
	}
}

// TestKills_InTheLastMoments resumes what kills in the last moments leave.
func TestKills_InTheLastMoments(t *testing.T) {
	out := filepath.Join(realDir(t), "out")
	args := small(t, out, "--samples", "0", "--save-every", "4", "--eval-every", "4", "--lr", "0.03")
	first := summaryOf(t, must(t, cli.Done, args...))
	weights := readFile(t, filepath.Join(out, "model.safetensors"))
	best, err := filepath.Glob(filepath.Join(out, "checkpoints", "best-*"))
	if err != nil || len(best) == 0 {
		t.Errorf("there are %v, %v", best, err)
	}
	for _, dir := range best {
		expect.OK(t, os.RemoveAll(dir))
	}

	// Killed before the result was recorded, with the best weights deleted.
	change(t, out, func(r map[string]any) { r["finished"] = false; delete(r, "result") })
	o := must(t, cli.Done, append(slices.Clone(args), "--resume")...)
	if got := summaryOf(t, o); got.Steps != first.Steps || first.WeightsOfStep != got.WeightsOfStep &&
		!strings.Contains(o.stderr, "the best weights so far") {
		t.Errorf("resumed: %v", o)
	}
	if got := summaryOf(t, o); got.WeightsOfStep == first.WeightsOfStep &&
		!bytes.Equal(readFile(t, filepath.Join(out, "model.safetensors")), weights) {
		t.Error("the weights are others")
	}

	// A finished run prints its result again, with the settings that it was made with.
	o = must(t, cli.Done, append(slices.Clone(args), "--resume", "--lr", "0.5", "--label", "other")...)
	if got := summaryOf(t, o); got.Steps != first.Steps || !strings.Contains(o.stderr, "is finished") ||
		!strings.Contains(o.stderr, "made with --lr 0.03, and not 0.5") ||
		!strings.Contains(o.stderr, "made with --label -, and not other") || strings.Contains(o.stderr, "--seq") {
		t.Errorf("a finished run: %v", o)
	}
}

// TestResume_MissingInstructionSet checks that only a missing instruction set is reported as missing.
func TestResume_MissingInstructionSet(t *testing.T) {
	out := filepath.Join(realDir(t), "out")
	args := small(t, out, "--samples", "0", "--max-steps", "2", "--resume")
	must(t, cli.Done, args[:len(args)-1]...)
	change(t, out, func(r map[string]any) {
		r["finished"] = false
		r["decisions"].(map[string]any)["cpu"] = "avx9"
	})
	strict := append(slices.Clone(args), "--same-bits")
	if o := must(t, cli.Failed, strict...); !strings.Contains(o.stderr, "--same-bits: this machine lacks") ||
		!strings.Contains(o.stderr, "avx9") {
		t.Error(o)
	}
	if o := must(t, cli.Done, args...); !strings.Contains(o.stderr, "not with the same bits") ||
		!strings.Contains(o.stderr, "avx9") {
		t.Error(o)
	}
	change(t, out, func(r map[string]any) { r["finished"] = false })
	if o := must(t, cli.Done, strict...); strings.Contains(o.stderr, "same bits") { // with the set in run.json
		t.Error(o)
	}
	change(t, out, func(r map[string]any) { r["finished"] = false })
	if o := must(t, cli.Failed, append(args, "--device", "cuda:7")...); strings.Contains(o.stderr, "same bits") ||
		!strings.Contains(o.stderr, "cuda:7") {
		t.Error(o)
	}
}

// TestExit_ReportsEveryFailure checks that every failure is reported, even together with an orderly stop.
func TestExit_ReportsEveryFailure(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		want string
	}{
		{nil, cli.Done, ""},
		{errors.Join(&begun{&stopped{}}, nil), cli.Stopped, "the same command and --resume"},
		{errors.Join(&begun{errors.Join(&stopped{}, errors.New("event file: full"))}, errors.New("closing")), cli.Failed,
			"event file: full\ntrain: besides: closing"},
		{fmt.Errorf("--x: %w", errors.New("bad")), cli.Failed, "--x: bad"},
		{cli.Usagef("--x: bad"), cli.Usage, "see train -h"},
	} {
		var stderr bytes.Buffer
		tr := &train{options: &options{}, stderr: &stderr}
		if code := tr.exit(t.Context(), c.err); code != c.code || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%v: exit %d, %s", c.err, code, &stderr)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for resume, want := range map[bool]int{false: cli.Retry, true: cli.Stopped} { // as docs/train.md says
		var stderr bytes.Buffer
		tr := &train{options: &options{resume: resume}, stderr: &stderr}
		if code := tr.exit(ctx, fmt.Errorf("reading: %w", ctx.Err())); code != want ||
			!strings.Contains(stderr.String(), "run the same command again") {
			t.Errorf("stopped early: exit %d, %s", code, &stderr)
		}
	}
}

// TestReports_WhatIsLeftOutOrChanged checks that train reports whatever it leaves out or changes.
func TestReports_WhatIsLeftOutOrChanged(t *testing.T) {
	out := filepath.Join(realDir(t), "out")
	var list []map[string]string
	for i := range 12 {
		list = append(list, map[string]string{"instruction": fmt.Sprint(strings.Repeat("and ", 65), i), "output": "print()"})
	}
	data, err := json.Marshal(list)
	expect.OK(t, err)
	long := filepath.Join(t.TempDir(), "long.json")
	writeFile(t, long, string(data))
	o := must(t, cli.Done, "--model", tinyBase, "--data", long, "--out", out, "--max-steps", "2", "--benchmark-log", "",
		"--val", "0.3", "--fused")
	for _, want := range []string{"--seq 512 is more than the model's 256 positions: lowered",
		"3 of 3 sample questions cannot be asked"} {
		if !strings.Contains(o.stderr, want) {
			t.Errorf("%q is not in %v", want, o)
		}
	}
	if o := must(t, cli.Usage, "--model", tinyBase, "--data", rows(t, 1), "--seq", "128", "--out", out+"2", "--patience",
		"1"); !strings.Contains(o.stderr, "none can be held out") {
		t.Error(o)
	}
	bare := filepath.Join(realDir(t), "bare") // a model without a chat template, with a comma in its name
	expect.OK(t, os.CopyFS(bare, os.DirFS(tinyBase)))
	os.Remove(filepath.Join(bare, "chat_template.jinja"))
	change := string(readFile(t, filepath.Join(bare, "tokenizer_config.json")))
	var settings map[string]any
	expect.OK(t, json.Unmarshal([]byte(change), &settings))
	delete(settings, "chat_template")
	data, _ = json.Marshal(settings)
	writeFile(t, filepath.Join(bare, "tokenizer_config.json"), string(data))
	comma := filepath.Join(t.TempDir(), "a,b.json")
	writeFile(t, comma, string(readFile(t, rows(t, 5))))
	if o := must(t, cli.Done, "--model", bare, "--data", comma, "--seq", "128", "--dry-run"); !strings.Contains(o.stdout,
		"nothing marks who speaks") {
		t.Error(o)
	}
	// At this rate everything overflows. With samples and validations, train must say what went wrong and what to do.
	o = must(t, cli.Failed, small(t, filepath.Join(realDir(t), "wild"), "--lr", "1e10", "--eval-every", "2", "--schedule",
		"constant", "--warmup", "0")...)
	for _, want := range []string{"validation loss NaN", "no samples", "lower lr"} {
		if !strings.Contains(o.stderr, want) {
			t.Errorf("%q is not in %v", want, o)
		}
	}
	config := filepath.Join(t.TempDir(), "config.json")
	writeFile(t, config, strings.Replace(string(readFile(t, tinyBase+"/config.json")), `"vocab_size": 320`,
		`"vocab_size": 100`, 1))
	if o := must(t, cli.Failed, "--from-scratch", config, "--data", rows(t, 5), "--seq", "128", "--out",
		out+"2"); !strings.Contains(o.stderr, "--from-scratch") || !strings.Contains(o.stderr, "vocab_size") {
		t.Error(o)
	}
}
