package trainer

import (
	"bytes"
	"context"
	"math"
	"path/filepath"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/model"
	"restyle/optim"
	"restyle/tensor"
	"restyle/trainer/report"
)

// TestLayerGradients checks that steps that keep one layer's gradients at a time move the weights as steps that keep
// all gradients do, and are clipped and skipped in the same way.
func TestLayerGradients(t *testing.T) {
	for _, master := range []optim.Master{optim.Split8, optim.Stochastic} {
		for _, clip := range []float64{0, 1e6, 0.01} {
			s := tinySettings()
			s.Batch, s.Accumulate, s.Epochs, s.MaxSteps, s.Clip, s.Master = 4, 1, 0, 5, clip, master
			steps := func(block bool) (*Run, []Step) {
				s := s
				if block { // the same step of two micro-batches is still one pass
					s.Gradients = LayerGradients
					s.Batch, s.Accumulate = 2, 2
				}
				_, r := whole(t, t.TempDir(), s)
				lines, err := report.ReadMetrics[Step](filepath.Join(r.Dir, "metrics.jsonl"))
				expect.OK(t, err)
				return r, lines
			}
			all, want := steps(false)
			block, got := steps(true)
			if !block.Plan.OnePass() {
				t.Fatal("a step is several passes")
			}
			for i := range want {
				// The squares of the norm are added up in another order, in float64.
				norm, exact := float64(got[i].GradNorm), float64(want[i].GradNorm)
				if got[i].Loss != want[i].Loss || !(math.Abs(norm-exact) <= 1e-12*exact) {
					t.Errorf("step %d: loss %v, norm %v, want %v, %v", i, got[i].Loss, got[i].GradNorm, want[i].Loss, want[i].GradNorm)
				}
			}
			if clip == 0.01 { // the factor depends on the norm
				continue
			}
			for i, p := range all.Model.Params() {
				if !bytes.Equal(p.W.Raw(), block.Model.Params()[i].W.Raw()) {
					t.Errorf("%s, clip %v: %s is another", master, clip, p.Name)
				}
			}
			for i, x := range all.Optimizer.State() {
				if !bytes.Equal(x.Raw(), block.Optimizer.State()[i].Raw()) {
					t.Errorf("%s, clip %v: %s is another", master, clip, x.Name)
				}
			}
		}
	}
}

// TestLayerGradientsSkips checks that a step whose gradient is not finite moves no weights.
func TestLayerGradientsSkips(t *testing.T) {
	s := tinySettings()
	s.Gradients = LayerGradients
	r := tiny(t, t.TempDir(), s)
	expect.OK(t, r.startFrom(context.Background(), ""))
	var before [][]byte
	for _, p := range r.Model.Params() {
		if p.Layer == model.Outside && p.Norm {
			x := make([]float32, p.W.Len())
			x[0] = float32(math.NaN())
			r.Model.Device().Upload(p.W, x)
		}
		before = append(before, bytes.Clone(p.W.Raw()))
	}
	expect.OK(t, r.step())
	for i, p := range r.Model.Params() {
		if !bytes.Equal(before[i], p.W.Raw()) {
			t.Errorf("%s moved", p.Name)
		}
	}
	if r.State().Skipped != 1 || r.Optimizer.Steps() != 0 {
		t.Errorf("%d steps skipped, %d taken", r.State().Skipped, r.Optimizer.Steps())
	}
}

// TestWiden checks that passes grow to the size of a step, no further, and never shrink.
func TestWiden(t *testing.T) {
	s := tinySettings() // 2 x 2 examples of up to 32 tokens
	p, err := NewPlan(s, learnable(41, 1), nil)
	expect.OK(t, err)
	if p.MaxTokens != 64 || p.OnePass() {
		t.Fatalf("passes of up to %d tokens, one %t", p.MaxTokens, p.OnePass())
	}
	for _, c := range []struct{ to, tokens int }{{10, 64}, {100, 100}, {50, 100}, {1000, 4 * p.Longest}} {
		if p.Widen(c.to); p.MaxTokens != c.tokens || p.OnePass() != (c.tokens == 4*p.Longest) {
			t.Errorf("widened to %d: %d tokens, one pass %t", c.to, p.MaxTokens, p.OnePass())
		}
	}
	if batches, n := p.Step(0); len(batches) != 1 || n != 4 {
		t.Errorf("%d passes of %d examples", len(batches), n)
	}
	p.GradType, p.Config.Gradients = tensor.BF16, LayerGradients
	if o := p.ModelOptions(model.Config{}); o.GradType != tensor.BF16 || o.ReuseGradients != 1 ||
		o.MaxTokens != 4*p.Longest {
		t.Errorf("%+v", o)
	}
}

// TestStep_PaddedPasses checks that padded passes move the weights as others do, and that padding is counted
// separately.
func TestStep_PaddedPasses(t *testing.T) {
	s := tinySettings()
	s.Epochs, s.MaxSteps, s.DType = 0, 4, tensor.F32
	steps := func(fill bool) (State, []Step) {
		plan, err := NewPlan(s, learnable(41, 1), learnable(7, 2))
		expect.OK(t, err)
		plan.PadPasses = fill
		d, err := kernels.Open("cpu", kernels.Options{Fused: kernels.All(), Threads: 2})
		expect.OK(t, err)
		r := tinyPlanned(t, d, tinyConfig, t.TempDir(), plan)
		toEnd(t, r)
		lines, err := report.ReadMetrics[Step](filepath.Join(r.Dir, "metrics.jsonl"))
		expect.OK(t, err)
		return r.State(), lines
	}
	plain, want := steps(false)
	filled, got := steps(true)
	if plain.Padding != 0 || filled.Padding == 0 || filled.Tokens != plain.Tokens || filled.Targets != plain.Targets {
		t.Errorf("filled up %+v, and not %+v", filled, plain)
	}
	for i := range want {
		if e := math.Abs(float64(got[i].Loss/want[i].Loss) - 1); want[i].Tokens > 0 && (got[i].Tokens != want[i].Tokens ||
			!(e < 1e-3)) {
			t.Errorf("step %d has %d tokens and the loss %v, not %d and %v", want[i].Step, got[i].Tokens, got[i].Loss,
				want[i].Tokens, want[i].Loss)
		}
	}
}
