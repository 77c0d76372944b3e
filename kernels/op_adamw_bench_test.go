package kernels_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/opcheck"
	"restyle/tensor"
)

// BenchmarkAdamW reports the GB/s that a step of each form must move at least, and their share of what a copy of 8 KiB
// rows moves that reads and writes as many bytes: the best of each, measured alternately. Run it with -cpu 1 for one
// thread.
//
//	go test ./kernels -run '^$' -bench 'AdamW/BF16_split8_8' -benchtime 40x
func BenchmarkAdamW(b *testing.B) {
	const n, width = 1 << 24, 2048
	for _, f := range forms {
		b.Run(f.name, func(b *testing.B) {
			d, err := kernels.Open("cpu", kernels.Options{})
			expect.OK(b, err)
			rng := rand.New(rand.NewPCG(1, 2))
			x := f.stepper(b, d, filled(n, func(int) float64 { return 0.02 * rng.NormFloat64() }))
			d.Upload(x.g, filled(n, func(int) float64 { return 1e-3 * rng.NormFloat64() }))
			bytes := float64(x.g.Bytes() + 2*x.w.Bytes()) // the gradient is read; everything else is read and written
			for _, y := range x.state() {
				bytes += float64(2 * y.Bytes())
			}
			if f.master == tensor.F32 {
				bytes -= float64(x.w.Bytes()) // the rounded weight is only written
			}
			rows := int(bytes) / (8 * width)
			a := arena(b, d, kernels.SizeOf(func(a *kernels.Arena) {
				a.New("rows", tensor.F32, 2*rows, width)
				a.New("index", tensor.I32, rows)
			}))
			from, index := a.New("rows", tensor.F32, 2*rows, width), a.New("index", tensor.I32, rows)
			for i := range index.I32() {
				index.I32()[i] = int32(i)
			}
			duplicate := func() { cpu.Gather(from.Slice(rows, 2*rows), from.Slice(0, rows), index) }
			duplicate() // touches the pages
			step, copied := math.Inf(1), math.Inf(1)
			for b.Loop() {
				x.c.Step++
				begin := time.Now()
				d.AdamW(x.tensor(), x.c)
				step = min(step, float64(time.Since(begin)))
				begin = time.Now()
				duplicate()
				copied = min(copied, float64(time.Since(begin)))
			}
			b.ReportMetric(bytes/n, "B/weight")
			b.ReportMetric(bytes/step, "GB/s")
			b.ReportMetric(bytes/copied, "copy-GB/s")
			b.ReportMetric(100*copied/step, "%")
		})
	}
}

// BenchmarkAddSquares reports GB/s next to the GB/s of a plain read of the same bytes, which adds them up as integers.
func BenchmarkAddSquares(b *testing.B) {
	for _, t := range opcheck.Types {
		b.Run(t.String(), func(b *testing.B) {
			d, err := kernels.Open("cpu", kernels.Options{})
			expect.OK(b, err)
			const n = 1 << 26
			x := arena(b, d, n*t.Size()).New("x", t, n)
			d.Upload(x, filled(n, func(i int) float64 { return float64(i % 7) }))
			c := control(b, d)
			best, read := math.Inf(1), math.Inf(1)
			for b.Loop() {
				begin := time.Now()
				d.AddSquares(c, x)
				best = min(best, float64(time.Since(begin)))
				begin = time.Now()
				cpu.Read(x)
				read = min(read, float64(time.Since(begin)))
			}
			b.ReportMetric(float64(x.Bytes())/best, "GB/s")
			b.ReportMetric(float64(x.Bytes())/read, "read-GB/s")
			b.ReportMetric(100*read/best, "%")
		})
	}
}
