package kernels_test

import (
	"math"
	"os"
	"testing"

	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// TestAttentionGrouped compares the gradients that the kernels for compute capability 9.0 compute with the formula:
// sequences are longer than a tile, and end in the middle of one.
func TestAttentionGrouped(t *testing.T) {
	several := []int32{0, 5, 145, 145, 334}
	list := []kernels.AttentionSpec{
		{CuSeqlens: []int32{0, 128}, Heads: 2, KVHeads: 1, HeadDim: 64},
		{CuSeqlens: several, Heads: 4, KVHeads: 2, HeadDim: 64},
		{CuSeqlens: several, Heads: 2, KVHeads: 1, HeadDim: 64, Window: 70},
		{CuSeqlens: several, Heads: 1, KVHeads: 1, HeadDim: 64, Bidirectional: true},
		{CuSeqlens: several, Heads: 2, KVHeads: 1, HeadDim: 128},
		{CuSeqlens: several, Heads: 1, KVHeads: 1, HeadDim: 128, Window: 30},
		{CuSeqlens: several, Heads: 1, KVHeads: 1, HeadDim: 128, Bidirectional: true},
	}
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		d.SetFused(kernels.All())
		for i, m := range list {
			for k, dt := range []tensor.DType{tensor.BF16, tensor.F16} {
				if d.IsCPU() || k == 1 && i%4 != 1 && os.Getenv("RESTYLE_TEST_DEVICE") == "" {
					continue
				}
				c := opcheck.AttentionCase(dt, m, 1)
				r := place(t, d, c)
				_, _, want, sizes := opcheck.Attention(m, r.At["qkv"], r.At["dy"], opcheck.Exact)
				c.Forward(d, r.X)
				c.Backward(d, r.X)
				got := floats(t, d, r.X["dqkv"])
				if e := opcheck.Distance(got, want); !(e <= c.Tolerance) {
					t.Errorf("%s: dqkv is off by %.3g, limit %.1g", c.ID(), e, c.Tolerance)
				}
				// as in TestAttentionShapes
				term := map[tensor.DType]float64{tensor.BF16: 2 * 0x1p-8, tensor.F16: 2 * 0x1p-11}[dt]
				for i, x := range got {
					limit := opcheck.ElementLimits[dt].Relative*math.Abs(want[i]) + term*sizes[i] + 0x1p-18
					if !(math.Abs(x-want[i]) <= limit) {
						t.Errorf("%s: row %d, column %d of dqkv is %g, want %g, limit %.3g", c.ID(), i/m.Width(),
							i%m.Width(), x, want[i], limit)
						break
					}
				}
				for _, fault := range r.Beyond() {
					t.Errorf("%s: %s", c.ID(), fault)
				}
				r.Close()
			}
		}
	})
}
