package kernels

import (
	"math"
	"slices"
	"testing"
	"time"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// bytes is the size of operands by their names, one that is named twice counted twice: what a run reads and writes at least.
func (c opCase) bytes(names ...string) (n float64) {
	sizes := map[string]float64{}
	for _, o := range append(slices.Clone(c.in), c.out...) {
		x := tensor.Tensor{DType: o.t, Shape: o.shape}
		sizes[o.name] = float64(x.Bytes())
	}
	for _, name := range names {
		n += sizes[name]
	}
	return n
}

// timedCases are the sizes of Llama-3.2-1B and of a model of five million parameters: the first are decided by memory, the
// others by caches.
func timedCases(t tensor.DType) []opCase {
	index := make([]int, 1024)
	for i := range index {
		index[i] = 2 * i
	}
	return []opCase{
		addCase(t, 2048*2048), addCase(t, 512*256),
		rmsNormCase(t, 2048, 2048), rmsNormCase(t, 512, 256),
		addRMSNormCase(t, 2048, 2048), addRMSNormCase(t, 512, 256),
		qkNormCase(t, 2048, 32, 8, 64), qkNormCase(t, 512, 8, 4, 32),
		ropeCase(t, 2048, 32, 8, 64), ropeCase(t, 512, 8, 4, 32),
		swiGLUCase(t, 2048, 8192), swiGLUCase(t, 512, 688),
		geluCase(t, 2048, 8192, false), geluCase(t, 512, 688, false), geluCase(t, 2048, 8192, true), geluCase(t, 512, 688, true),
		embeddingCase(t, 2048, 20000, 2048, 20000), embeddingCase(t, 512, 4096, 256, 4096),
		rowsCase(t, 2048, 2048, index),
		crossEntropyCase(t, 300, 128256, nil, true), crossEntropyCase(t, 512, 4096, nil, true),
		adamWCase(t, 4<<20, 10, false), adamWCase(t, 256*688, 10, false),
	}
}

// BenchmarkOps reports GB/s of what each operation must read and write at least, in its fastest run, and beside it those of
// the fastest copy that reads and writes as much. Run it with -cpu 1 for one thread.
//
//	go test ./kernels -run '^$' -bench 'Ops/.*swiglu'
func BenchmarkOps(b *testing.B) {
	for _, t := range both {
		for _, c := range timedCases(t) {
			for _, fused := range []Fused{nil, All()} {
				if fused != nil && (c.kernels[1] == nil || slices.Equal(c.kernels[0], c.kernels[1])) {
					continue // the same kernels
				}
				name := c.op + " " + c.name
				if fused != nil {
					name += " fused"
				}
				b.Run(name, func(b *testing.B) { c.time(b, fused) })
			}
		}
	}
}

func (c opCase) time(b *testing.B, fused Fused) {
	d, err := Open("cpu", Options{Fused: fused})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	}()
	r := c.place(b, d)
	defer r.arena.Close()
	bench := func(name string, bytes float64, run func(d *Device, x tensors)) {
		if run == nil {
			return
		}
		b.Run(name, func(b *testing.B) {
			best := time.Duration(math.MaxInt64)
			for b.Loop() {
				begin := time.Now()
				run(d, r.x)
				best = min(best, time.Since(begin))
			}
			b.ReportMetric(bytes/float64(best), "GB/s")
			b.ReportMetric(copySpeed(b, d, bytes), "copy-GB/s")
		})
	}
	bench("forward", c.forwardBytes, c.forward)
	bench("backward", c.backwardBytes, c.backward)
}

// copySpeed is what a copy that reads and writes so many bytes reaches, in the fastest of many tries.
func copySpeed(b *testing.B, d *Device, bytes float64) (best float64) {
	const width = 2048
	rows := max(1, int(bytes/2/4/width))
	a, err := d.NewArena("copy", rows*(2*width*4+4)+3*align)
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	from, to, index := a.New("from", tensor.F32, rows, width), a.New("to", tensor.F32, rows, width), a.New("index", tensor.I32, rows)
	for i := range rows {
		index.I32()[i] = int32(i)
	}
	for range 50 {
		begin := time.Now()
		cpu.Gather(to, from, index)
		best = max(best, float64(2*from.Bytes())/float64(time.Since(begin)))
	}
	return best
}
