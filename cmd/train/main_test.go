package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"restyle/dataset"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/kernels/cuda/cudatest"
	"restyle/trainer"
	"restyle/trainer/checkpoint"
	"restyle/trainer/report"
)

// childVariable makes the test binary run the command, in a process that can be killed. The child reports on file 3
// each phase and each signal, and continues after each phase when it reads a byte, or the end, from file 4.
const childVariable = "RESTYLE_TEST_TRAIN"

func TestMain(m *testing.M) {
	if dataset.IsChild() {
		os.Exit(dataset.ChildMain())
	}
	if os.Getenv(rankVariable) != "" {
		os.Exit(run(cli.StopContext(cli.StopSignals...), os.Args[1:], os.Stdout, os.Stderr, nil))
	}
	if os.Getenv(childVariable) != "" {
		ctx := cli.StopContext(cli.StopSignals...)
		phases, on := os.NewFile(3, "phases"), os.NewFile(4, "on")
		context.AfterFunc(ctx, func() { fmt.Fprintln(phases, signalled) })
		os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr, func(p trainer.Phase) {
			fmt.Fprintln(phases, p)
			_, _ = on.Read(make([]byte, 1))
		}))
	}
	os.Setenv("CUDA_VISIBLE_DEVICES", "") // so that --device auto is the CPU on every machine
	os.Exit(cudatest.Main(m))
}

// outcome is what a call of the command printed, and its exit code.
type outcome struct {
	code           int
	stdout, stderr string
}

func (o outcome) String() string {
	return fmt.Sprintf("exit %d\nstdout: %s\nstderr: %s", o.code, o.stdout, o.stderr)
}

// invoke runs the command in this process.
func invoke(t testing.TB, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(context.Background(), args, &stdout, &stderr, nil)
	return outcome{code, stdout.String(), stderr.String()}
}

func must(t testing.TB, code int, args ...string) outcome {
	t.Helper()
	o := invoke(t, args...)
	if o.code != code {
		t.Fatalf("train %s: want exit %d: %v", strings.Join(args, " "), code, o)
	}
	return o
}

// command returns the command as a process.
func command(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), childVariable+"=1")
	return c
}

// signalled is what a child reports when a signal has reached it.
const signalled = "signalled"

// A child is the command in a separate process, which waits at the start of each of its phases.
type child struct {
	*exec.Cmd
	lines *bufio.Scanner
	on    *os.File
	waits bool
}

// begin starts the command.
func begin(t *testing.T, c *exec.Cmd) *child {
	t.Helper()
	lines, w, err := os.Pipe()
	expect.OK(t, err)
	waits, on, err := os.Pipe()
	expect.OK(t, err)
	c.ExtraFiles = []*os.File{w, waits}
	expect.OK(t, c.Start())
	t.Cleanup(func() {
		lines.Close()
		on.Close()
	})
	w.Close()
	waits.Close()
	return &child{c, bufio.NewScanner(lines), on, false}
}

// next lets the child start the phase in which it waits, if any. It returns the next phase, in which the child then
// waits, or "" if the child has ended.
func (c *child) next() string {
	if c.waits {
		_, _ = c.on.Write([]byte{'\n'})
	}
	if c.waits = c.lines.Scan(); !c.waits {
		return ""
	}
	return c.lines.Text()
}

// until lets the child continue until it waits in a phase.
func (c *child) until(t *testing.T, phase string) {
	t.Helper()
	for p := c.next(); p != phase; p = c.next() {
		if p == "" {
			t.Fatalf("it ended before %q", phase)
		}
	}
}

// signal sends a signal to the child, waits until it has arrived, and lets the child run to its end.
func (c *child) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	expect.OK(t, c.Process.Signal(s))
	for c.lines.Text() != signalled {
		if !c.lines.Scan() {
			t.Fatalf("%v ended it at once", s)
		}
	}
	c.on.Close()
	_ = c.Wait()
}

const tinyBase = "../../infer/testdata/tiny/base"

