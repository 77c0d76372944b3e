package kernels

import (
	"fmt"
	"slices"
	"testing"

	"restyle/tensor"
)

// packed is n rows of sequences of 20 to 200 tokens.
func packed(n int32) []int32 {
	at, seqs := int32(0), []int32{0}
	for i := int32(0); at < n; i++ {
		at = min(n, at+20+i*67%181)
		seqs = append(seqs, at)
	}
	return seqs
}

// BenchmarkAttention reports GFLOP/s of what causal attention needs at least: half of each sequence's square, 2 products
// forward, 5 backward.
func BenchmarkAttention(b *testing.B) {
	for _, m := range []Mask{
		{CuSeqlens: []int32{0, 512}, Heads: 8, KVHeads: 4, HeadDim: 32},
		{CuSeqlens: packed(512), Heads: 8, KVHeads: 4, HeadDim: 32},
		{CuSeqlens: []int32{0, 512}, Heads: 32, KVHeads: 8, HeadDim: 64},
		{CuSeqlens: []int32{0, 2048}, Heads: 32, KVHeads: 8, HeadDim: 64},
	} {
		flops := 0.0
		for s, begin := range m.CuSeqlens[:len(m.CuSeqlens)-1] {
			n := float64(m.CuSeqlens[s+1] - begin)
			flops += 2 * n * n / 2 * float64(m.Heads*m.HeadDim)
		}
		for _, t := range both {
			for _, fused := range []string{"unfused", "fused"} {
				for _, pass := range []string{"forward", "backward"} {
					name := fmt.Sprintf("%v/%dx%d/%d_sequences/%d_rows/%s/%s", t, m.Heads, m.HeadDim, len(m.CuSeqlens)-1, m.CuSeqlens[len(m.CuSeqlens)-1], fused, pass)
					b.Run(name, func(b *testing.B) {
						d, err := Open("cpu", Options{Fused: Fused{"attention": fused == "fused"}})
						if err != nil {
							b.Fatal(err)
						}
						defer d.Close()
						c := attentionCase(t, m, 1)
						r := c.place(b, d)
						defer r.arena.Close()
						c.forward(d, r.x)
						f, run := 2*flops, c.forward
						if pass == "backward" {
							f, run = 5*flops, c.backward
						}
						var times []float64
						for b.Loop() {
							at := b.Elapsed()
							run(d, r.x)
							times = append(times, (b.Elapsed() - at).Seconds())
						}
						slices.Sort(times)
						b.ReportMetric(f/times[len(times)/2]/1e9, "GFLOP/s")
						b.ReportMetric(f/times[0]/1e9, "best_GFLOP/s")
					})
				}
			}
		}
	}
}

var _ = tensor.F32
