package main

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"restyle/dataset/training"
	"restyle/hf"
	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/model"
	"restyle/trainer"
	"restyle/trainer/report"
)

// TestAdvice_IfLittleIsLearned checks what a run says at its end that hardly learned anything.
func TestAdvice_IfLittleIsLearned(t *testing.T) {
	good := ending{vocab: 4096, steps: 1096, epochSteps: 548, first: 6.99, last: 0.33, noise: 0.1, bestStep: 1096,
		best: 0.33, lr: 3.5e-4, usualLR: 3.5e-4, epochs: 2}
	for _, c := range []struct {
		name   string
		change func(*ending)
		want   string // "" for nothing
	}{
		{"good", func(*ending) {}, ""},
		{"no validation", func(e *ending) { e.bestStep = -1 }, ""},
		{"few by patience", func(e *ending) { e.steps, e.stopped = 14, true }, ""},
		{"noise", func(e *ending) { e.first, e.last, e.noise = 2, 2.8, 1 }, ""},
		{"fifty steps", func(e *ending) { e.steps = 50 }, ""},
		{"few steps", func(e *ending) { e.steps, e.epochSteps = 14, 7 }, "only 14 steps, so the model may have learned " +
			"little: --epochs 15 (105 steps) would help"},
		{"few by --max-steps", func(e *ending) { e.steps, e.maxSteps = 20, 20 }, "only 20 steps, so the model may have " +
			"learned little: more --max-steps than 20 would help"},
		{"at chance", func(e *ending) { e.last, e.first = 7.56, 11 }, "the loss is 7.56 after 1096 steps, and guessing " +
			"any of 4,096 tokens has 8.32: the model has hardly learned anything yet: try more --epochs than 2, or a higher " +
			"--lr than 0.00035"},
		{"one step", func(e *ending) { e.steps, e.maxSteps = 1, 1 }, "only 1 step, so"},
		{"at chance by --max-steps", func(e *ending) { e.last, e.first, e.maxSteps = 7.56, 11, 1096 },
			"try more --max-steps than 1096, or a higher --lr"},
		{"by heart", func(e *ending) { e.bestStep, e.best, e.last = 21, 0.31, 1.16 }, "the validation loss was lowest " +
			"after step 21 of 1096, and rose from 0.31 to 1.16: the steps after it only learned the training rows by heart; " +
			"if that is wanted, --val 0 keeps the last weights"},
		{"by heart after few", func(e *ending) { e.steps, e.bestStep, e.best, e.last = 42, 9, 0.31, 0.42 },
			"lowest after step 9 of 42"},
		{"best a little earlier", func(e *ending) { e.bestStep, e.best, e.last = 21, 0.33, 0.34 }, ""},
		{"by heart until patience", func(e *ending) { e.bestStep, e.best, e.last, e.stopped = 21, 0.31, 1.16, true }, ""},
		{"at chance after few", func(e *ending) { e.last, e.first, e.steps, e.epochSteps = 7.56, 11, 14, 7 },
			"try --epochs 15 (105 steps), or a higher --lr"},
		{"from scratch", func(e *ending) { e.first, e.last = 8.3, 8.1 }, "the loss is 8.10 after"},
		{"diverged", func(e *ending) { e.last, e.lr = 8.3, 1000 }, "the loss rose from 6.99 to 8.30: the learning rate " +
			"1e+03 is probably too high: try --lr 0.00035"},
		{"a little too high", func(e *ending) { e.last = 7.3 }, "try --lr 0.00012"},
		{"not a number", func(e *ending) { e.last = math.NaN() }, "the learning rate 0.00035 is probably too high"},
		{"nothing better", func(e *ending) { e.first, e.last, e.bestStep = 2, 2.05, 0 }, "no step improved the validation " +
			"loss, so the weights are as before: try --lr 0.00012 instead of 0.00035, or more --epochs than 2"},
		{"hardly any rate", func(e *ending) { e.last, e.bestStep, e.lr = 6.99, 0, 1e-9 },
			"try --lr 0.00035 instead of 1e-09"},
	} {
		e := good
		c.change(&e)
		if got := strings.Join(e.advice(), "\n"); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestResultIsOfItsWeights checks that a result names the step, the validation loss and the tone of the weights that it
// has: the best ones, which may have no tone, or the last ones if there are no best.
func TestResultIsOfItsWeights(t *testing.T) {
	device, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer device.Close()
	early, late := 1.5, 4.5
	for _, last := range []*float64{nil, &late} {
		for _, best := range []*trainer.Best{nil, {Step: 3, Loss: 0.5}, {Step: 9, Loss: 0.5, Tone: &early},
			{Step: 9, Tone: &late}} {
			r := &train{options: &options{}, job: &trainer.Job{Device: device}, beginning: &beginning{}}
			f := r.summary(trainer.Result{State: trainer.State{Step: 9, Best: best}}, last)
			if best == nil {
				best = &trainer.Best{Step: 9, Tone: last}
			} else if f.ValLoss == nil || *f.ValLoss != best.Loss {
				t.Errorf("the validation loss is %v, of %+v", f.ValLoss, best)
			}
			if f.WeightsOfStep != best.Step || f.Tone != best.Tone {
				t.Errorf("the weights are of step %d, their tone %v, of %+v", f.WeightsOfStep, f.Tone, best)
			}
		}
	}
}

// TestLogLines_ByTime checks that lines come by time, and that the first and the last are there in any case.
func TestLogLines_ByTime(t *testing.T) {
	for every, want := range map[int]string{0: "1 6 11 16 20", 7: "1 7 14 20"} {
		o := &outputs{train: &train{options: &options{logEvery: every},
			job: &trainer.Job{Plan: &trainer.Plan{Steps: 20}}}}
		now := time.Now()
		var lines []string
		for step := 1; step <= 20; step++ {
			if now = now.Add(time.Second); o.logs(step, now) {
				lines = append(lines, time.Duration(step).String())
			}
		}
		if got := strings.ReplaceAll(strings.Join(lines, " "), "ns", ""); got != want {
			t.Errorf("--log-every %d: lines after steps %s, want %s", every, got, want)
		}
	}
}

// TestSamples_FitTheTerminal checks that each sample is a line that fits the terminal, and that they come by time.
func TestSamples_FitTheTerminal(t *testing.T) {
	for _, width := range []int{60, 80, 100, 140, 200} {
		var out bytes.Buffer
		status := &cli.StatusLine{W: &out, Width: func() int { return width }}
		o := &outputs{train: &train{status: status, stderr: status,
			job: &trainer.Job{Plan: &trainer.Plan{Steps: 20}}}}
		long := strings.Repeat("世界 word\n", 30)
		sampled := trainer.Evaluation{Step: 3, Loss: report.Number(1), Samples: []trainer.Sample{
			{Question: long, Answer: long + "\x1b[2J"}, {Question: "q", Answer: "a"}}}
		o.showSamples(sampled)
		o.showSamples(sampled) // too early
		sampled.Step = 20
		o.showSamples(sampled) // the last one
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 4 || !strings.HasSuffix(lines[1], "  q → a") {
			t.Errorf("%d columns: %q", width, lines)
		}
		for _, line := range lines {
			if n := cli.Columns(line); n >= width || strings.Contains(line, "\x1b") {
				t.Errorf("%d columns: a line of %d: %q", width, n, line)
			}
		}
	}
}

// TestEnding_OfCurve checks which losses count as the ones before and after a run: the validation losses if the first
// validation was before the first step, and otherwise means over a tenth of the steps, over at most 20.
func TestEnding_OfCurve(t *testing.T) {
	plan, err := trainer.NewPlan(trainer.DefaultConfig(), make([]training.Example, 9), nil)
	expect.OK(t, err)
	falling := func(n int) (all []report.CurveStep) {
		for i := range n {
			all = append(all, report.CurveStep{X: float64(i + 1), Loss: float64(n - i)})
		}
		return all
	}
	nan := math.NaN()
	for _, c := range []struct {
		steps              int
		validation         []report.CurvePoint
		first, last, noise float64
	}{
		{40, []report.CurvePoint{{X: 0, Y: 5}, {X: 3, Y: 9}, {X: 9, Y: 2}}, 5, 2, 0.1},
		{40, []report.CurvePoint{{X: 3, Y: 5}, {X: 9, Y: 2}}, 38.5, 2.5, 1},
		{40, []report.CurvePoint{{X: 0, Y: 5}}, 38.5, 2.5, 1}, {5, nil, 5, 1, 1}, {300, nil, 290.5, 10.5, 1},
		{0, nil, nan, nan, 0.1},
	} {
		o := &outputs{train: &train{options: &options{}, job: &trainer.Job{Plan: plan},
			base: &hf.Checkpoint{Config: model.Config{Vocab: 7}}}}
		o.config.LR, o.config.MaxSteps, o.config.Epochs = 0.25, 8, 4
		o.curve = report.Curve{Steps: falling(c.steps), Validation: c.validation}
		for _, best := range []*trainer.Best{nil, {Step: 3, Loss: 0.5}} {
			want := ending{vocab: 7, steps: 6, epochSteps: 3, maxSteps: 8, first: c.first, last: c.last, noise: c.noise,
				bestStep: -1, best: nan, lr: 0.25, usualLR: trainer.DefaultConfig().LR, epochs: 4, stopped: best != nil}
			res := trainer.Result{State: trainer.State{Step: 6, Best: best}}
			if best != nil {
				want.bestStep, want.best, res.Stopped = 3, 0.5, "patience"
			}
			if got := o.ending(res); fmt.Sprintf("%.9v", got) != fmt.Sprintf("%.9v", want) {
				t.Errorf("%+v: %+v, want %+v", c, got, want)
			}
		}
	}
}

// TestCheckpointLines checks that lines of checkpoints come by time, and that the last one has one in any case.
func TestCheckpointLines(t *testing.T) {
	var said bytes.Buffer
	o := &outputs{train: &train{options: &options{}, stderr: &said, status: cli.NewStatusLine(&said),
		job: &trainer.Job{Plan: &trainer.Plan{Steps: 20}}}}
	for _, step := range []int{4, 8, 20} {
		o.checkpoint(trainer.Saved{Step: step, Dir: fmt.Sprint("step-", step), Seconds: 1.25})
	}
	if want := "checkpoint step-4, 1.2 s\ncheckpoint step-20, 1.2 s\n"; said.String() != want || o.saveSeconds != 1.25 {
		t.Errorf("%q, want %q", &said, want)
	}
}
