package kernels_test

import (
	"math"
	"strings"
	"testing"

	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// TestRoPEFar rotates by the largest position of Llama 3, whose angles come from the table and are not computed in
// float32, and back.
func TestRoPEFar(t *testing.T) {
	const most, heads, kvHeads, headDim = 131072, 2, 1, 20
	const width, half = (heads + 2*kvHeads) * headDim, headDim / 2
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		a := arena(t, d, 2*most*half*4+1<<16)
		cos, sin := a.New("cos", tensor.F32, most, half), a.New("sin", tensor.F32, most, half)
		last := func(x tensor.Tensor, f func(float64) float64) {
			angles := func(i int) float64 { return f(opcheck.RoPEAngle(most-1, i, headDim)) }
			d.Upload(x.Slice(most-1, most), filled(half, angles))
		}
		last(cos, math.Cos)
		last(sin, math.Sin)
		x, p := a.New("x", tensor.F32, 1, width), a.New("p", tensor.I32, 1)
		d.UploadI32(p, []int32{most - 1})
		before := filled(width, func(i int) float64 { return math.Sin(float64(i)) })
		d.Upload(x, before)
		at := floats(t, d, x)

		d.RoPE(x, p, cos, sin, heads, kvHeads)
		want := append([]float64(nil), at...)
		for h := range heads + kvHeads {
			for i := range half {
				c, s := math.Cos(opcheck.RoPEAngle(most-1, i, headDim)), math.Sin(opcheck.RoPEAngle(most-1, i, headDim))
				k := h*headDim + i
				want[k], want[k+half] = at[k]*c-at[k+half]*s, at[k+half]*c+at[k]*s
			}
		}
		if e := opcheck.Distance(floats(t, d, x), want); e > 2e-7 { // two products and a sum, each to 2⁻²⁴
			t.Errorf("turned: off by %.3g", e)
		}
		d.RoPEBackward(x, p, cos, sin, heads, kvHeads)
		if e := opcheck.Distance(floats(t, d, x), at); e > 4e-7 {
			t.Errorf("turned back: off by %.3g", e)
		}
		if strings.HasPrefix(d.Name(), "cuda") {
			return // a GPU does not check positions
		}
		kernels.MustPanic(t, "a position beyond the table", "RoPE: positions[0] is 131072", func() {
			d.UploadI32(p, []int32{most})
			d.RoPE(x, p, cos, sin, heads, kvHeads)
		})
	})
}
