package kernels_test

import (
	"fmt"
	"math"
	"os"
	"testing"

	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// TestAttentionLimits computes scores of up to ±10³⁰, whose products with log₂ e cannot be exact, and some of -∞.
// Queries and keys have one element that is not zero, so that the scores are exact and every weight is 0 or a tie's. It
// compares attention with the formula, of sequences and of a KV cache, and checks that gradients are finite.
func TestAttentionLimits(t *testing.T) {
	const rows, heads = 40, 2
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		limits := func(dt tensor.DType, headDim int) {
			sizes := []float64{0x1p15, 0x1p17, 0x1p50}
			if dt == tensor.F16 {
				sizes = []float64{0x1p10} // and queries are as large as they can be
			}
			for _, size := range sizes {
				for name, factor := range map[string]func(key int) float64{
					"mixed":      func(key int) float64 { return float64(3*(key*7%5) - 5) },
					"rising":     func(key int) float64 { return float64(1 + key) },
					"below zero": func(key int) float64 { return -float64(3 + key*7%5) },
					"infinite": func(key int) float64 {
						if key%3 == 1 {
							return math.Inf(-1)
						}
						return float64(5 - key%4)
					},
				} {
					t.Run(fmt.Sprintf("%v x%d %v %g %s", dt, headDim, d.Fused(), size, name), func(t *testing.T) {
						query := size
						if dt == tensor.F16 {
							query = 0x1p15
						}
						testScores(t, d, dt, headDim, rows, heads, func(key int) float64 { return size * factor(key) }, query)
					})
				}
			}
		}
		eachAttention(d, []int{16, 24, 64}, limits)
		if !d.IsCPU() && os.Getenv("RESTYLE_TEST_DEVICE") == "" { // the emulated GPU's other kernels
			d.SetFused(nil)
			limits(tensor.BF16, 24)
			d.SetFused(kernels.All())
			limits(tensor.F32, 24)
		}
	})
}

// testScores runs attention with the scores query·keyOf(j)/√headDim, and compares it with the formula.
func testScores(t *testing.T, d *kernels.Device, dt tensor.DType, headDim, rows, heads int,
	keyOf func(key int) float64, query float64) {
	t.Helper()
	s := kernels.AttentionSpec{CuSeqlens: []int32{0, int32(rows)}, Heads: heads, KVHeads: 1, HeadDim: headDim}
	c := opcheck.AttentionCase(dt, s, 1)
	r := place(t, d, c)
	defer r.Close()
	qkv := floats(t, d, r.X["qkv"])
	width := s.Width()
	for row := range rows {
		x := qkv[row*width:]
		clear(x[:(heads+1)*headDim])
		for h := range heads {
			x[h*headDim] = query
		}
		x[heads*headDim] = float64(tensor.RoundBF16(float32(keyOf(row))))
	}
	d.Upload(r.X["qkv"], toF32(qkv))
	c.Forward(d, r.X)
	c.Backward(d, r.X)

	y, lse := make([]float64, rows*heads*headDim), make([]float64, heads*rows)
	for i := range rows {
		top, total := math.Inf(-1), 0.0
		sum := make([]float64, headDim)
		score := func(j int) float64 { return query * qkv[j*width+heads*headDim] / math.Sqrt(float64(headDim)) }
		for j := range i + 1 {
			top = max(top, score(j))
		}
		for j := range i + 1 {
			weight := math.Exp(score(j) - top)
			total += weight
			for e := range sum {
				sum[e] += weight * qkv[j*width+(heads+1)*headDim+e]
			}
		}
		for h := range heads {
			lse[h*rows+i] = top + math.Log(total)
			for e := range sum {
				y[(i*heads+h)*headDim+e] = sum[e] / total
			}
		}
	}
	check := func(what string, got, want []float64, tolerance float64) {
		t.Helper()
		if e := opcheck.Distance(got, want); !(e <= tolerance) {
			t.Errorf("%s is off by %.3g, more than %g", what, e, tolerance)
		}
	}
	tolerance := map[tensor.DType]float64{tensor.F32: 1e-6, tensor.BF16: 4e-3, tensor.F16: 5e-4}[dt]
	check("y", floats(t, d, r.X["y"]), y, tolerance)
	check("lse", floats(t, d, r.X["lse"]), lse, 1e-6)
	for i, v := range floats(t, d, r.X["dqkv"]) {
		if math.IsInf(keyOf(1), 0) { // times a weight of 0
			break
		}
		if math.IsNaN(v) || math.IsInf(v, 0) && dt != tensor.F16 { // times a query that is half of the largest F16
			t.Fatalf("dqkv[%d] is %v", i, v)
		}
	}
	for _, last := range []int{1, 19} { // rows that see a cache of all rows before them
		testCached(t, d, r.X["qkv"], y, last, tolerance, s)
	}
}

func testCached(t *testing.T, d *kernels.Device, qkv tensor.Tensor, want []float64, last int, tolerance float64,
	s kernels.AttentionSpec) {
	t.Helper()
	rows, columns := qkv.Rows(), s.Heads*s.HeadDim
	a := arena(t, d, 1<<20)
	y := a.New("y", qkv.DType, last, columns)
	k, v := a.New("k", qkv.DType, rows, s.HeadDim), a.New("v", qkv.DType, rows, s.HeadDim)
	d.AppendKV(k, v, qkv, s.Heads, s.KVHeads, 0)
	d.AttentionCached(y, qkv.Slice(rows-last, rows), k, v, rows-last, s)
	if e := opcheck.Distance(floats(t, d, y), want[(rows-last)*columns:]); !(e <= tolerance) {
		t.Errorf("y of the last %d rows, from a cache, is off by %.3g, more than %g", last, e, tolerance)
	}
}
