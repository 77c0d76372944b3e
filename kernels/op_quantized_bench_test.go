package kernels_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"restyle/internal/expect"
	"restyle/internal/measure"
	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/quant"
	"restyle/tensor"
)

// BenchmarkQuantized times layers with quantized weights: one row alternately with reading the same bytes on as many
// threads, and 512 rows alternately with a layer whose weights are BF16. It reports how many of the layer's bytes, or
// floating-point operations, are done per nanosecond, the same for what it alternates with, and how many times as fast
// the layer is.
//
//	go test ./kernels -run '^$' -bench Quantized -benchtime 1x
func BenchmarkQuantized(b *testing.B) {
	types := []tensor.DType{tensor.INT8, tensor.INT4, tensor.Q4_0, tensor.Q4_1, tensor.Q5_0, tensor.Q5_1, tensor.Q8_0,
		tensor.Q4_K, tensor.Q5_K, tensor.Q6_K}
	for _, size := range [][2]int{{576, 1536}, {1536, 576}, {2048, 8192}, {8192, 2048}, {2048, 128256}} {
		for _, w := range types {
			in, out := size[0], size[1]
			if in%max(1, w.Coding().Unit) != 0 || out > 100_000 && w != tensor.Q6_K {
				continue
			}
			for _, rows := range []int{1, 512} {
				if rows*out > 100_000*512 {
					continue
				}
				b.Run(fmt.Sprintf("%v/%dx%d/%d", w, in, out, rows), func(b *testing.B) { timeQuantized(b, w, rows, in, out) })
			}
		}
	}
}

func timeQuantized(b *testing.B, weights tensor.DType, rows, in, out int) {
	d, x, done := layer(b, tensor.BF16, rows, in, out)
	defer done()
	a, err := d.NewArena("quantized", kernels.SizeOf(func(a *kernels.Arena) { a.New("w", weights, out, in) }))
	expect.OK(b, err)
	defer a.Close()
	w := a.New("w", weights, out, in)
	raw, row := make([]byte, w.Bytes()), oneRow(b, weights, in)
	for i := range out {
		copy(raw[i*len(row):], row)
	}
	d.UploadBytes(w, raw)
	product := func(w tensor.Tensor) measure.Work {
		return func(times int) error {
			for range times {
				d.Linear(x["y"], x["x"], w, tensor.Tensor{})
			}
			return nil
		}
	}
	work, other, name := float64(len(raw)), func(times int) error {
		for range times {
			readAll(raw)
		}
		return nil
	}, "read-G/s"
	if rows > 1 {
		work, other, name = 2*float64(rows)*float64(in)*float64(out), product(x["w"]), "BF16-G/s"
	}
	for b.Loop() {
		o := measure.Options{Warmup: 1, Iterations: 21, Shortest: 2 * time.Millisecond, Budget: 2 * time.Second, Least: 7}
		s, err := measure.Turns(b.Context(), o, product(w), other)
		expect.OK(b, err)
		ratio := s[0].Faster(s[1])
		b.ReportMetric(work/s[0].Median()/1e9, "G/s")
		b.ReportMetric(work/s[1].Median()/1e9, name)
		b.ReportMetric(ratio.Times, "times")
		b.ReportMetric(100*ratio.Noise, "±%")
	}
}

// oneRow returns a row of quantized weights.
func oneRow(b *testing.B, weights tensor.DType, in int) []byte {
	row := make([]byte, weights.RowBytes(in))
	expect.OK(b, quant.RuleFor(weights).Quantize(row, kernels.Waves(in), in))
	return row
}

// readAll reads bytes on as many threads as package cpu has: counting is vectorized.
func readAll(all []byte) {
	var wait sync.WaitGroup
	threads := cpu.Threads()
	for i := range threads {
		wait.Go(func() {
			bytes.Count(all[len(all)*i/threads:len(all)*(i+1)/threads], []byte{0})
		})
	}
	wait.Wait()
}
