package kernels_test

import (
	"math"
	"testing"

	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// wgmmaAttention are sequences that end within tiles and at their ends, and of which some have several tiles.
func wgmmaAttention(dim int) (list []kernels.AttentionSpec) {
	docs := []int32{0, 1, 1, 129, 257, 300, 301, 620}
	many := []int32{0} // of more blocks than are looked at together, most of them empty
	for i := range int32(30) {
		many = append(many, 3*i+2)
	}
	many = append(many, many[30]+400)
	return append(list,
		kernels.AttentionSpec{CuSeqlens: docs, Heads: 2, KVHeads: 1, HeadDim: dim},
		kernels.AttentionSpec{CuSeqlens: docs, Heads: 1, KVHeads: 1, HeadDim: dim, Bidirectional: true},
		kernels.AttentionSpec{CuSeqlens: docs, Heads: 1, KVHeads: 1, HeadDim: dim, Window: 70, Divisor: 5},
		kernels.AttentionSpec{CuSeqlens: []int32{0, 450}, Heads: 1, KVHeads: 1, HeadDim: dim, Window: 200},
		kernels.AttentionSpec{CuSeqlens: []int32{0, 128, 640}, Heads: 4, KVHeads: 2, HeadDim: dim},
		kernels.AttentionSpec{CuSeqlens: many, Heads: 2, KVHeads: 2, HeadDim: dim},
	)
}

// TestAttentionWGMMA checks y and lse of all ways of cutting the scores, on the emulated GPU, and that scores of about
// 10⁹ give finite results.
func TestAttentionWGMMA(t *testing.T) {
	d := kernels.Emulated(t, kernels.Options{Fused: kernels.All()})
	for _, dim := range []int{64, 128} {
		first := true
		kernels.EachWGMMACutting(t, dim, func(name string) {
			for i, m := range wgmmaAttention(dim) {
				dt := tensor.BF16
				if i == 1 {
					dt = tensor.F16
				}
				if first || i < 3 {
					checkAttentionForward(t, d, name, opcheck.AttentionCase(dt, m, 1), m)
				}
			}
			m := kernels.AttentionSpec{CuSeqlens: []int32{0, 20, 220}, Heads: 2, KVHeads: 1, HeadDim: dim}
			r := place(t, d, opcheck.AttentionCase(tensor.BF16, m, 1.2e4))
			m.Offsets = r.X["offsets"]
			d.Attention(r.X["y"], r.X["lse"], r.X["qkv"], m)
			for _, v := range append(floats(t, d, r.X["y"]), floats(t, d, r.X["lse"])...) {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Fatalf("%s: huge scores give %v", name, v)
				}
			}
			r.Close()
			first = false
		})
	}
}

// checkAttentionForward compares y and lse of a case with the formula.
func checkAttentionForward(t *testing.T, d *kernels.Device, name string, c *opcheck.Case, m kernels.AttentionSpec) {
	t.Helper()
	r := place(t, d, c)
	defer r.Close()
	c.Forward(d, r.X)
	y, lse, _, _ := opcheck.Attention(m, r.At["qkv"], nil, opcheck.Exact)
	if e := opcheck.Distance(floats(t, d, r.X["y"]), y); !(e <= c.Tolerance) {
		t.Errorf("%s: %s: y is off by %.3g, limit %.1g", name, c.ID(), e, c.Tolerance)
	}
	if e := opcheck.Distance(floats(t, d, r.X["lse"]), lse); !(e <= 2e-6) {
		t.Errorf("%s: %s: lse is off by %.3g", name, c.ID(), e)
	}
	for _, fault := range r.Beyond() {
		t.Errorf("%s: %s: %s", name, c.ID(), fault)
	}
}
