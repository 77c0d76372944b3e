package kernels_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// BenchmarkQuantizedLinear multiplies one to eight rows, and 128, by the same layers of Llama-3.2-1B in BF16,
// quantized, and in INT8 with INT8 activations, in turns, and reports the median microseconds of each, how many
// times as fast as BF16 it is, and the GB/s at which it reads its weights. As in decoding, there are so many
// copies of the weights that none is in a cache.
//
//	go test ./kernels -run '^$' -bench QuantizedLinear/1B_head/1$ -benchtime 1x
func BenchmarkQuantizedLinear(b *testing.B) {
	types := []tensor.DType{tensor.BF16, tensor.INT8, tensor.INT4, tensor.INT4Z, tensor.INT8}
	const int8s = 4 // the way that multiplies by INT8 activations
	name := func(way int) string {
		if way == int8s {
			return "INT8xINT8"
		}
		return types[way].String()
	}
	for _, l := range layers {
		if l.model == "5M" {
			continue
		}
		for _, rows := range []int{1, 2, 4, 8, 128} {
			b.Run(fmt.Sprintf("%s_%s/%d", l.model, l.name, rows), func(b *testing.B) {
				d, err := kernels.Open("cpu", kernels.Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer d.Close()
				var copies [][]tensor.Tensor
				var x, y tensor.Tensor
				lay := func(a *kernels.Arena) {
					copies = nil
					x, y = a.New("x", tensor.BF16, rows, l.in), a.New("y", tensor.BF16, rows, l.out)
					for _, t := range types {
						var list []tensor.Tensor
						for used := 0; used < 200<<20; used += list[0].Bytes() {
							list = append(list, a.New("w", t, l.out, l.in))
						}
						copies = append(copies, list)
					}
				}
				a, err := d.NewArena("weights", kernels.SizeOf(lay))
				if err != nil {
					b.Fatal(err)
				}
				defer a.Close()
				lay(a)
				for _, list := range append(copies, []tensor.Tensor{x}) {
					for _, w := range list {
						raw := w.Raw()
						for i := range raw {
							raw[i] = 0x3C // a normal number in every type
						}
					}
				}
				runtime.LockOSThread() // clock returns this thread's time
				defer runtime.UnlockOSThread()
				took := make([][]time.Duration, len(types))
				for b.Loop() {
					for n := range 24 {
						for i, list := range copies {
							start := clock()
							if i == int8s {
								d.LinearINT8(y, x, list[n%len(list)], tensor.Tensor{}, false)
							} else {
								d.Linear(y, x, list[n%len(list)], tensor.Tensor{})
							}
							took[i] = append(took[i], clock()-start)
						}
					}
				}
				median := func(list []time.Duration) time.Duration {
					slices.Sort(list)
					return list[len(list)/2]
				}
				base := median(took[0])
				for i := range types {
					m := median(took[i])
					b.ReportMetric(float64(m.Nanoseconds())/1e3, "us_"+name(i))
					b.ReportMetric(float64(copies[i][0].Bytes())/m.Seconds()/1e9, "GB/s_"+name(i))
					if i > 0 {
						b.ReportMetric(base.Seconds()/m.Seconds(), "times_"+name(i))
					}
				}
				b.ReportMetric(cpu.CopyRate(50*time.Millisecond)/1e9, "GB/s_copy")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
