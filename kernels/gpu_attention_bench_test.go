package kernels

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"restyle/tensor"
)

// attentionCases returns cases of attention with the head dimensions that most models have or, if dim is odd, with
// others. In F32 small models have smaller ones, too.
func attentionCases(t tensor.DType, rows, dim int) (cases []gpuCase) {
	headDims := []int{64, 128}
	if dim%2 != 0 {
		headDims = []int{32, 96, max(dim-1, 2)}
	} else if t == tensor.F32 {
		headDims = []int{32, 64, 96, 128}
	}
	for _, headDim := range headDims {
		s := AttentionSpec{CuSeqlens: []int32{0, int32(rows)}, Heads: 4, KVHeads: 1, HeadDim: headDim}
		of := func(columns int) gpuOperand { return gpuOperand{t, []int{rows, columns}, 1} }
		qkv, y, cache := of(s.Width()), of(s.Heads*s.HeadDim), of(s.KVHeads*s.HeadDim)
		lse, offsets := gpuOperand{tensor.F32, []int{s.Heads, rows}, 1}, gpuOperand{tensor.I32, []int{2}, 1}
		at := func(x tensor.Tensor) AttentionSpec {
			s.Offsets = x
			return s
		}
		cases = append(cases,
			gpuCase{"attention forward", []gpuOperand{y, lse, qkv, offsets}, func(d *Device, x []tensor.Tensor) {
				d.Attention(x[0], x[1], x[2], at(x[3]))
			}},
			gpuCase{"attention backward", []gpuOperand{qkv, y, y, lse, qkv, offsets}, func(d *Device, x []tensor.Tensor) {
				d.AttentionBackward(x[0], x[1], x[2], x[3], x[4], at(x[5]))
			}},
			gpuCase{"append kv", []gpuOperand{cache, cache, qkv}, func(d *Device, x []tensor.Tensor) {
				d.AppendKV(x[0], x[1], x[2], s.Heads, s.KVHeads, 0)
			}},
			gpuCase{"attention, a chunk of a prompt", []gpuOperand{y, qkv, cache, cache}, func(d *Device, x []tensor.Tensor) {
				d.AttentionCached(x[0].Slice(0, rows/2), x[1].Slice(0, rows/2), x[2], x[3], rows-rows/2, s)
			}},
			gpuCase{"attention, a token", []gpuOperand{y, qkv, cache, cache}, func(d *Device, x []tensor.Tensor) {
				d.AttentionCached(x[0].Slice(0, 1), x[1].Slice(0, 1), x[2], x[3], rows-1, s)
			}})
	}
	return cases
}

// BenchmarkGPUAttention reports the TFLOP/s of what causal attention of random values needs at least: half of each
// sequence's square, 2 products forward and 5 backward. -benchtime has no effect, because each result is the median of
// batches of launches.
//
//	go test ./kernels -run '^$' -bench GPUAttention -benchtime 1x
func BenchmarkGPUAttention(b *testing.B) {
	d, err := Open("cuda", Options{Fused: All()})
	if err != nil {
		b.Skip(err)
	}
	b.Logf("%+v, NVRTC %d.%d, code for %s", d.gpu.Properties, d.gpu.compiler.Major, d.gpu.compiler.Minor, d.gpu.arch)
	for _, t := range []tensor.DType{tensor.BF16, tensor.F32} {
		for _, headDim := range []int{64, 128} {
			for _, n := range [][2]int{{8, 2048}, {2, 8192}, {32, 512}} {
				r, err := newAttentionRun(d, t, AttentionSpec{Heads: 32, KVHeads: 8, HeadDim: headDim}, n[0], n[1])
				if err != nil {
					b.Fatal(err)
				}
				name := fmt.Sprintf("%v d%d %dx%d", t, headDim, n[0], n[1])
				b.Run(name+" forward", func(b *testing.B) { r.time(b, 2, r.forward) })
				b.Run(name+" backward", func(b *testing.B) { r.time(b, 5, r.backward) })
				r.arena.Close()
			}
		}
	}
	if err := d.Close(); err != nil {
		b.Error(err)
	}
}