// rows writes a dataset of short questions and answers.
func rows(t testing.TB, n int) string {
	t.Helper()
	var list []map[string]string
	for i := range n {
		list = append(list, map[string]string{"instruction": fmt.Sprintf("add %d and %d", i, i+1),
			"output": fmt.Sprintf("print(%d + %d)", i, i+1)})
	}
	data, err := json.Marshal(list)
	expect.OK(t, err)
	path := filepath.Join(t.TempDir(), "rows.json")
	expect.OK(t, os.WriteFile(path, data, 0o666))
	return path
}

// small returns the flags of a run that takes a second.
func small(t testing.TB, out string, more ...string) []string {
	return append([]string{"--model", tinyBase, "--data", rows(t, 40), "--out", out, "--benchmark-log",
		filepath.Join(t.TempDir(), "log.csv"),
		"--seq", "128", "--epochs", "2", "--lr", "1e-3", "--val", "0.1", "--samples", "1", "--fused"}, more...)
}

// summaryOf reads the last line on standard output.
func summaryOf(t testing.TB, o outcome) (f summary) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &f); err != nil {
		t.Fatalf("%v: %v", err, o)
	}
	return f
}

// TestRun goes through a run as a user would, and checks everything that it leaves.
func TestRun(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	log := filepath.Join(t.TempDir(), "bench.csv")
	steps := filepath.Join(t.TempDir(), "steps.csv")
	expect.OK(t, os.WriteFile(steps, []byte("mine"), 0o644))
	args := small(t, out, "--benchmark-log", log, "--label", "a test", "--log-csv", steps)
	o := must(t, cli.Done, args...)
	if string(readFile(t, steps+".bak")) != "mine" {
		t.Errorf("--log-csv replaced %q", readFile(t, steps+".bak"))
	}
	f := summaryOf(t, o)
	checkRecords(t, out, string(readFile(t, steps)), f)
	if f.Steps != 18 || f.Examples != 72 || f.ValLoss == nil || f.Tokens < f.Targets || f.Tokens == 0 {
		t.Errorf("summary %+v", f)
	}
	for _, want := range []string{"36 examples to train on, 4 held out",
		cli.Count(runtime.GOMAXPROCS(0), "thread") + ", fused operations: all", "optimizer state", "lr 0.001", "all-settings",
		"Alpaca columns"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("%q is not in %v", want, o)
		}
	}
	for _, want := range []string{"step 1/18", "step 18/18", "only 18 steps", "validation loss", fmt.Sprintf(
		"has the weights after step %d of 18, those with the lowest validation loss, %.4f", f.WeightsOfStep, *f.ValLoss)} {
		if !strings.Contains(o.stderr, want) {
			t.Errorf("%q is not in %v", want, o)
		}
	}
	for _, name := range []string{"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
		"model.safetensors", "README.md",
		"metrics.jsonl", "loss.svg", "run.json", "tensorboard", "checkpoints/step-000018/optimizer.safetensors"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	card, err := os.ReadFile(filepath.Join(out, "README.md"))
	path, err2 := filepath.Abs(tinyBase)
	if got, err3 := infer.BaseOf(t.Context(), nil, out); errors.Join(err, err2, err3) != nil || got != path {
		t.Errorf("chat finds the base model %q, want %s; %v", got, path, errors.Join(err, err2, err3))
	}
	// Published texts name the base model without its local path; run.json has the path.
	if plot := readFile(t, filepath.Join(out, "loss.svg")); !strings.Contains(string(card), "\nbase, fine-tuned by") ||
		strings.Contains(string(card), "base_model") || !strings.Contains(string(card), "apply_chat_template") ||
		!strings.Contains(string(plot), "restyle: base on") {
		t.Errorf("a path is in the model card or in the plot: %s\n%.600s", card, plot)
	}
	row, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(row), "a test") || !strings.Contains(string(row), ",fused,") {
		t.Errorf("the benchmark log says %s, %v", row, err)
	}

	// The same command again renames the finished run and gives the same weights, bit for bit.
	again := must(t, cli.Done, args...)
	if !strings.Contains(again.stderr, "is kept as "+out+".bak") {
		t.Errorf("a second run: %v", again)
	}
	for _, name := range []string{"model.safetensors", "checkpoints/step-000018/optimizer.safetensors"} {
		if !bytes.Equal(readFile(t, filepath.Join(out, name)), readFile(t, filepath.Join(out+".bak", name))) {
			t.Errorf("%s of the second run differs", name)
		}
	}
	must(t, cli.Done, args...)
	if _, err := os.Stat(out + ".bak.2"); err != nil {
		t.Error(err)
	}
	if o := must(t, cli.Done, append(args, "--resume")...); !strings.Contains(o.stderr, "is finished, after step "+
		"18: to continue it, give the same command with larger --epochs than ") {
		t.Errorf("resuming a finished run: %v", o)
	}
	checkForeignRun(t, out, args)
}

