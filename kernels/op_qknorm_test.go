package kernels_test

import (
	"bytes"
	"math"
	"testing"

	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// TestQKNormInPlace checks that the bits are the same if y is qkv, and dqkv is dy.
func TestQKNormInPlace(t *testing.T) {
	const rows, heads, kvHeads, headDim, eps = 3, 5, 2, 24, 1e-6
	const width = (heads + 2*kvHeads) * headDim
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, typ := range opcheck.Types {
			a := arena(t, d, 1<<16)
			var x [6]tensor.Tensor // qkv, dy, y and dqkv, and the first two again
			for i := range x {
				x[i] = a.New("x", typ, rows, width)
				d.Upload(x[i], filled(x[i].Len(), func(i int) float64 { return math.Sin(float64(7 * i)) }))
			}
			wq, wk, none := a.New("wq", typ, headDim), a.New("wk", typ, headDim), tensor.Tensor{}
			d.Upload(wq, filled(headDim, func(i int) float64 { return float64(i) }))
			d.Upload(wk, filled(headDim, func(i int) float64 { return float64(-i) }))
			rstd := a.New("rstd", tensor.F32, rows, heads+kvHeads)
			d.QKNorm(x[2], rstd, x[0], wq, wk, heads, kvHeads, eps)
			d.QKNormBackward(x[3], none, none, x[1], x[0], wq, wk, rstd, heads, kvHeads)
			d.QKNormBackward(x[5], none, none, x[5], x[4], wq, wk, rstd, heads, kvHeads)
			d.QKNorm(x[4], rstd, x[4], wq, wk, heads, kvHeads, eps)
			for i, name := range []string{"y", "dqkv"} {
				if !bytes.Equal(bytesOf(t, d, x[2+i]), bytesOf(t, d, x[4+i])) {
					t.Errorf("%v: %s is another in place", typ, name)
				}
			}
		}
	})
}