// BenchmarkGPUAttentionCuttings is BenchmarkGPUAttention with 8 sequences of 2048 and other ways to tile the scores.
//
//	go test ./kernels -run '^$' -bench GPUAttentionCuttings -benchtime 1x
func BenchmarkGPUAttentionCuttings(b *testing.B) {
	d, err := Open("cuda", Options{Fused: All()})
	if err != nil {
		b.Skip(err)
	}
	for _, h := range []headShape{{64, 2}, {128, 2}, {64, 4}, {128, 4}} {
		t := tensor.BF16
		if h.bytes == 4 {
			t = tensor.F32
		}
		r, err := newAttentionRun(d, t, AttentionSpec{Heads: 32, KVHeads: 8, HeadDim: h.dim}, 8, 2048)
		if err != nil {
			b.Fatal(err)
		}
		for _, k := range []struct {
			name     string
			cuttings map[headShape]cutting
			products float64
			run      func()
			others   map[headShape][]cutting
		}{
			{"forward", flashForward, 2, r.forward, map[headShape][]cutting{
				{64, 2}: {
					{4, 2, 64, 2, 0}, {4, 3, 32, 2, 1}, {4, 3, 48, 2, 0}, {4, 1, 64, 4, 1}, {4, 1, 64, 3, 1},
					{4, 1, 128, 2, 1}, {8, 1, 64, 2, 1}, {8, 1, 128, 1, 1}, {8, 2, 64, 1, 1}, {2, 2, 64, 4, 1},
				},
				{128, 2}: {
					{4, 2, 48, 2, 0}, {4, 2, 32, 2, 0}, {4, 2, 32, 2, 1}, {4, 1, 64, 2, 1}, {4, 1, 64, 2, 0},
					{4, 1, 32, 3, 0}, {8, 1, 64, 1, 1}, {8, 1, 128, 1, 0}, {8, 2, 64, 1, 0}, {2, 2, 64, 3, 0},
				},
				{64, 4}: {
					{4, 2, 64, 2, 0}, {4, 2, 16, 2, 0}, {4, 1, 32, 3, 0}, {4, 1, 64, 2, 0}, {8, 1, 32, 1, 0}, {4, 1, 16, 4, 0},
					{2, 2, 32, 3, 0},
				},
				{128, 4}: {
					{4, 2, 32, 1, 0}, {4, 2, 16, 2, 0}, {4, 1, 16, 3, 0}, {8, 1, 32, 1, 0}, {8, 1, 16, 2, 0}, {2, 2, 16, 3, 0},
				},
			}},
			{"queries", flashQueries, 3, func() { d.attentionQueries(r.dqkv, r.dy, r.lse, r.delta, r.qkv, r.s) },
				map[headShape][]cutting{
					{64, 2}: {
						{4, 2, 32, 2, 1}, {4, 2, 32, 2, 0}, {4, 1, 64, 3, 1}, {4, 1, 32, 4, 1}, {4, 1, 64, 3, 0}, {8, 1, 64, 1, 1},
						{8, 2, 64, 1, 0},
					},
					{128, 2}: {
						{4, 1, 32, 2, 1}, {4, 1, 64, 2, 1}, {4, 1, 64, 2, 0}, {4, 2, 64, 1, 0}, {8, 1, 64, 1, 1}, {8, 2, 32, 1, 0},
						{2, 2, 32, 3, 0},
					},
					{64, 4}:  {{4, 2, 16, 2, 0}, {4, 1, 32, 3, 0}, {4, 1, 64, 2, 0}, {4, 1, 16, 4, 0}, {8, 1, 32, 1, 0}},
					{128, 4}: {{8, 1, 32, 1, 0}, {4, 2, 16, 1, 0}, {8, 1, 16, 1, 0}, {4, 1, 32, 1, 0}, {2, 1, 16, 4, 0}},
				}},
			{"keys and values", flashKeys, 4, func() { d.attentionKeys(r.dqkv, r.dy, r.lse, r.delta, r.qkv, r.s) },
				map[headShape][]cutting{
					{64, 2}: {
						{4, 2, 16, 2, 0}, {4, 1, 32, 3, 1}, {4, 1, 64, 2, 1}, {4, 1, 64, 2, 0},
						{8, 1, 64, 1, 1}, {8, 2, 32, 1, 0}, {2, 2, 32, 4, 0}, {8, 1, 32, 1, 1},
					},
					{128, 2}: {
						{8, 1, 64, 1, 0}, {8, 1, 32, 1, 1}, {4, 1, 32, 2, 1}, {4, 1, 32, 2, 0}, {4, 1, 64, 2, 0}, {4, 1, 16, 2, 1},
						{2, 1, 32, 4, 0},
					},
					{64, 4}: {
						{4, 2, 16, 2, 0}, {4, 1, 16, 3, 0}, {4, 1, 16, 4, 0}, {4, 1, 64, 2, 0}, {8, 1, 32, 1, 0}, {4, 1, 32, 3, 0},
					},
					{128, 4}: {{8, 1, 32, 1, 0}, {8, 1, 16, 1, 0}, {4, 1, 32, 1, 0}, {4, 2, 16, 1, 0}, {2, 1, 16, 4, 0}},
				}},
		} {
			chosen := k.cuttings[h]
			for _, c := range append([]cutting{chosen}, k.others[h]...) {
				k.cuttings[h] = c
				b.Run(fmt.Sprintf("%v d%d %s %v", t, h.dim, k.name, c), func(b *testing.B) { r.time(b, k.products, k.run) })
			}
			k.cuttings[h] = chosen
		}
		r.arena.Close()
	}
	if err := d.Close(); err != nil {
		b.Error(err)
	}
}