// checkRecords compares the result, the model card and the table of --log-csv with metrics.jsonl.
func checkRecords(t *testing.T, out, csv string, f summary) {
	t.Helper()
	want := summary{Steps: 18, Targets: f.Targets, FirstStep: f.FirstStep, Wall: f.Wall, TFLOPS: f.TFLOPS,
		PlannedMemory: f.PlannedMemory, PeakMemory: f.PeakMemory, Seconds: f.Seconds}
	seconds, targets := 0.0, int64(0)
	cells := map[int][3]string{} // loss, validation loss and learning rate by step
	for text := range strings.Lines(string(readFile(t, filepath.Join(out, "metrics.jsonl")))) {
		var m struct {
			Step             int
			Loss             *report.Number
			ValLoss          *report.Number `json:"val_loss"`
			LR, Seconds      float64
			Examples, Tokens int64
			Trained          int64
		}
		expect.OK(t, json.Unmarshal([]byte(text), &m))
		row := cells[m.Step]
		if m.Loss != nil {
			row[0], row[2] = fmt.Sprint(*m.Loss), fmt.Sprint(m.LR)
			want.Loss, want.Examples, want.Tokens = *m.Loss, want.Examples+m.Examples, want.Tokens+m.Tokens
			seconds, targets = seconds+m.Seconds, targets+m.Trained
		} else if row[1] = fmt.Sprint(*m.ValLoss); want.ValLoss == nil || *m.ValLoss < *want.ValLoss {
			want.ValLoss, want.WeightsOfStep = m.ValLoss, m.Step
		}
		cells[m.Step] = row
	}
	table := "step,train_loss,val_loss,lr\n"
	for step := range 19 {
		table += fmt.Sprintf("%d,%s,%s,%s\n", step, cells[step][0], cells[step][1], cells[step][2])
	}
	if csv != table || !strings.HasPrefix(csv, "step,train_loss,val_loss,lr\n0,,") {
		t.Errorf("--log-csv wrote %q, want %q", csv, table)
	}
	want.TokensSec, want.TargetsSec = float64(want.Tokens)/f.Seconds, float64(targets)/f.Seconds
	want.Out = out
	if fmt.Sprintf("%+v", deref(f)) != fmt.Sprintf("%+v", deref(want)) || f.Targets != targets {
		t.Errorf("the result is %+v, want %+v", deref(f), deref(want))
	}
	var made struct{ Result summary }
	expect.OK(t, json.Unmarshal(readFile(t, filepath.Join(out, trainer.RunName)), &made))
	if made.Result.Out = out; fmt.Sprintf("%+v", deref(made.Result)) != fmt.Sprintf("%+v", deref(f)) {
		t.Errorf("run.json has %+v, and %+v was printed", deref(made.Result), deref(f))
	}
	// A token takes six operations per parameter, and the operations of attention.
	if each := f.TFLOPS * 1e12 / f.TokensSec / 28832; each < 6 || each > 7 || f.Seconds < 0.999*seconds ||
		f.Seconds > 1.001*seconds || f.Wall < f.Seconds || f.FirstStep <= 0 || f.FirstStep > f.Wall ||
		f.PlannedMemory < 1<<20 || f.PeakMemory < 1<<20 {
		t.Errorf("%+v, and the steps took %v s", f, seconds)
	}
	card := fmt.Sprintf("---\nlibrary_name: transformers\npipeline_tag: text-generation\ntags:\n- restyle\n---\n\n"+
		"# %s\n\nbase, fine-tuned by restyle on rows.json (36 examples).\n\n| | |\n|---|---|\n| steps | 18 |\n"+
		"| examples per step | 4 |\n| tokens | %s |\n| target tokens | %d |\n"+
		"| learning rate | 0.001, cosine, warmup 0.03 |\n| optimizer | adamw8bit, master weights split8 |\n"+
		"| type | bf16 |\n| seed | 0 |\n| validation loss | %.4f, after step %d |\n\n"+
		"![The loss of every step and the validation loss](loss.svg)\n\nrun.json has all settings, metrics.jsonl every "+
		"step.\n\n## Usage\n", filepath.Base(out), thousands(want.Tokens), targets, float64(*want.ValLoss),
		want.WeightsOfStep)
	if got := string(readFile(t, filepath.Join(out, "README.md"))); !strings.HasPrefix(got, card) ||
		!strings.HasSuffix(got, "With restyle, in this directory: `chat --tuned .`\n") {
		t.Errorf("the model card is\n%s, want\n%s", got, card)
	}
}

