package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/cmd/bench/results"
	"restyle/internal/cli"
)

// peer plays a python3 with torch: it answers each line as docs of train_pytorch.py say. Its losses count the steps.
const peer = `#!/bin/sh
[ "$1" = -c ] && exit 0
read -r line; printf '%s\n' "$line" > "$0.settings"
echo '{"label": "torch 9"}'
n=0
while read -r line; do
	file=${line#*:\"}; file=${file%\"\}}
	case $line in
	'{"save":'*) echo $n > "$file"; echo '{}'; continue ;;
	'{"load":'*) read -r n < "$file"; echo '{}'; continue ;;
	esac
	n=$((n + 1))
	printf '%s\n' "$line" >> "$0.steps"
	echo "{\"loss\": $n.5, \"seconds\": 0.25, \"memory\": 1048576}"
done
`

// newPeer writes the peer to a directory and returns its path.
func newPeer(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "python")
	if err := os.WriteFile(path, []byte(peer), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTrain(t *testing.T) {
	dir := t.TempDir()
	python := newPeer(t, dir)
	out := filepath.Join(dir, "out")
	args := []string{"train", "--rows", "16", "--steps", "3", "--seq", "64", "--modes", "standard,fused,torch-eager",
		"--python", python, "--device", "cpu", "--out", out}
	code, stdout, stderr := bench(t, args...)
	if code != cli.Done || stderr != "" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	f, err := results.Load(out)
	if err != nil {
		t.Fatal(err)
	}
	rows := f.Table("train").Rows
	if len(rows) != 3 {
		t.Fatalf("%v", rows)
	}
	standard, fused, torch := rows[0], rows[1], rows[2]
	for _, r := range rows {
		if r["steps"] != 3.0 || r["tokens"] != standard["tokens"] || !(r.Number("memory") > 0) || !(r.Number("time") > 0) {
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
	if err != nil || !strings.Contains(string(settings), `"mode":"eager"`) ||
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

// untilSteps is a context that ends when the peer has taken some steps.
type untilSteps struct {
	context.Context
	steps int
	file  string // the peer's
}

func (c *untilSteps) Err() error {
	if text, _ := os.ReadFile(c.file); bytes.Count(text, []byte("\n")) >= c.steps {
		return context.Canceled
	}
	return nil
}

// stopped returns the arguments of a run of four steps, without --out, and a directory where it stopped after two.
func stopped(t *testing.T) (args []string, out string) {
	t.Helper()
	dir := t.TempDir()
	python := newPeer(t, dir)
	out = filepath.Join(dir, "out")
	args = []string{"train", "--model", tinyBase, "--rows", "16", "--steps", "4", "--seq", "64",
		"--modes", "standard,torch-eager,fused", "--python", python, "--device", "cpu"}
	var stdout, stderr bytes.Buffer
	ctx := &untilSteps{context.Background(), 2, python + ".steps"}
	code := run(ctx, append(slices.Clone(args), "--out", out), &stdout, &stderr)
	if want := "bench train: stopped after step 2 of 4: the same command continues\n"; code != cli.Failed ||
		stderr.String() != want {
		t.Fatalf("exit %d, %s, want %s", code, stderr.String(), want)
	}
	return args, out
}

// measured returns what the rows and curves of a directory say, except for times and memory.
func measured(t *testing.T, out string) (all []string) {
	t.Helper()
	f, err := results.Load(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range slices.Concat(f.Table("train").Rows, f.Table("train-curve").Rows) {
		for _, name := range []string{"time", "noise", "epoch", "rate", "target_rate", "memory", "ms"} {
			delete(r, name)
		}
		all = append(all, fmt.Sprint(r))
	}
	return all
}

// TestTrainContinues checks that a run that was stopped continues with the losses of one that was not, and that a run
// that cannot continue is kept.
func TestTrainContinues(t *testing.T) {
	args, stop := stopped(t)
	whole := filepath.Join(t.TempDir(), "whole")
	if code, _, stderr := bench(t, append(args, "--out", whole)...); code != cli.Done || stderr != "" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	want := measured(t, whole)
	if len(want) != 3+3*4 {
		t.Fatalf("%d rows: %v", len(want), want)
	}
	for _, c := range []struct {
		name, flags, damage string // a file to damage
		code                int
		stderr              string
		kept                string // a directory in --out; "": none
	}{
		{"the same", "", "", cli.Done, "bench train: continuing after step 2\n", ""},
		{"settings", "--lr 1e-3", "", cli.Done, "train.work is of other settings", "train.work.bak"},
		{"modes", "--modes fused,standard", "", cli.Done, "other settings, modes", "train.work.bak"},
		{"damaged", "", "fused/model.safetensors", cli.Done, "was damaged", "train.work.bak"},
		{"no torch", "--python /no/such/python", "", cli.Failed, "delete that directory", "train.work"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := t.TempDir()
			if err := os.CopyFS(out, os.DirFS(stop)); err != nil {
				t.Fatal(err)
			}
			if c.damage != "" {
				if err := os.WriteFile(filepath.Join(out, "train.work", c.damage), []byte("0"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			code, _, stderr := bench(t, slices.Concat(args, []string{"--out", out}, strings.Fields(c.flags))...)
			if code != c.code || !strings.Contains(stderr, c.stderr) || strings.Count(stderr, "\n") > 2 {
				t.Fatalf("exit %d, %s", code, stderr)
			}
			left, err := filepath.Glob(filepath.Join(out, "*train.work*"))
			if err != nil || c.kept == "" && left != nil ||
				c.kept != "" && !slices.Equal(left, []string{filepath.Join(out, c.kept)}) {
				t.Errorf("left %q, want %q, %v", left, c.kept, err)
			}
			if c.flags == "" {
				if got := measured(t, out); !slices.Equal(got, want) {
					t.Errorf("%q\nwant\n%q", got, want)
				}
			}
		})
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
	for args, want := range map[string]string{"--modes warp": `--modes "warp": must be of standard`,
		"--modes fused,fused": "each once", "--rows 0": "--rows 0",
		"--batch 0": "batch 0", "--steps -1": "--steps -1"} {
		if code, _, stderr := bench(t, append([]string{"train"}, strings.Fields(args)...)...); code != cli.Usage ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s", args, code, stderr)
		}
	}
}

// TestTrainDecisive checks that rows of one run are not taken for those of another one with other flags.
func TestTrainDecisive(t *testing.T) {
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
		if most, step := part(c.a, c.b, 0x1p-9); math.Abs(most-c.most) > 1e-6 || step != c.step {
			t.Errorf("%v %v: %v from step %d", c.a, c.b, most, step)
		}
	}
}

// TestTorchAnswers checks the errors of answers that are none.
func TestTorchAnswers(t *testing.T) {
	for answer, want := range map[string]string{
		"":                            "ended: EOF: no memory",
		"Loading weights\n":           `answered "Loading weights\n"`,
		`{"error": "no room"}` + "\n": "PyTorch's program: no room",
	} {
		p := &torch{in: io.Discard, out: bufio.NewReader(strings.NewReader(answer)),
			errs: bytes.NewBufferString("Traceback\nno memory\n")}
		if _, err := p.ask("a step"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", answer, err, want)
		}
	}
}
