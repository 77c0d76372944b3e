package kernels_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"restyle/kernels"
	"restyle/tensor"
)

// TestGradientOverflow checks in F16, with products above its largest number of 65,504, that a gradient which overflows
// is infinite, and that a NaN stays one, so that loss scaling sees them.
func TestGradientOverflow(t *testing.T) {
	const rows, inner, out = 16, 16, 8
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		a := arena(t, d, 1<<16)
		f16 := func(name string, shape ...int) tensor.Tensor { return a.New(name, tensor.F16, shape...) }
		dy, w, pre, gateUp := f16("dy", rows, out), f16("w", out, inner), f16("pre", rows, inner),
			f16("gateUp", rows, 2*inner)
		upload := func(x tensor.Tensor, value func(row, column int) float64) {
			n := x.Dim(-1)
			d.Upload(x, filled(x.Len(), func(i int) float64 { return value(i/n, i%n) }))
		}
		upload(dy, func(row, _ int) float64 { return []float64{300, math.NaN()}[row%2] })
		upload(w, func(int, int) float64 { return 300 })                      // dy·w is 720,000
		value := func(_, column int) float64 { return float64(3 + column%2) } // where derivatives are about 1
		upload(pre, value)
		upload(gateUp, func(row, column int) float64 {
			if column >= inner {
				return 1
			}
			return value(row, column)
		})
		for _, fused := range []kernels.Fused{nil, kernels.All()} {
			d.SetFused(fused)
			for act := kernels.GELUExact; act <= kernels.SiLU+1; act++ {
				dpre := f16("dpre", rows, inner)
				if act <= kernels.SiLU {
					d.ActivationLinearBackward(dpre, dy, w, pre, act)
				} else {
					dpre = f16("dGateUp", rows, 2*inner)
					d.SwiGLULinearBackward(dpre, dy, w, gateUp)
				}
				got, n := floats(t, d, dpre), dpre.Dim(-1)
				what := fmt.Sprintf("fused %v, activation %d", fused, act)
				if i := slices.IndexFunc(got[n:2*n], func(x float64) bool { return !math.IsNaN(x) }); i >= 0 {
					t.Errorf("%s: of a NaN, gradient %d is %v", what, i, got[n+i])
				}
				if !math.IsInf(got[0], 1) {
					t.Errorf("%s: a gradient of 720,000 is %v", what, got[0])
				}
			}
		}
	})
}
