package kernels_test

import (
	"fmt"
	"slices"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/opcheck"
	"restyle/tensor"
)

// cacheRun is one sequence whose qkv goes through caches in chunks.
type cacheRun struct {
	d         *kernels.Device
	m         kernels.AttentionSpec
	a         *kernels.Arena
	qkv, y    tensor.Tensor
	k, v, lse tensor.Tensor
	offsets   tensor.Tensor // of the sequence
}

func newCacheRun(t *testing.T, d *kernels.Device, dt tensor.DType, m kernels.AttentionSpec, rows int) (*cacheRun,
	[]float64) {
	t.Helper()
	m.CuSeqlens = []int32{0, int32(rows)}
	r := &cacheRun{d: d, m: m}
	cut := func(a *kernels.Arena) {
		r.qkv, r.y = a.New("qkv", dt, rows, m.Width()), a.New("y", dt, rows, m.Heads*m.HeadDim)
		r.k, r.v = a.New("k", dt, rows+5, m.KVHeads*m.HeadDim), a.New("v", dt, rows+5, m.KVHeads*m.HeadDim)
		r.lse, r.offsets = a.New("lse", tensor.F32, m.Heads, rows), a.New("offsets", tensor.I32, 2)
	}
	var err error
	if r.a, err = d.NewArena("cache", kernels.SizeOf(cut)); err != nil {
		t.Fatal(err)
	}
	cut(r.a)
	c := opcheck.AttentionCase(dt, m, 1)
	from := place(t, d, c)
	defer from.Close()
	d.Copy(r.qkv, from.X["qkv"])
	d.Copy(r.offsets, from.X["offsets"])
	return r, from.At["qkv"]
}

// pieces sends the rows from start on through the caches, atOnce at a time, and returns y.
func (r *cacheRun) pieces(t *testing.T, start, atOnce int) []float64 {
	t.Helper()
	rows := r.qkv.Rows()
	r.d.Upload(r.k, make([]float32, r.k.Len()))
	for i := 0; i < rows; {
		n := min(atOnce, rows-i)
		if i < start {
			n = start
		}
		x := r.qkv.Slice(i, i+n)
		r.d.AppendKV(r.k, r.v, x, r.m.Heads, r.m.KVHeads, i)
		if i >= start {
			r.d.AttentionCached(r.y.Slice(i, i+n), x, r.k, r.v, i, r.m)
		}
		i += n
	}
	return floats(t, r.d, r.y.Slice(start, rows))
}

