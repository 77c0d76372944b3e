package trainer

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/trainer/checkpoint"
	"restyle/trainer/report"
)

// TestFinishedRun_MadeLonger continues a finished run with more epochs. The run must keep the lines of its metrics,
// the best weights and the rest of its patience, take the learning rates of the longer run from then on, and still be
// stoppable and resumable like any other.
func TestFinishedRun_MadeLonger(t *testing.T) {
	s := tinySettings()
	// Validations after steps 0, 4, 8 (the best), 12, 16, 20, 22; 24, 28: the last is the sixth without improvement.
	s.SaveEvery, s.Patience = 100, 6
	script := finds(bestAfter(8))
	ended := t.TempDir()
	_, before := whole(t, ended, s, script)
	if before.state.Step != 22 || before.state.SinceBest != 4 {
		t.Fatalf("the run ended with %+v", before.state)
	}
	longer := s
	longer.Epochs = 3
	var said []string
	resume := func(dir string, s Config, ended bool, stop int) *Run {
		t.Helper()
		found, err := checkpoint.Latest(CheckpointsIn(dir))
		expect.OK(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		r := tiny(t, dir, s, script)
		r.Ended, said = ended, nil
		r.Hooks = hooks(func(e any) {
			if n, ok := e.(notice); ok {
				said = append(said, string(n))
			}
			if s, ok := e.(Step); ok && s.Step == stop {
				cancel()
			}
		})
		expect.OK(t, r.startFrom(ctx, found.Dir))
		if _, err := r.Run(ctx); (err == ErrStopped) != (stop > 0) || err != nil && stop == 0 {
			t.Fatal(err)
		}
		return r
	}
	whole, parts := t.TempDir(), t.TempDir()
	for _, dir := range []string{whole, parts} {
		expect.OK(t, os.CopyFS(dir, os.DirFS(ended)))
	}
	r := resume(whole, longer, true, 0)
	rate := fmt.Sprintf("%.3g instead of 0", r.Plan.rate(22))
	if len(said) != 1 || !strings.Contains(said[0], "it has 33 steps, and had 22") || !strings.Contains(said[0], rate) {
		t.Errorf("said %q, want %q", said, rate)
	}
	if b := r.state.Best; r.state.Step != 28 || r.state.SinceBest != 6 || b == nil || b.Step != 8 || r.state.Longer != 22 {
		t.Errorf("it ends with %+v", r.state)
	}
	steps, err := report.ReadMetrics[Step](filepath.Join(whole, "metrics.jsonl"))
	expect.OK(t, err)
	n := 0
	for _, l := range steps {
		if l.Tokens == 0 { // a validation
			continue
		}
		plan := before.Plan
		if n++; n > 22 {
			plan = r.Plan
		}
		if l.Step != n || l.LR != plan.rate(n-1) {
			t.Errorf("the %dth step in the metrics is %d, with the rate %v", n, l.Step, l.LR)
		}
	}
	if n != 28 {
		t.Errorf("the metrics have %d steps", n)
	}
	expect.OK(t, r.load(context.Background(), bestIn(whole, 8)))
	want := hash(t, r) // with the best weights, which exist already unless something is wrong
	resume(parts, longer, true, 25)
	again := resume(parts, longer, false, 0)
	if got := hash(t, again); got != want || len(said) > 0 {
		t.Errorf("stopped and resumed it ends as %.12s, want %.12s; said %q", got, want, said)
	}

	// A shorter run is a different run.
	found, err := checkpoint.Latest(CheckpointsIn(whole))
	expect.OK(t, err)
	if err := tiny(t, whole, s, script).startFrom(context.Background(), found.Dir); err == nil ||
		!strings.Contains(err.Error(), "epochs was 3 and is now 2") {
		t.Errorf("fewer epochs: %v", err)
	}
	// The best weights that are the result must not be lost.
	expect.OK(t, os.RemoveAll(bestIn(ended, 8)))
	lost := tiny(t, ended, longer, script)
	lost.Ended = true
	if err := lost.startFrom(context.Background(), checkpoint.Dir(CheckpointsIn(ended), 22)); err == nil ||
		!strings.Contains(err.Error(), "no longer among the checkpoints") {
		t.Errorf("without the best weights: %v", err)
	}
}

// TestMadeLonger_Since makes a run longer from a checkpoint at its planned end or before: the state tells from which
// step on the run takes the longer run's steps, which are the ones that another tool has to take after it.
func TestMadeLonger_Since(t *testing.T) {
	s := tinySettings()
	dir := t.TempDir()
	s.SaveEvery, s.Keep = 5, 10
	_, short := whole(t, dir, s)
	for _, step := range []int{5, 20, 22} {
		for _, change := range []func(*Config){func(s *Config) {}, func(s *Config) { s.Epochs = 3 },
			func(s *Config) { s.Epochs, s.MaxSteps = 3, 30 }, func(s *Config) { s.MaxSteps = 22 }} {
			longer := s
			change(&longer)
			there := t.TempDir()
			expect.OK(t, os.CopyFS(there, os.DirFS(dir)))
			r := tiny(t, there, longer)
			err := r.startFrom(context.Background(), checkpoint.Dir(CheckpointsIn(there), step))
			if longer.MaxSteps > 0 { // there was no limit, so this may be a shorter run
				if err == nil {
					t.Errorf("from step %d to %d steps: no error", step, longer.MaxSteps)
				}
				continue
			}
			if want := map[bool]int{true: step}[r.Plan.Steps > short.Plan.Steps]; err != nil || r.State().Longer != want {
				t.Errorf("from step %d to %d steps: longer since %d, want %d; %v", step, r.Plan.Steps, r.State().Longer, want, err)
			}
		}
	}
}

// TestMadeLonger_WithinEpoch continues a run that --max-steps ended within an epoch. With a constant learning rate, it
// must end with the bits of a run that had all steps from the start.
func TestMadeLonger_WithinEpoch(t *testing.T) {
	s := tinySettings()
	s.Schedule, s.Warmup = "constant", 0
	unheld := func(r *Run) { r.Plan.HeldOut = nil }
	_, control := whole(t, t.TempDir(), s, unheld)
	short := s
	short.MaxSteps = 9
	dir := t.TempDir()
	whole(t, dir, short, unheld)
	r := tiny(t, dir, s, unheld)
	expect.OK(t, r.startFrom(context.Background(), checkpoint.Dir(CheckpointsIn(dir), 9)))
	if _, err := r.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i, p := range control.Model.Params() {
		if !bytes.Equal(p.W.Raw(), r.Model.Params()[i].W.Raw()) {
			t.Errorf("%s has other bits", p.Name)
		}
	}
	if r.state.Step != 22 || r.state.Examples != control.state.Examples {
		t.Errorf("it ends with %+v", r.state)
	}
}

// TestMadeLonger_OnlyEpochsAndSteps checks that epochs and the limit of steps may differ only if the run becomes
// longer.
func TestMadeLonger_OnlyEpochsAndSteps(t *testing.T) {
	for _, c := range []struct {
		name, then, now string
		same            bool
	}{
		{"epochs", "2", "2", true}, {"epochs", "2", "3", true}, {"epochs", "3", "2", false}, {"epochs", "10", "9", false},
		{"epochs", "9", "10", true},
		{"epochs", "2", "0", true}, {"epochs", "0", "2", false}, {"max-steps", "5", "6", true}, {"max-steps", "5", "0", true},
		{"max-steps", "0", "500", false}, {"max-steps", "", "5", false}, {"batch", "1", "2", false},
		{"seed", "1", "2", false},
	} {
		err := CheckIdentity(map[string]string{c.name: c.then}, map[string]string{c.name: c.now})
		if (err == nil) != c.same {
			t.Errorf("%s was %q and is now %q: %v", c.name, c.then, c.now, err)
		}
	}
}
