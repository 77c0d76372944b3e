package trainer

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"

	"restyle/internal/expect"
	"restyle/trainer/checkpoint"
)

// TestAfterAnError_SameBits lets parts of a run fail. If the run continues, or is resumed from its last checkpoint, it
// ends with the bits of a run in which nothing failed.
func TestAfterAnError_SameBits(t *testing.T) {
	s := tinySettings()
	s.EvalEvery, s.SaveEvery, s.SampleEvery = 5, 4, 3
	failed := errors.New("out of luck")
	good := func(context.Context) ([]Sample, error) { return []Sample{{"q", "a", new(int)}}, nil }
	want, control := whole(t, t.TempDir(), s, func(r *Run) { r.GenerateSamples = good })
	var weights [][]byte // here, because a device is for one goroutine
	for _, p := range control.Model.Params() {
		weights = append(weights, contents(t, control, p.W))
	}
	// nth returns a function that fails in its call n, from 1, or in all of them if n is 0.
	nth := func(n int) func() error {
		calls := 0
		return func() error {
			if calls++; n == 0 || calls == n {
				return failed
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		fail func(r *Run)
		ends bool // the run with this error, and is resumed
	}{
		"a sample": {fail: func(r *Run) {
			fails := nth(2)
			r.GenerateSamples = func(ctx context.Context) ([]Sample, error) {
				all, _ := good(ctx)
				return all, fails()
			}
		}},
		"all samples": {fail: func(r *Run) {
			r.GenerateSamples = func(context.Context) ([]Sample, error) { return nil, failed }
		}},
		"the first validation": {ends: true, fail: func(r *Run) { failing(r, nth(1)) }},
		"a later validation":   {ends: true, fail: func(r *Run) { failing(r, nth(3)) }},
		"the last validation":  {ends: true, fail: func(r *Run) { failing(r, nth(6)) }},
		"a checkpoint":         {ends: true, fail: func(r *Run) { unsaved(r, 2) }},
		"the last checkpoint":  {ends: true, fail: func(r *Run) { unsaved(r, 6) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait for the disk
			dir := t.TempDir()
			r := tiny(t, dir, s, func(r *Run) { r.GenerateSamples = good }, c.fail)
			expect.OK(t, r.startFrom(t.Context(), ""))
			r.Hooks.Evaluation = func(e Evaluation) {
				if len(e.Samples) > 0 && (name == "all samples" || name == "a sample" && e.Step == 3) {
					t.Errorf("it fails, and is there: %+v", e)
				}
			}
			_, err := r.Run(t.Context())
			if (err != nil) != c.ends {
				t.Error(err)
				return
			}
			if c.ends {
				back(dir)
				found, err := checkpoint.Latest(CheckpointsIn(dir))
				if first := name == "the first validation"; first != (err != nil) {
					t.Fatal(err)
				}
				r = tiny(t, dir, s, func(r *Run) { r.GenerateSamples = good })
				expect.OK(t, r.startFrom(t.Context(), found.Dir))
				if _, err := r.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := hash(t, r); got != want {
					t.Errorf("resumed it ends as %.12s, want %.12s", got, want)
				}
			}
			for i, p := range r.Model.Params() {
				if !bytes.Equal(contents(t, r, p.W), weights[i]) {
					t.Errorf("%s has other bits at the end", p.Name)
				}
			}
		})
	}
}

// failing makes the validations of a run fail as a function says.
func failing(r *Run, fails func() error) {
	r.validation = func(ctx context.Context) (float64, error) {
		if err := fails(); err != nil {
			return 0, err
		}
		return r.valLoss(ctx)
	}
}

// unsaved makes a run unable to write its checkpoint n, from 1: a file takes the place of the checkpoints' directory.
func unsaved(r *Run, n int) {
	root := CheckpointsIn(r.Dir)
	r.Hooks.Phase = func(p Phase) {
		if p != Saving {
			return
		}
		if n--; n == 0 {
			os.Rename(root, root+" aside")
			os.WriteFile(root, nil, 0o600)
		}
	}
}

// back undoes what unsaved did.
func back(dir string) {
	if root := CheckpointsIn(dir); os.Remove(root) == nil {
		os.Rename(root+" aside", root)
	}
}