// deref returns a summary with its validation loss in place of the address.
func deref(f summary) any {
	loss := f.ValLoss
	f.ValLoss = nil
	return []any{f, *loss}
}

// checkForeignRun checks that a finished run is not continued if a program that uses the library made it.
func checkForeignRun(t *testing.T, out string, args []string) {
	t.Helper()
	path := filepath.Join(out, trainer.RunName)
	var made map[string]any
	expect.OK(t, json.Unmarshal(readFile(t, path), &made))
	delete(made, "result")
	text, _ := json.Marshal(made) // it was read from JSON
	expect.OK(t, os.WriteFile(path, text, 0o600))
	if o := must(t, cli.Failed, append(args, "--resume")...); !strings.Contains(o.stderr, "was not made by train") {
		t.Errorf("resuming the finished run of another program: %v", o)
	}
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	expect.OK(t, err)
	return data
}

// TestSignals stops a run with signals. The first signal saves and exits with 34, and another run can resume it.
func TestSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			if signal.Ignored(s) {
				t.Skip("this signal is ignored, as nohup has it, and stays so")
			}
			out := filepath.Join(t.TempDir(), "out")
			args := small(t, out, "--save-every", "1000")
			batches := []string{"--write-batches", filepath.Join(t.TempDir(), "batches.jsonl")}
			c := command(append(batches, args...)...)
			var stderr bytes.Buffer
			c.Stderr = &stderr
			child := begin(t, c)
			child.until(t, "step 5")
			child.signal(t, s)
			if code := c.ProcessState.ExitCode(); code != cli.Stopped ||
				!strings.Contains(stderr.String(), "the same command and --resume") {
				t.Fatalf("exit %d: %s", code, &stderr)
			}
			if o := must(t, cli.Failed, args...); !strings.Contains(o.stderr, "--resume") ||
				!strings.Contains(o.stderr, "--restart") {
				t.Errorf("a new run into it: %v", o)
			}
			if o := must(t, cli.Done, append(append(batches, args...), "--resume")...); !strings.Contains(o.stderr,
				"continuing after step 5 of 18") || summaryOf(t, o).Steps != 18 {
				t.Errorf("resumed: %v", o)
			}
		})
	}
}

// TestDeadPipes closes the reader of the output, as tee does on Ctrl-C. The run must continue, and a signal must still
// save it.
func TestDeadPipes(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	args := small(t, out, "--save-every", "1000", "--log-every", "1")
	c := command(args...)
	var readers []*os.File
	for _, end := range []*io.Writer{&c.Stdout, &c.Stderr} {
		r, w, err := os.Pipe()
		expect.OK(t, err)
		*end = w
		defer w.Close()
		readers = append(readers, r)
		go func() { _, _ = io.Copy(io.Discard, r) }()
	}
	child := begin(t, c)
	child.until(t, "step 3")
	for _, r := range readers {
		r.Close()
	}
	child.until(t, "step 9")
	child.signal(t, syscall.SIGINT)
	if code := c.ProcessState.ExitCode(); code != cli.Stopped {
		t.Fatalf("exit %d, %v", code, c.ProcessState)
	}
	if found, err := checkpoint.Latest(trainer.CheckpointsIn(out)); err != nil || found.Step != 9 {
		t.Fatal(found, err)
	}
}

