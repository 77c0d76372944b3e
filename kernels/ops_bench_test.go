package kernels_test

import (
	"math"
	"testing"
	"time"

	"restyle/kernels"
	"restyle/kernels/cases"
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// BenchmarkOps reports the GB/s that each operation must read and write at least, in its fastest run, and next to them
// those of the fastest copy that reads and writes as many bytes. Run it with -cpu 1 for one thread.
//
//	go test ./kernels -run '^$' -bench 'Ops/.*swiglu'
func BenchmarkOps(b *testing.B) {
	for _, t := range cases.Types {
		for _, c := range cases.Timed(t) {
			for _, fused := range c.TimedForms() {
				name, o := c.ID(), kernels.Options{}
				if fused {
					name, o.Fused = name+" fused", kernels.All()
				}
				b.Run(name, func(b *testing.B) { timeCase(b, c, o) })
			}
		}
	}
}

func timeCase(b *testing.B, c *cases.Case, o kernels.Options) {
	d, err := kernels.Open("cpu", o)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	}()
	r := place(b, d, c)
	defer r.Close()
	bench := func(name string, bytes float64, run func(d *kernels.Device, x cases.Tensors)) {
		if run == nil {
			return
		}
		b.Run(name, func(b *testing.B) {
			best := time.Duration(math.MaxInt64)
			for b.Loop() {
				begin := time.Now()
				run(d, r.X)
				best = min(best, time.Since(begin))
			}
			b.ReportMetric(bytes/float64(best), "GB/s")
			b.ReportMetric(copySpeed(b, d, bytes), "copy-GB/s")
		})
	}
	bench("forward", c.ForwardBytes, c.Forward)
	bench("backward", c.BackwardBytes, c.Backward)
}

// copySpeed returns the speed of a copy that reads and writes the given number of bytes: the fastest of many tries.
func copySpeed(b *testing.B, d *kernels.Device, bytes float64) (best float64) {
	const width = 2048
	rows := max(1, int(bytes/2/4/width))
	a, err := d.NewArena("copy", rows*(2*width*4+4)+3*256)
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	from, to, index := a.New("from", tensor.F32, rows, width), a.New("to", tensor.F32, rows, width),
		a.New("index", tensor.I32, rows)
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
