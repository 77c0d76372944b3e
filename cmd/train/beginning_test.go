package main

import (
	"path/filepath"
	"testing"
	"time"

	"restyle/internal/cli"
	"restyle/trainer"
)

// TestTimeToFirstStep checks that the time to the first step runs from the moment when the weights are loaded to the
// end of the step, without evaluations.
func TestTimeToFirstStep(t *testing.T) {
	start := time.Now()
	b := beginning{loaded: start}
	b.evaluation(trainer.Evaluation{Seconds: 3.5})
	b.step(start.Add(6 * time.Second))
	b.evaluation(trainer.Evaluation{Seconds: 1})
	b.step(start.Add(9 * time.Second))
	if b.took != 2500*time.Millisecond {
		t.Errorf("%v", b.took)
	}
}

// TestTimeToFirstStep_InResult checks that the result says how long the first step took, in a new run and in a resumed
// one.
func TestTimeToFirstStep_InResult(t *testing.T) {
	args := small(t, filepath.Join(t.TempDir(), "out"), "--max-steps", "2", "--samples", "0")
	for _, more := range [][]string{nil, {"--resume", "--max-steps", "4"}} {
		if f := summaryOf(t, must(t, cli.Done, append(args, more...)...)); !(f.FirstStep > 0 && f.FirstStep < f.Wall) {
			t.Errorf("%v: the first step was done after %v of %v s", more, f.FirstStep, f.Wall)
		}
	}
}