// An attentionRun is attention of random values in sequences of one length.
type attentionRun struct {
	d                            *Device
	s                            AttentionSpec
	arena                        *Arena
	y, lse, qkv, dy, dqkv, delta tensor.Tensor
	product                      float64 // operations of one product
}

func newAttentionRun(d *Device, t tensor.DType, s AttentionSpec, sequences, length int) (*attentionRun, error) {
	rows := sequences * length
	for i := range sequences + 1 {
		s.CuSeqlens = append(s.CuSeqlens, int32(i*length))
	}
	r := &attentionRun{d: d, s: s, product: float64(rows*length) * float64(s.Heads*s.HeadDim)}
	cut := func(a *Arena) {
		r.s.Offsets = a.New("offsets", tensor.I32, sequences+1)
		r.lse = a.New("lse", tensor.F32, s.Heads, rows)
		r.delta = r.s.attentionDelta(a.New, rows)
		r.y, r.dy = a.New("y", t, rows, s.Heads*s.HeadDim), a.New("dy", t, rows, s.Heads*s.HeadDim)
		r.qkv, r.dqkv = a.New("qkv", t, rows, s.Width()), a.New("dqkv", t, rows, s.Width())
	}
	var err error
	if r.arena, err = d.NewArena("benchmark", SizeOf(cut)); err != nil {
		return nil, err
	}
	cut(r.arena)
	d.UploadI32(r.s.Offsets, s.CuSeqlens)
	randomise(d, r.qkv)
	randomise(d, r.dy)
	r.forward()
	return r, d.Sync()
}

func (r *attentionRun) forward()  { r.d.Attention(r.y, r.lse, r.qkv, r.s) }
func (r *attentionRun) backward() { r.d.AttentionBackward(r.dqkv, r.dy, r.y, r.lse, r.qkv, r.s) }

func (r *attentionRun) time(b *testing.B, products float64, f func()) {
	const batch, batches = 8, 11
	var times []time.Duration
	f() // compiles the kernels and raises the clocks
	for range batches {
		t, err := r.d.gpu.Time(func() {
			for range batch {
				f()
			}
		})
		if err != nil {
			b.Error(err)
			return
		}
		times = append(times, t/batch)
	}
	slices.Sort(times)
	t := times[batches/2]
	for b.Loop() {
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(t.Seconds()*1e6, "µs")
	b.ReportMetric(products*r.product/t.Seconds()/1e12, "TFLOP/s")
}
