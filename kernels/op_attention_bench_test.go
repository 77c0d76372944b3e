package kernels_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/opcheck"
	"restyle/tensor"
)

// packed returns the offsets of n rows of sequences of 20 to 200 tokens.
func packed(n int32) []int32 {
	at, seqs := int32(0), []int32{0}
	for i := int32(0); at < n; i++ {
		at = min(n, at+20+i*67%181)
		seqs = append(seqs, at)
	}
	return seqs
}

// BenchmarkAttention reports the GFLOP/s of what causal attention needs at least: half of each sequence's square, 2
// products forward and 5 backward. It also reports their share of the ceiling, measured before and after. The median
// run counts.
func BenchmarkAttention(b *testing.B) {
	for _, m := range []kernels.AttentionSpec{
		{CuSeqlens: []int32{0, 512}, Heads: 8, KVHeads: 4, HeadDim: 32},
		{CuSeqlens: packed(512), Heads: 8, KVHeads: 4, HeadDim: 32},
		{CuSeqlens: []int32{0, 512}, Heads: 32, KVHeads: 8, HeadDim: 64},
		{CuSeqlens: []int32{0, 2048}, Heads: 32, KVHeads: 8, HeadDim: 64},
	} {
		product := 0.0
		for i, end := range m.CuSeqlens[1:] {
			n := float64(end - m.CuSeqlens[i])
			product += 2 * n * n / 2 * float64(m.Heads*m.HeadDim)
		}
		for _, t := range opcheck.Types {
			for _, fused := range []string{"unfused", "fused"} {
				c := opcheck.AttentionCase(t, m, 1)
				for _, pass := range []struct {
					name     string
					run      func(*kernels.Device, opcheck.Tensors)
					products float64
				}{{"forward", c.Forward, 2}, {"backward", c.Backward, 5}} {
					n := len(m.CuSeqlens) - 1
					name := fmt.Sprintf("%v/%dx%d/%d_rows/%d_sequences/%s/%s", t, m.Heads, m.HeadDim, m.CuSeqlens[n], n, fused,
						pass.name)
					b.Run(name, func(b *testing.B) {
						d, err := kernels.Open("cpu", kernels.Options{Fused: kernels.Fused{"attention": fused == "fused"}})
						if err != nil {
							b.Fatal(err)
						}
						defer d.Close()
						r := place(b, d, c)
						defer r.Close()
						c.Forward(d, r.X)
						pass.run(d, r.X)
						peak := cpu.Peak(t, 20*time.Millisecond)
						var times []float64
						for b.Loop() {
							at := b.Elapsed()
							pass.run(d, r.X)
							times = append(times, (b.Elapsed() - at).Seconds())
						}
						peak = max(peak, cpu.Peak(t, 20*time.Millisecond))
						slices.Sort(times)
						rate := pass.products * product / times[len(times)/2]
						b.ReportMetric(rate/1e9, "GFLOP/s")
						b.ReportMetric(100*rate/peak, "%ceiling")
					})
				}
			}
		}
	}
}

// BenchmarkAttentionCached reports the GB/s of keys and values read for one token after 2,048, in so many layers that
// no cache holds them, and their share of what a copy reads and writes.
func BenchmarkAttentionCached(b *testing.B) {
	const start, layers = 2048, 32
	m := kernels.AttentionSpec{Heads: 32, KVHeads: 8, HeadDim: 64}
	for _, t := range opcheck.Types {
		b.Run(t.String(), func(b *testing.B) {
			d, err := kernels.Open("cpu", kernels.Options{Fused: kernels.All()})
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			var qkv, y, caches tensor.Tensor
			cut := func(a *kernels.Arena) {
				qkv, y = a.New("qkv", t, 1, m.Width()), a.New("y", t, 1, m.Heads*m.HeadDim)
				caches = a.New("caches", t, 2*layers, start+1, m.KVHeads*m.HeadDim)
			}
			a, err := d.NewArena("caches", kernels.SizeOf(cut))
			if err != nil {
				b.Fatal(err)
			}
			defer a.Close()
			cut(a)
			for i := range caches.Raw() {
				caches.Raw()[i] = 0x3e
			}
			layer := func(i int) tensor.Tensor { return caches.Slice(i, i+1).View(start+1, m.KVHeads*m.HeadDim) }
			copied := cpu.CopyRate(100 * time.Millisecond)
			var times []float64
			for b.Loop() {
				at := b.Elapsed()
				for l := range layers {
					d.AttentionCached(y, qkv, layer(2*l), layer(2*l+1), start, m)
				}
				times = append(times, (b.Elapsed() - at).Seconds())
			}
			copied = max(copied, cpu.CopyRate(100*time.Millisecond))
			slices.Sort(times)
			rate := float64(caches.Bytes()) / times[len(times)/2]
			b.ReportMetric(rate/1e9, "GB/s")
			b.ReportMetric(100*rate/copied, "%copy")
		})
	}
}