// TestEvents_BeforeCheckpoint checks that the events of all steps of a checkpoint are in their file before the
// checkpoint is written.
func TestEvents_BeforeCheckpoint(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	var steps, saves int
	code := run(context.Background(), small(t, out, "--save-every", "3"), io.Discard, io.Discard, func(p trainer.Phase) {
		switch {
		case strings.HasPrefix(string(p), "step "):
			steps++
		case p == trainer.Saving:
			saves++
			files, _ := filepath.Glob(filepath.Join(out, "tensorboard", "*"))
			if len(files) != 1 {
				t.Fatal(files)
			}
			if n := bytes.Count(readFile(t, files[0]), []byte(report.TagLoss)); n != steps {
				t.Errorf("events of %d steps, of %d", n, steps)
			}
		}
	})
	if code != cli.Done || saves < 6 {
		t.Errorf("exit %d after %d checkpoints", code, saves)
	}
}

// TestEvents_ResumeKeepsLastPoint checks that a resumed run has TensorBoard forget the steps after its checkpoint, and
// no others.
func TestEvents_ResumeKeepsLastPoint(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	args := small(t, out, "--max-steps", "6")
	if code := run(ctx, args, io.Discard, io.Discard, func(p trainer.Phase) {
		if p == "step 4" {
			stop()
		}
	}); code != cli.Stopped {
		t.Fatalf("exit %d", code)
	}
	saved, err := checkpoint.Latest(trainer.CheckpointsIn(out))
	expect.OK(t, err)
	must(t, cli.Done, append(args, "--resume")...)
	files, _ := filepath.Glob(filepath.Join(out, "tensorboard", "*"))
	// Field 2 of an event is its step; field 7 says that a session starts there (status 1). Field 1 is the time.
	start := []byte{2 << 3, byte(saved.Step + 1), 7<<3 | 2, 2, 1 << 3, 1}
	if len(files) != 2 || !bytes.Contains(readFile(t, files[1]), start) {
		t.Errorf("%q: none starts at step %d", files, saved.Step+1)
	}
	const header = 1 + 8 // field 1, and the time
	first := readFile(t, files[0])
	if at := bytes.Index(first, []byte{7<<3 | 2, 2, 1 << 3, 1}); at < header || first[at-header] != 1<<3|1 {
		t.Errorf("%s does not start before the first step", files[0])
	}
}

// TestResult_KeptIfNotPrinted checks that a result that cannot be printed is still kept and counted.
func TestResult_KeptIfNotPrinted(t *testing.T) {
	out, log := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "log.csv")
	args := small(t, out, "--max-steps", "3", "--benchmark-log", log)
	var stderr bytes.Buffer
	if code := run(context.Background(), args, full{}, &stderr, nil); code != cli.Failed ||
		!strings.Contains(stderr.String(), "full") {
		t.Errorf("exit %d: %s", code, &stderr)
	}
	if f := summaryOf(t, must(t, cli.Done, append(args, "--resume")...)); f.Steps != 3 {
		t.Errorf("%+v", f)
	}
	if rows := strings.Count(string(readFile(t, log)), "\n"); rows != 2 {
		t.Errorf("the benchmark log has %d lines", rows)
	}
}

// full is an output without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("it is full") }

