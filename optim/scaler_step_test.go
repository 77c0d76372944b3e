package optim

import (
	"bytes"
	"math"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// TestScaledStep checks that steps with a scaled gradient equal steps with the gradient itself, clipped and not, bit
// for bit, and that an overflow moves nothing but the scale.
func TestScaledStep(t *testing.T) {
	const n = 64
	for _, limit := range []float64{0, 0.5, 1e3} {
		steps := func(scaled bool) (bits []byte, norms []float64) {
			dev, err := kernels.Open("cpu", kernels.Options{Threads: 1})
			expect.OK(t, err)
			arena, err := dev.NewArena("parameters", 1<<14)
			expect.OK(t, err)
			p := model.Param{Name: "w", W: arena.New("w", tensor.F16, n), Grad: arena.New("g", tensor.F32, n), Decay: true}
			values := func(f func(i int) float64) []float32 {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(f(i))
				}
				return x
			}
			dev.Upload(p.W, values(func(i int) float64 { return math.Sin(float64(i)) }))
			o, err := New(dev, []model.Param{p}, Default)
			expect.OK(t, err)
			if !scaled {
				o.Scaler = nil
			}
			for step := range 3 {
				scale := float64(o.LossScale())
				g := values(func(i int) float64 { return scale * math.Cos(float64(i*(step+1))) })
				if scaled && step == 1 { // an overflow before the same step
					dev.Upload(p.Grad, append(values(func(int) float64 { return 1 })[:n-1], float32(math.Inf(-1))))
					if r, err := o.Step(1e-2, limit); err != nil || r.Taken || o.Scaler.Scale != 32768 || o.Steps() != 1 {
						t.Errorf("an overflow: %+v, %v, scale %g after %d steps", r, err, o.Scaler.Scale, o.Steps())
					}
					for i := range g {
						g[i] /= 2
					}
				}
				dev.Upload(p.Grad, g)
				r, err := o.Step(1e-2, limit)
				if err != nil || !r.Taken {
					t.Fatalf("%+v, %v", r, err)
				}
				norms = append(norms, r.Norm)
			}
			bits = bytes.Clone(p.W.Raw())
			for _, x := range o.State() {
				bits = append(bits, x.Raw()...)
			}
			expect.OK(t, o.Close())
			expect.OK(t, arena.Close())
			expect.OK(t, dev.Close())
			return bits, norms
		}
		want, norms := steps(false)
		got, same := steps(true)
		if !bytes.Equal(got, want) {
			t.Errorf("clipped to %g: the bits are others", limit)
		}
		for i := range norms {
			if norms[i] != same[i] {
				t.Errorf("clipped to %g: norms %v, not %v", limit, same, norms)
			}
		}
	}
}
