package kernels_test

import (
	"math"
	"os"
	"testing"

	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// wgmmaAttention returns sequences that end within tiles and at their ends; some have several tiles. Sequences of more
// than 256 take three warpgroups.
func wgmmaAttention(dim int) []kernels.AttentionSpec {
	docs := []int32{0, 1, 1, 129, 257, 300, 301, 620}
	many := []int32{0} // of more blocks than are looked at together, most of them empty
	for i := range int32(30) {
		many = append(many, 3*i+2)
	}
	many = append(many, many[30]+400)
	list := []kernels.AttentionSpec{
		{CuSeqlens: docs, Heads: 2, KVHeads: 1, HeadDim: dim},
		{CuSeqlens: docs, Heads: 1, KVHeads: 1, HeadDim: dim, Bidirectional: true},
		{CuSeqlens: docs, Heads: 2, KVHeads: 1, HeadDim: dim, Window: 70, Divisor: 5},
		{CuSeqlens: []int32{0, 450}, Heads: 1, KVHeads: 1, HeadDim: dim, Window: 200},
		{CuSeqlens: []int32{0, 128, 384}, Heads: 4, KVHeads: 2, HeadDim: dim},
		{CuSeqlens: many, Heads: 2, KVHeads: 2, HeadDim: dim},
	}
	return list
}

// TestAttentionWGMMA compares what the kernels for compute capability 9.0 compute with the formula, and checks that
// scores of about 10⁹ give finite results.
func TestAttentionWGMMA(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		if d.IsCPU() {
			t.Skip("has no such kernels")
		}
		d.SetFused(kernels.All())
		defer kernels.SetWGMMAShort(256)()
		for _, dim := range []int{64, 128} {
			for i, m := range wgmmaAttention(dim) {
				for _, dt := range []tensor.DType{tensor.BF16, tensor.F16} {
					if (dt == tensor.F16) == (i == 1) || os.Getenv("RESTYLE_TEST_DEVICE") != "" {
						checkAttention(t, d, opcheck.AttentionCase(dt, m, 1), m)
					}
				}
			}
			m := kernels.AttentionSpec{CuSeqlens: []int32{0, 20, 220}, Heads: 2, KVHeads: 1, HeadDim: dim}
			c := opcheck.AttentionCase(tensor.BF16, m, 1.2e4)
			r := place(t, d, c)
			c.Forward(d, r.X)
			c.Backward(d, r.X)
			for _, name := range []string{"y", "lse", "dqkv"} {
				for _, v := range floats(t, d, r.X[name]) {
					if math.IsNaN(v) || math.IsInf(v, 0) {
						t.Fatalf("heads of %d: huge scores give %v in %s", dim, v, name)
					}
				}
			}
			r.Close()
		}
	})
}

// checkAttention compares y, lse and the gradients of a case with the formula.
func checkAttention(t *testing.T, d *kernels.Device, c *opcheck.Case, m kernels.AttentionSpec) {
	t.Helper()
	r := place(t, d, c)
	defer r.Close()
	c.Forward(d, r.X)
	c.Backward(d, r.X)
	y, lse, dqkv, sizes := opcheck.Attention(m, r.At["qkv"], r.At["dy"], opcheck.Exact)
	for _, x := range []struct {
		name  string
		want  []float64
		limit float64
	}{{"y", y, c.Tolerance}, {"lse", lse, 2e-6}, {"dqkv", dqkv, c.Tolerance}} {
		if e := opcheck.Distance(floats(t, d, r.X[x.name]), x.want); !(e <= x.limit) {
			t.Errorf("%s: %s is off by %.3g, limit %.1g", c.ID(), x.name, e, x.limit)
		}
	}
	// as in TestAttentionShapes
	term := map[tensor.DType]float64{tensor.BF16: 2 * 0x1p-8, tensor.F16: 2 * 0x1p-11}[c.Type]
	for i, x := range floats(t, d, r.X["dqkv"]) {
		limit := opcheck.ElementLimits[c.Type].Relative*math.Abs(dqkv[i]) + term*sizes[i] + 0x1p-18
		if !(math.Abs(x-dqkv[i]) <= limit) {
			t.Errorf("%s: row %d, column %d of dqkv is %g, want %g, limit %.3g", c.ID(), i/m.Width(), i%m.Width(), x,
				dqkv[i], limit)
			break
		}
	}
	for _, fault := range r.Beyond() {
		t.Errorf("%s: %s", c.ID(), fault)
	}
}
