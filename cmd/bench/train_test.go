package main

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"restyle/cmd/bench/results"
	"restyle/internal/cli"
	"restyle/internal/expect"
)

// fakeTorch plays a python3 with torch: it answers each line as the docs of pytorch.py say. Its losses count the
// steps. It waits in a step if a pipe is next to it when the step starts.
const fakeTorch = `#!/bin/sh
[ "$1" = -c ] && exit 0
read -r line; printf '%s\n' "$2 $line" > "$0.settings"
echo '{"label": "torch 9"}'
n=0
while read -r line; do
	[ -e "$0.pipe" ] && read -r line < "$0.pipe"
	n=$((n + 1))
	printf '%s\n' "$line" >> "$0.steps"
	echo "{\"loss\": $n.5, \"seconds\": 0.25, \"memory\": 1048576}"
done
`

// newTorch writes fakeTorch to a directory and returns its path.
func newTorch(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "python")
	expect.OK(t, os.WriteFile(path, []byte(fakeTorch), 0o755))
	return path
}

func TestTrain(t *testing.T) {
	dir := t.TempDir()
	python := newTorch(t, dir)
	out := filepath.Join(dir, "out")
	args := []string{"train", "--rows", "16", "--steps", "3", "--seq", "64", "--modes", "standard,fused,torch-eager",
		"--python", python, "--device", "cpu", "--out", out}
	code, stdout, stderr := bench(t, args...)
	if code != cli.Done || stderr != "" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	f, err := results.Load(out)
	expect.OK(t, err)
	rows := f.Table("train").Rows
	if len(rows) != 3 {
		t.Fatalf("%v", rows)
	}
	standard, fused, torch := rows[0], rows[1], rows[2]
	for _, r := range rows {
		if r["steps"] != 3.0 || r["tokens"] != standard["tokens"] || !(r.Number("memory") > 0) || !(r.Number("time") > 0) {
			t.Errorf("%v", r)
		}
		if epoch := r.Number("epoch"); !near(r.Number("rate")*epoch, r.Number("tokens")) ||
			!near(r.Number("target_rate")*epoch, standard.Number("target_rate")*standard.Number("epoch")) ||
			!(r.Number("target_rate") < r.Number("rate")) || !(epoch > 0) {
			t.Errorf("%v", r)
		}
	}
	// The same function, rounded to BF16 in other places.
	if d := fused.Number("difference"); !(d < 0.02) || standard["difference"] != nil || !(fused.Number("loss") > 0) {
		t.Errorf("%v, %v", standard, fused)
	}
	if torch["time"] != 250.0 || torch["loss"] != 2.5 || torch["epoch"] != 0.75 || torch["memory"] != 1.0 ||
		torch["with"] != "torch 9" || !(torch.Number("difference") > 0) {
		t.Errorf("%v", torch)
	}
	settings, err := os.ReadFile(python + ".settings")
	if err != nil || !strings.HasPrefix(string(settings), "train {") ||
		!strings.Contains(string(settings), `"mode":"eager"`) ||
		!strings.Contains(string(settings), `"clip":1`) {
		t.Errorf("%s, %v", settings, err)
	}
	steps, err := os.ReadFile(python + ".steps")
	if err != nil || strings.Count(string(steps), "\n") != 3 || !strings.HasPrefix(string(steps), `{"step":1,"lr":`) {
		t.Errorf("%s, %v", steps, err)
	}
	if curve := f.Table("train-curve"); len(curve.Rows) != 9 {
		t.Errorf("%d rows of the curve", len(curve.Rows))
	}
	page := calm(t, out)
	if !strings.Contains(page, "fused next to standard: a step is ") || !strings.Contains(page, "; the epoch takes ") ||
		!strings.Contains(page, "(train-curve.svg)") || strings.Contains(page, "| mode | step |") {
		t.Error(page)
	}
	if !strings.Contains(stdout, "torch-eager next to standard") {
		t.Error(stdout)
	}
	more := append(slices.Clone(args), "--modes", "fused,torch-compile")
	if code, _, stderr := bench(t, more...); code != cli.Done || stderr != "" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	if f, err = results.Load(out); err != nil {
		t.Fatal(err)
	}
	if rows, curve := f.Table("train").Rows, f.Table("train-curve").Rows; len(rows) != 4 || len(curve) != 12 {
		t.Errorf("%d rows and %d of the curve; earlier ones must stay", len(rows), len(curve))
	}
}