// TestAttentionCached checks that a sequence gives the same results at once or in chunks, with or without caches.
func TestAttentionCached(t *testing.T) {
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		d.SetFused(kernels.All())
		for _, dt := range opcheck.Types {
			// In F32 only the order of sums differs. In BF16 and F16 the weights are rounded relative to other maxima.
			limit := map[tensor.DType]float64{tensor.F32: 1e-6, tensor.BF16: 4e-3, tensor.F16: 5e-4}[dt]
			for _, m := range []kernels.AttentionSpec{
				{Heads: 4, KVHeads: 2, HeadDim: 16},
				{Heads: 6, KVHeads: 1, HeadDim: 24, Window: 10},
				{Heads: 3, KVHeads: 3, HeadDim: 10, Window: 1},
				{Heads: 1, KVHeads: 1, HeadDim: 64, Window: 500},
			} {
				r, _ := newCacheRun(t, d, dt, m, 140)
				whole := r.m
				whole.Offsets = r.offsets
				d.Attention(r.y, r.lse, r.qkv, whole)
				want := floats(t, d, r.y)
				for _, n := range []int{1, 7, 64, 140} {
					if e := opcheck.Distance(r.pieces(t, 0, n), want); e > limit {
						t.Errorf("%v %d/%d heads x%d window %d, %d rows at once: off by %.3g, limit %.1g", dt, m.Heads, m.KVHeads,
							m.HeadDim, m.Window, n, e, limit)
					}
				}
				if err := r.a.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestAttentionCachedStale checks that attention of a token does not depend on what other operations left in scratch
// memory: codes of 127, which as floats are larger than any score.
func TestAttentionCachedStale(t *testing.T) {
	const rows, codes, in = 37, 64, 4096
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		d.GuardScratch(nil) // which fills it with NaN: the largest score is a number's
		m := kernels.AttentionSpec{Heads: 8, KVHeads: 2, HeadDim: 16}
		r, _ := newCacheRun(t, d, tensor.F32, m, rows)
		defer r.a.Close()
		var x, w, y tensor.Tensor
		cut := func(a *kernels.Arena) {
			x, w, y = a.New("x", tensor.F32, codes, in), a.New("w", tensor.INT8, 1, in), a.New("y", tensor.F32, codes, 1)
		}
		a, err := d.NewArena("layer", kernels.SizeOf(cut))
		expect.OK(t, err)
		defer a.Close()
		cut(a)
		d.Zero(w)
		d.Upload(x, slices.Repeat([]float32{1}, x.Len()))
		want := r.pieces(t, 1, 1)
		for i := 1; i < rows; i++ {
			d.LinearINT8(y, x, w, tensor.Tensor{}, false)
			d.AttentionCached(r.y.Slice(i, i+1), r.qkv.Slice(i, i+1), r.k, r.v, i, m)
		}
		if got := floats(t, d, r.y.Slice(1, rows)); !slices.Equal(got, want) {
			t.Error("the results differ after LinearINT8")
		}
	})
}

// TestAttentionCachedLong compares a few queries after many keys, which are processed in chunks, with the formula, and
// checks that any number of threads gives the same bytes.
func TestAttentionCachedLong(t *testing.T) {
	const rows, start = 1300, 1290
	formulas := map[string][]float64{}
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		for _, dt := range opcheck.Types {
			for _, window := range []int{0, 40, 700} {
				m := kernels.AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 16, Window: window}
				r, x := newCacheRun(t, d, dt, m, rows)
				name := fmt.Sprint(dt, window)
				if formulas[name] == nil {
					formulas[name], _, _, _ = opcheck.Attention(r.m, x, nil, opcheck.Exact)
				}
				want := formulas[name][start*m.Heads*m.HeadDim:]
				for _, n := range []int{1, 3, 10} {
					got := r.pieces(t, start, n)
					if e := opcheck.Distance(got, want); e > opcheck.Tolerances[dt] {
						t.Errorf("%v window %d, %d at once: off by %.3g, limit %.1g", dt, window, n, e, opcheck.Tolerances[dt])
					}
					withThreads(t, 3, func() {
						if opcheck.Distance(r.pieces(t, start, n), got) != 0 {
							t.Errorf("%v window %d, %d at once: another with three threads", dt, window, n)
						}
					})
				}
				if err := r.a.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestAppendKV checks that rows are stored at their positions, and that nothing else changes.
func TestAppendKV(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, dt := range opcheck.Types {
			const heads, kvHeads, dim, rows, capacity, at = 4, 2, 6, 3, 9, 4
			var qkv, k, v tensor.Tensor
			cut := func(a *kernels.Arena) {
				qkv = a.New("qkv", dt, rows, (heads+2*kvHeads)*dim)
				k, v = a.New("k", dt, capacity, kvHeads*dim), a.New("v", dt, capacity, kvHeads*dim)
			}
			a, err := d.NewArena("test", kernels.SizeOf(cut)+1<<12)
			expect.OK(t, err)
			cut(a)
			x := make([]float32, qkv.Len())
			for i := range x {
				x[i] = float32(i + 1)
			}
			d.Upload(qkv, x)
			for _, c := range []tensor.Tensor{k, v} {
				d.Upload(c, make([]float32, c.Len()))
			}
			d.AppendKV(k, v, qkv, heads, kvHeads, at)
			for part, c := range []tensor.Tensor{k, v} {
				for i, got := range floats(t, d, c) {
					row, col := i/(kvHeads*dim), i%(kvHeads*dim)
					want := 0.0
					if row >= at && row < at+rows {
						want = float64((row-at)*(heads+2*kvHeads)*dim + (heads+part*kvHeads)*dim + col + 1)
					}
					if got != want {
						t.Fatalf("%v part %d row %d column %d is %v, want %v", dt, part, row, col, got, want)
					}
				}
			}
			// Up to the last row is allowed, but no further.
			d.AppendKV(k, v, qkv, heads, kvHeads, capacity-rows)
			for at, message := range map[int]string{
				capacity - rows + 1: "AppendKV: rows 7 to 10 of k", capacity: "AppendKV: rows 9 to 12 of k",
				-1: "AppendKV: rows -1 to 2 of k",
			} {
				kernels.MustPanic(t, "a row beyond the cache", message, func() { d.AppendKV(k, v, qkv, heads, kvHeads, at) })
			}
			y := a.New("y", dt, rows, heads*dim)
			m := kernels.AttentionSpec{Heads: heads, KVHeads: kvHeads, HeadDim: dim}
			d.AttentionCached(y, qkv, k, v, capacity-rows, m)
			for start, message := range map[int]string{capacity - rows + 1: "AttentionCached: rows 7 to 10 of k",
				-1: "AttentionCached: rows -1 to 2 of k"} {
				kernels.MustPanic(t, "a row beyond the cache", message, func() { d.AttentionCached(y, qkv, k, v, start, m) })
			}
			kernels.MustPanic(t, "keys yet to come", "AttentionCached: Bidirectional attention needs keys", func() {
				d.AttentionCached(y, qkv, k, v, 0, kernels.AttentionSpec{Heads: heads, KVHeads: kvHeads, HeadDim: dim,
					Bidirectional: true})
			})
			kernels.MustPanic(t, "caches of other heads", "AppendKV: rows",
				func() { d.AppendKV(k, v, qkv, heads-1, kvHeads, 0) })
			kernels.MustPanic(t, "heads that do not share keys equally", "AppendKV: rows", func() {
				d.AppendKV(k, v, a.New("qkv", dt, rows, (5+2*kvHeads)*dim), 5, kvHeads, 0)
			})
			kernels.MustPanic(t, "a v of another length", "AppendKV: v is",
				func() { d.AppendKV(k, v.Slice(0, 3), qkv, heads, kvHeads, 0) })
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func withThreads(t *testing.T, n int, f func()) {
	t.Helper()
	expect.OK(t, cpu.SetThreads(n))
	f()
	expect.OK(t, cpu.SetThreads(1))
}