// TestRefused_BeforeAnythingIsWritten checks that everything that cannot be done ends in one clear error, before
// anything is written.
func TestRefused_BeforeAnythingIsWritten(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		expect.OK(t, os.WriteFile(path, []byte(content), 0o666))
		return path
	}
	out := filepath.Join(dir, "out")
	full := filepath.Join(dir, "full")
	expect.OK(t, os.Mkdir(full, 0o777))
	file("full/letter.txt", "dear")
	adapter := t.TempDir()
	expect.OK(t, os.WriteFile(filepath.Join(adapter, "adapter_config.json"), []byte("{}"), 0o666))
	pipe := filepath.Join(dir, "pipe.txt")
	expect.OK(t, syscall.Mkfifo(pipe, 0o600))
	config := file("shape.json", string(readFile(t, filepath.Join(tinyBase, "config.json"))))
	for name, c := range map[string]struct {
		code int
		args []string
		want string
	}{
		"an argument":  {cli.Usage, []string{"go"}, "unexpected argument"},
		"no such data": {cli.Failed, small(t, out, "--data", filepath.Join(dir, "none.json")), "none.json"},
		"empty data":   {cli.Failed, small(t, out, "--data", file("empty.json", "[]")), "no rows"},
		"answers without text": {cli.Failed, small(t, out, "--data",
			file("silent.json", `[{"instruction": "a", "output": ""}]`)), "nothing"},
		"not JSON":              {cli.Failed, small(t, out, "--data", file("x.json", "hello")), "given as a text (--text)"},
		"a long row":            {cli.Failed, small(t, out, "--seq", "4"), "--seq"},
		"an adapter of no kind": {cli.Failed, small(t, out, "--model", adapter), "only LORA is supported"},
		"no such model":         {cli.Failed, small(t, out, "--model", filepath.Join(dir, "none")), "none"},
		"a long seq":            {cli.Usage, small(t, out, "--seq", "100000"), "positions"},
		"a pattern for nothing": {cli.Usage, small(t, out, "--freeze", "proj"), "matches no parameter"},
		"no experts": {cli.Usage, small(t, out, "--balance-loss", "0.01"),
			"--balance-loss 0.01: must be 0, as the model has no experts"},
		"a negative factor":  {cli.Usage, small(t, out, "--balance-loss", "-1"), "--balance-loss -1: must be 0 or more"},
		"nothing to train":   {cli.Usage, small(t, out, "--freeze", "*"), "to train"},
		"a strange out":      {cli.Failed, small(t, full), "holds no training run (it has letter.txt)"},
		"nothing to resume":  {cli.Failed, small(t, out, "--resume"), "there is no run in"},
		"resume and restart": {cli.Usage, small(t, out, "--resume", "--restart"), "leave one out"},
		"no memory":          {cli.Failed, small(t, out, "--max-memory", "100kB"), "this run takes"},
		"an optimiser":       {cli.Usage, small(t, out, "--optimizer", "sgd"), "must be adamw8bit or adamw"},
		"a preset":           {cli.Usage, small(t, out, "--preset", "huge"), "must be one of 4gb, 8gb"},
		"an empty data": {cli.Usage, []string{"--data", "x.json", "--data", "", "--out", out},
			`--data "": it is empty`},
		"an empty text":          {cli.Usage, []string{"--text=", "--out", out}, `--text "": it is empty`},
		"an empty model":         {cli.Usage, small(t, out, "--model", " "), "--model is empty"},
		"an empty out":           {cli.Usage, small(t, "", "--seq", "64"), "--out is empty"},
		"an empty fused":         {cli.Usage, small(t, out, "--fused="), "it is empty"},
		"text and data":          {cli.Usage, small(t, out, "--text", "x"), "exclude each other"},
		"from scratch and model": {cli.Usage, small(t, out, "--from-scratch", "x"), "leave one out"},
		"a size":                 {cli.Usage, small(t, out, "--max-memory", "lots"), "must be a size such as 8GiB"},
		"fused":                  {cli.Usage, small(t, out, "--fused=gelu"), "gelu"},
		"patience without any":   {cli.Usage, small(t, out, "--patience", "2", "--val", "0"), "--patience"},
		"a tokenizer of its own": {cli.Usage, small(t, out, "--tokenizer", "x"), "need --from-scratch"},
		"bnb and a master":       {cli.Usage, small(t, out, "--bnb", "--master", "sr"), "--bnb has no master"},
		"an out that is a file":  {cli.Failed, small(t, file("plain", "x")), "plain"},
		"a graphics card":        {cli.Failed, small(t, out, "--device", "cuda"), "cuda"},
		"too many threads":       {cli.Usage, small(t, out, "--threads", "5000"), "threads"},
		"a style":                {cli.Usage, small(t, out, "--style", "polite"), "polite"},
		"a pipe of text": {cli.Failed, []string{"--from-scratch", config, "--text", pipe, "--out", out},
			"not a file but a named pipe"},
		"a style from a pipe": {cli.Usage, small(t, out, "--style", pipe), "not a file but a named pipe"},
		"a log in no directory": {cli.Failed, small(t, out, "--log-csv", filepath.Join(dir, "none", "log.csv")),
			"no such file or directory: choose a file in a directory that can be written"},
		"a log in place of the metrics": {cli.Usage, small(t, out, "--log-csv", filepath.Join(out, "metrics.jsonl")),
			"its name must end in .csv"},
		"a benchmark log in place of the metrics": {cli.Usage, small(t, out, "--benchmark-log",
			filepath.Join(out, "metrics.jsonl")), "its name must end in .csv"},
		"two logs in one": {cli.Usage, small(t, out, "--log-csv", filepath.Join(dir, "x", "..", "log.csv"), "--benchmark-log",
			filepath.Join(dir, "log.csv")), "is also the file of --benchmark-log"},
		"a log in place of the data": {cli.Usage, small(t, out, "--data", filepath.Join(dir, "mine"), "--log-csv",
			file("mine", "x")), "is also the file of --data"},
		"a vocabulary too large for the data": {cli.Failed, []string{"--from-scratch", file("large.json",
			`{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 9000, "hidden_size": 32,
			"intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4, "max_position_embeddings": 128}`),
			"--text", file("text.txt", "To be, or not to be."), "--out", out},
			"vocab_size is 9000, and the data is enough for only"},
		"a log that is a directory": {cli.Failed, small(t, out, "--log-csv", full), "it is not a regular file"},
		"a log that is a pipe":      {cli.Failed, small(t, out, "--log-csv", pipe), "it is not a regular file"},
		"a log far inside": {cli.Failed, small(t, out, "--log-csv", filepath.Join(out, "none", "log.csv")),
			"choose a file in a directory"},
		"a model's own tokenizer": {cli.Failed, []string{"--from-scratch", file("config.json", "{}"), "--data", rows(t, 3),
			"--out", out}, "config.json"},
	} {
		t.Run(name, func(t *testing.T) {
			o := must(t, c.code, c.args...)
			if !strings.Contains(o.stderr, c.want) {
				t.Errorf("%q is not in %v", c.want, o)
			}
			if lines := strings.Count(strings.TrimSpace(o.stderr), "\n"); lines > 2 {
				t.Errorf("one clear error: %v", o)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("the result's directory was made")
			}
		})
	}
}