// TestTrain_CtrlCStopsOtherProgram checks that Ctrl-C in the middle of another program's step ends the run and that
// program, and that the same command then measures all.
func TestTrain_CtrlCStopsOtherProgram(t *testing.T) {
	dir := t.TempDir()
	python, out := newTorch(t, dir), filepath.Join(dir, "out")
	args := []string{"train", "--model", tinyBase, "--rows", "16", "--steps", "2", "--seq", "64", "--modes", "torch-eager",
		"--python", python, "--device", "cpu", "--out", out}
	pipe := python + ".pipe"
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() {
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when the other side reads
		stop()
		<-ended // the other side waits until then
		if err == nil {
			_ = f.Close()
		}
	}()
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, &stdout, &stderr)
	close(ended)
	want := "bench train: stopped; with the same --out it measures what is missing\n"
	if code != cli.Failed || stderr.String() != want {
		t.Errorf("exit %d, %s, want %s", code, &stderr, want)
	}
	expect.OK(t, os.Remove(pipe))
	if code, _, stderr := bench(t, args...); code != cli.Done || stderr != "" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	f, err := results.Load(out)
	if err != nil || len(f.Table("train-curve").Rows) != 2 || len(f.Table("train").Rows) != 1 {
		t.Errorf("%v, %v", f, err)
	}
}

// TestTrainWithoutTorch checks that modes without their program are named as absent.
func TestTrainWithoutTorch(t *testing.T) {
	code, stdout, stderr := bench(t, "train", "--rows", "4", "--steps", "1", "--seq", "32", "--modes",
		"torch-compile,fused,standard",
		"--python", "/no/such/python", "--device", "cpu")
	if code != cli.Done || !strings.Contains(stdout, "standard next to fused: ") ||
		!strings.Contains(stdout, "torch-compile is absent: /no/such/python has no torch") {
		t.Errorf("exit %d, %s\n%s", code, stderr, stdout)
	}
}

func TestTrainRefuses(t *testing.T) {
	refuses(t, "train", cli.Usage, map[string]string{"--modes warp": `--modes "warp": must be of standard`,
		"--modes fused,fused": "each once", "--rows 0": "--rows 0",
		"--batch 0": "batch 0", "--steps -1": "--steps -1"})
}

// TestTrain_OtherFlagsAreAnotherRun checks that the rows of one run are not taken for the rows of a run with other
// flags.
func TestTrain_OtherFlagsAreAnotherRun(t *testing.T) {
	of := func(args ...string) string {
		o := newTrainOptions(nil)
		if code, done := o.flags(io.Discard, io.Discard).Parse(args); done {
			t.Fatal(args, code)
		}
		return o.decisive()
	}
	first := of()
	for _, flags := range []string{"--rows 8", "--steps 3", "--batch 2", "--accumulate 2", "--seq 64", "--lr 1e-3",
		"--optimizer adamw", "--seed 7", "--template raw"} {
		if of(strings.Fields(flags)...) == first {
			t.Errorf("%s: the settings are those without it: %s", flags, first)
		}
	}
	for _, flags := range []string{"--device cpu", "--modes fused", "--note busy", "--out elsewhere"} {
		if got := of(strings.Fields(flags)...); got != first {
			t.Errorf("%s: %s, want %s", flags, got, first)
		}
	}
}

func TestPart(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		a, b []float64
		most float64
		step int
	}{
		{[]float64{4, 2, 1}, []float64{4, 2, 1}, 0, 0},
		{[]float64{4, 2, 1}, []float64{4.001, 2.5, 0.9}, 0.25, 2},
		{[]float64{4, 2}, []float64{4.001, 2}, 0.00025, 0},
		{[]float64{4, 2}, []float64{4, nan}, math.Inf(1), 2},
	} {
		most, step := part(c.a, c.b, 0x1p-9)
		if most != c.most && !(math.Abs(most-c.most) <= 1e-6) || step != c.step {
			t.Errorf("%v %v: %v from step %d", c.a, c.b, most, step)
		}
	}
}

// TestPeer_BadAnswers checks the errors for invalid answers.
func TestPeer_BadAnswers(t *testing.T) {
	for script, want := range map[string]string{
		"echo Traceback >&2; echo no memory >&2; exit 3": "it: exit status 3: no memory",
		"read line":               "it: it ended without an answer: it printed no error",
		"echo Loading weights":    "it: it ended without an answer",
		`echo '{"loss": "none"}'`: `it: its answer "{\"loss\": \"none\"}": json: `,
	} {
		p, err := startPeer(t.Context(), "it", "sh", "-c", script)
		expect.OK(t, err)
		var took stepTaken
		if err := p.ask("a step", true, &took); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", script, err, want)
		}
		_ = p.close() // again
	}
}
