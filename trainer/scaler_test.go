package trainer

import (
	"bytes"
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/tensor"
	"restyle/trainer/report"
)

// growing makes the loss scale of a run grow after every two steps, so that it overflows now and then. It starts so
// large that the first step overflows several times.
func growing(r *Run) {
	r.Optimizer.Scaler.Scale, r.Optimizer.Scaler.Interval = 0x1p30, 2
}

// TestScaler_Overflows checks that steps whose gradient overflows F16 are taken again until it does not, and that the
// overflow has no other effect: a run that starts with the scale that is found takes the same steps, with the same
// bits.
func TestScaler_Overflows(t *testing.T) {
	for _, steps := range []int{1, 6} {
		testOverflows(t, steps)
	}
}

func testOverflows(t *testing.T, count int) {
	t.Helper()
	s := tinySettings()
	s.DType, s.Epochs, s.MaxSteps = tensor.F16, 0, count
	var notices []string
	run := func(scale float32) ([]byte, *Run, []Step) {
		_, r := whole(t, t.TempDir(), s, func(r *Run) {
			r.Optimizer.Scaler.Scale = scale
			r.Hooks.Notice = func(line string) { notices = append(notices, line) }
		})
		steps, err := report.ReadMetrics[Step](filepath.Join(r.Dir, "metrics.jsonl"))
		expect.OK(t, err)
		var bits []byte
		for _, p := range r.Model.Params() {
			bits = append(bits, contents(t, r, p.W)...)
		}
		for _, x := range r.Optimizer.State() {
			bits = append(bits, contents(t, r, x)...)
		}
		return bits, r, steps
	}
	bits, r, steps := run(0x1p40)
	first := steps[0]
	if first.Step == 0 { // the validation before the first step
		steps = steps[1:]
		first = steps[0]
	}
	if first.Overflows < 3 || first.LossScale != float32(math.Ldexp(0x1p40, -first.Overflows)) || first.Skipped {
		t.Errorf("the first step is %+v", first)
	}
	a := r.State()
	if len(notices) != a.Overflows || !strings.Contains(notices[0], "step 1: the gradient overflows fp16 with a loss "+
		"scale of 1.0995116e+12: the step is taken again with 5.497558e+11") {
		t.Errorf("%d overflows are said as %q", a.Overflows, notices)
	}
	notices = nil
	scale := r.Optimizer.LossScale()
	same, calm, calmSteps := run(scale)
	// In several steps, the scale of the first may be larger, and subnormal gradients are then rounded less.
	if len(notices) > 0 || count == 1 && !bytes.Equal(same, bits) {
		t.Errorf("from the scale %g on, it ends with other bits, or with %q", scale, notices)
	}
	b := calm.State()
	if b.Overflows != 0 || a.Tokens != b.Tokens || a.Targets != b.Targets || a.Examples != b.Examples ||
		a.Step != b.Step ||
		a.Skipped != 0 || r.Optimizer.Steps() != count {
		t.Errorf("%+v, and without overflows %+v", a, b)
	}
	for i, step := range steps {
		if x, y := step.LR, calmSteps[len(calmSteps)-len(steps)+i].LR; x != y {
			t.Errorf("step %d has the learning rate %v, and %v without overflows", step.Step, x, y)
		}
	}
}

// TestScaleFloor checks that a gradient that is never finite ends a run with the smallest scale, that a loss that is
// not finite is skipped without looking for a scale, and that neither moves a weight.
func TestScaleFloor(t *testing.T) {
	// A residual stream of almost 0, which the last norm makes 300 times larger, and its gradient a million times.
	steep := map[string]func(i int) float32{
		"embed_tokens":      func(i int) float32 { return 0x1p-14 * float32(i%3-1) },
		"o_proj":            func(int) float32 { return 0 },
		"down_proj":         func(int) float32 { return 0 },
		"model.norm.weight": func(int) float32 { return 8192 },
		"lm_head":           func(i int) float32 { return float32(i/64%2*2 - 1) },
	}
	nan := map[string]func(i int) float32{"model.norm.weight": func(int) float32 { return float32(math.NaN()) }}
	for what, c := range map[string]struct {
		weights map[string]func(i int) float32
		says    string
		scale   float32
	}{
		"loss": {weights: nan, scale: 2048, says: "step 5: the gradient was not finite for 5 steps in a row, " +
			"which updated no weight: lower lr"},
		"gradient": {weights: steep, scale: 1, says: "with the smallest loss scale, 1, it is too large for fp16"},
	} {
		s := tinySettings()
		s.DType, s.EvalEvery = tensor.F16, 100
		config := strings.Replace(tinyConfig, `"tie_word_embeddings": true`, `"tie_word_embeddings": false`, 1)
		r := tinyOf(t, config, t.TempDir(), s)
		expect.OK(t, r.startFrom(context.Background(), ""))
		var before [][]byte
		for _, p := range r.Model.Params() {
			for name, value := range c.weights {
				if strings.Contains(p.Name, name) {
					x := make([]float32, p.W.Len())
					for i := range x {
						x[i] = value(i)
					}
					r.Model.Device().Upload(p.W, x)
				}
			}
			before = append(before, bytes.Clone(p.W.Raw()))
		}
		var err error
		steps := 0
		for ; err == nil && steps < 10; steps++ {
			err = r.step()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) || steps != maxSkipped {
			t.Errorf("%s: after %d steps %v", what, steps, err)
		}
		for i, p := range r.Model.Params() {
			if !bytes.Equal(before[i], p.W.Raw()) {
				t.Errorf("%s: %s moved", what, p.Name)
			}
		}
		if scale := r.Optimizer.LossScale(); scale != c.scale || r.Optimizer.Steps() != 0 {
			t.Errorf("%s: the scale is %g, not %g, after %d steps", what, scale, c.scale, r.Optimizer.Steps())
		}
	}
}
