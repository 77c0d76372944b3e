package main

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/cmd/bench/results"
	"restyle/internal/cli"
)

// peer plays a python3 with torch: it answers each line as docs of train_pytorch.py say.
const peer = `#!/bin/sh
[ "$1" = -c ] && exit 0
read -r line; printf '%s\n' "$line" > "$0.settings"
echo '{"label": "torch 9"}'
while read -r line; do
	printf '%s\n' "$line" >> "$0.steps"
	echo '{"loss": 2.5, "seconds": 0.25, "memory": 1048576}'
done
`

func TestTrain(t *testing.T) {
	dir := t.TempDir()
	python := filepath.Join(dir, "python")
	if err := os.WriteFile(python, []byte(peer), 0o755); err != nil {
		t.Fatal(err)
	}
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
	page, err := os.ReadFile(filepath.Join(out, "README.md"))
	if err != nil || !strings.Contains(string(page), "fused next to standard: a step is ") ||
		!strings.Contains(string(page), "(train-curve.svg)") || strings.Contains(string(page), "| mode | step |") {
		t.Errorf("%v\n%s", err, page)
	}
	if !strings.Contains(stdout, "torch-eager next to standard") {
		t.Error(stdout)
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
		"--rows 0":  "--rows 0",
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
		if code, done := o.flags(io.Discard).Parse(args); done {
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
