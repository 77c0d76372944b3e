package trainer

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"testing"

	"restyle/kernels"
	"restyle/kernels/cuda"
	"restyle/tensor"
	"restyle/trainer/report"
)

// emulatedGPU is the GPU that the CPU plays, for a run.
func emulatedGPU(t *testing.T, o kernels.Options) *kernels.Device {
	t.Helper()
	d, err := kernels.Open("emulated", o)
	if errors.Is(err, cuda.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestEmulatedRun has a run on the emulated GPU, steps, validations and checkpoints, learn what the same run on the CPU learns.
func TestEmulatedRun(t *testing.T) {
	s := tinySettings()
	s.Epochs, s.MaxSteps, s.DType = 0, 20, tensor.F32
	losses := func(r *Run) (list []Step) {
		if err := r.Start(context.Background(), ""); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		list, err := report.ReadMetrics[Step](filepath.Join(r.Dir, "metrics.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	want := losses(tiny(t, t.TempDir(), s))
	for _, fused := range []kernels.Fused{kernels.All(), nil} {
		got := losses(tinyOn(t, emulatedGPU(t, kernels.Options{Fused: fused, OwnProducts: true}), tinyConfig, t.TempDir(), s))
		for i := range want {
			if want[i].Tokens == 0 {
				continue // an evaluation
			}
			// Sums have other orders, and AdamW in 8 bits makes a step of what is below a code's half.
			if e := math.Abs(float64(got[i].Loss/want[i].Loss) - 1); !(e < 1e-3) {
				t.Errorf("fused %v: step %d has the loss %v, on the CPU %v", fused, want[i].Step, got[i].Loss, want[i].Loss)
			}
		}
	}
}
