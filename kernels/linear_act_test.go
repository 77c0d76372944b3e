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
// is infinite, and that a NaN stays one. On the CPU, and fused, a product that overflows does no harm if the gradient
// behind it does not: it is rounded only there.
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
		upload(w, func(int, int) float64 { return 300 }) // dy·w is 720,000
		// At 3, derivatives are about 1; at -10, that of SiLU is -0.0004, and those of GELU are 0.
		value := func(_, column int) float64 { return []float64{3, -10}[column%2] }
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
				if small := got[1]; fused != nil && d.IsCPU() && !(math.Abs(small) < 1000) {
					t.Errorf("%s: a small gradient is %v", what, small)
				}
			}
		}
	})
}

// TestFusedGradientMemory checks that the fused gradients take no scratch memory on the CPU, and that the others take
// that of at most 2,048 rows.
func TestFusedGradientMemory(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const rows, inner, out = 3000, 8, 4
	a := arena(t, d, 1<<21)
	x := func(columns int) tensor.Tensor { return a.New("x", tensor.BF16, rows, columns) }
	dy, w, pre, dpre := x(out), a.New("w", tensor.BF16, out, inner), x(2*inner), x(2*inner)
	for _, y := range []tensor.Tensor{dy, w, pre} {
		d.Zero(y)
	}
	for _, c := range []struct {
		fused bool
		want  int
	}{{true, 0}, {false, 2048 * 2 * inner * 2}} { // only the layer behind an activation: 2,048 rows of BF16
		d.SetFused(kernels.Fused{"swiglu": c.fused, "linear_activation": c.fused})
		if err := d.TrimScratch(); err != nil {
			t.Fatal(err)
		}
		d.ActivationLinearBackward(dpre, dy, a.New("w2", tensor.BF16, out, 2*inner), pre, kernels.GELUTanh)
		if got := d.ScratchPeak(); got != c.want {
			t.Errorf("fused %v: %d bytes of scratch memory for an activation, not %d", c.fused, got, c.want)
		}
		d.SwiGLULinearBackward(dpre, dy, w, pre)
		if got := d.ScratchPeak(); c.fused && got != 0 {
			t.Errorf("fused: %d bytes of scratch memory for SwiGLU", got)
		}
	}
}