// TestPrintOnly_WritesNoFiles checks that commands that only print something write no files.
func TestPrintOnly_WritesNoFiles(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	if o := must(t, cli.Done, small(t, out, "--dry-run", "--preset", "8gb")...); !strings.Contains(o.stdout, "total") ||
		!strings.Contains(o.stdout, "\nsettings   given: ") || !strings.Contains(o.stdout, ", lr 0.001, model ") ||
		!strings.Contains(o.stdout, "; for preset 8gb: accumulate 4, batch 1, gradients layer, ") {
		t.Error(o)
	}
	if o := must(t, cli.Done, small(t, out, "--show-example")...); !strings.Contains(o.stdout, "⟦") {
		t.Error(o)
	}
	if o := must(t, cli.Done, "--version"); !strings.HasPrefix(o.stdout, "train ") {
		t.Error(o)
	}
	if o := must(t, cli.Done, "-h"); !strings.Contains(o.stdout, "--accumulate") ||
		!strings.Contains(o.stdout, "default 1.5e-4 for starter, 1e-4") {
		t.Error(o)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("the result's directory was made")
	}
}

// TestDefaults lists what a run without flags does.
func TestDefaults(t *testing.T) {
	const want = "accumulate=4 all-settings=false balance-loss=0 base= batch=1 benchmark-log=benchmark_log.csv " +
		"bnb=false clip=1 columns= data=[] deterministic=false device=auto dry-run=false dtype=bf16 epochs=3 " +
		"eval-every=0 freeze=[] " +
		"from-scratch= fused=none grad-dtype=auto gradients=step keep=2 label= log-csv= log-every=0 lora= " +
		"lora-also=[] lr=2e-05 " +
		"master=split8 max-memory= max-steps=0 model=starter offline=false optimizer=adamw8bit out=out packing=false " +
		"patience=0 preset= quantize-base=none ranks=0 recompute=none restart=false resume=false same-bits=false " +
		"sample-every=0 samples=3 " +
		"save-every=0 schedule=cosine seed=0 selfcheck=false seq=512 shard=optimizer show-example=false split=train " +
		"style=passive-aggressive sync=false template= text=[] threads=0 tokenizer= train-on=responses train-only=[] " +
		"val=0.05 version=false vocab=bpe vocab-data= warmup=0.03 weight-decay=0.01 write-batches="
	_, f := newOptions(io.Discard, io.Discard)
	var all []string
	f.VisitAll(func(x *flag.Flag) { all = append(all, x.Name+"="+x.Value.String()) })
	if got := strings.Join(all, " "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestFromScratch trains a new model on plain text and on questions, each with its own vocabulary, and fine-tunes it.
func TestFromScratch(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "config.json")
	text := filepath.Join(dir, "text.txt")
	expect.OK(t, os.WriteFile(config, []byte(`{"architectures": ["LlamaForCausalLM"], "model_type": "llama",
	"vocab_size": 300, "hidden_size": 32,
		"intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
		"max_position_embeddings": 128, "tie_word_embeddings": true}`), 0o666))
	expect.OK(t, os.WriteFile(text, []byte(strings.Repeat("To be, or not to be, that is the question.\n", 200)),
		0o666))
	restyled := filepath.Join(dir, "restyled.json")
	asGen := strings.ReplaceAll(string(readFile(t, rows(t, 40))), `"output"`, `"output_passive_aggressive"`)
	expect.OK(t, os.WriteFile(restyled, []byte(asGen), 0o666))
	for name, data := range map[string][]string{"text": {"--text", text}, "questions": {"--data", rows(t, 40)},
		"restyled": {"--data", restyled}, "styled": {"--data", rows(t, 40), "--style", "passive-aggressive"}} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(dir, name)
			args := append([]string{"--from-scratch", config, "--out", out, "--seq", "64", "--lr", "1e-2", "--epochs", "3",
				"--benchmark-log", "", "--fused"}, data...)
			f := summaryOf(t, must(t, cli.Done, args...))
			if f.ValLoss == nil || float64(*f.ValLoss) > 4 || (f.Tone != nil) != strings.HasSuffix(name, "styled") {
				t.Errorf("summary %+v", f)
			}
			var config struct {
				Template string `json:"chat_template"` // where older programs look for it
				EOS      string `json:"eos_token"`
			}
			if err := json.Unmarshal(readFile(t, filepath.Join(out, "tokenizer_config.json")), &config); err != nil ||
				strings.Contains(config.Template, "<|im_start|>") != (name != "text") ||
				config.EOS != map[bool]string{true: "<|endoftext|>", false: "<|im_end|>"}[name == "text"] {
				t.Errorf("tokenizer_config.json has %+v, %v", config, err)
			}
			tuned := summaryOf(t, must(t, cli.Done, "--model", out, "--data", rows(t, 10), "--out", out+"-tuned", "--seq", "64",
				"--benchmark-log", "", "--max-steps", "2"))
			if tuned.Steps != 2 {
				t.Errorf("tuned further: %+v", tuned)
			}
		})
	}
}
