package kernels_test

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"restyle/internal/blas"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/opcheck"
	"restyle/tensor"
)

// layers are the linear layers of a model of five million parameters and of Llama-3.2-1B.
var layers = []struct {
	model, name string
	in, out     int
}{
	{"5M", "qkv", 256, 512}, {"5M", "o", 256, 256}, {"5M", "gateUp", 256, 1376}, {"5M", "down", 688, 256},
	{"5M", "head", 256, 2048},
	{"1B", "qkv", 2048, 3072}, {"1B", "o", 2048, 2048}, {"1B", "gateUp", 2048, 16384}, {"1B", "down", 8192, 2048},
	{"1B", "head", 2048, 128256},
}

// clock returns the CPU time of the calling thread if operations run only on it, so that other users of the machine do
// not count. If they run on several threads, it returns the wall-clock time.
func clock() time.Duration {
	if cpu.Threads() > 1 {
		return time.Duration(time.Now().UnixNano())
	}
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(t.Nano())
}

// BenchmarkLinear reports the GFLOP/s of the fastest run, packing included, and next to it the ceiling, the GFLOP/s
// of a loop that never leaves the registers, measured before and after in the same minute. Run it with -cpu 1 for
// one thread.
//
// With RESTYLE_BLAS, the file of OpenBLAS or MKL, it runs that library's product in float32 after each product of
// restyle's, and reports the library's GFLOP/s, and how many times as fast restyle was: the median over the runs.
//
//	go test ./kernels -run '^$' -bench Linear -benchtime 0.2s
//	go test ./kernels -run '^$' -bench 'Linear/BF16/1B_gateUp/300'
//	RESTYLE_BLAS=/usr/lib/libopenblas.so go test ./kernels -run '^$' -cpu 1 -bench 'Linear$' -benchtime 0.3s
func BenchmarkLinear(b *testing.B) {
	for _, t := range opcheck.Types {
		for _, l := range layers {
			for _, rows := range []int{2048, 300} {
				if l.out > 100_000 && rows > 300 {
					continue // the head processes its rows in logits chunks
				}
				b.Run(fmt.Sprintf("%v/%s_%s/%d", t, l.model, l.name, rows), func(b *testing.B) {
					d, x, done := layer(b, t, rows, l.in, l.out)
					defer done()
					none := tensor.Tensor{}
					flops := 2 * float64(rows) * float64(l.in) * float64(l.out)
					ceiling := func() float64 { return cpu.Peak(t, 5*time.Millisecond) }
					peer := library(b, rows, l.in, l.out)
					timed(b, "y", flops, ceiling, func() { d.Linear(x["y"], x["x"], x["w"], none) }, peer("y"))
					timed(b, "dx", flops, ceiling, func() { d.LinearBackward(x["dx"], x["y"], x["w"], false) }, peer("dx"))
					timed(b, "dw", flops, ceiling, func() { d.LinearGradient(x["dw"], x["y"], x["x"], 0, true) }, peer("dw"))
				})
			}
		}
	}
}

// layer returns a device, the operands of a layer, and a function that closes them.
func layer(b *testing.B, t tensor.DType, rows, in, out int) (*kernels.Device, opcheck.Tensors, func()) {
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(b, err)
	x := opcheck.Tensors{}
	cut := func(a *kernels.Arena) {
		x["x"], x["dx"], x["y"] = a.New("x", t, rows, in), a.New("dx", t, rows, in), a.New("y", t, rows, out)
		x["w"], x["dw"] = a.New("w", t, out, in), a.New("dw", tensor.F32, out, in)
	}
	a, err := d.NewArena("benchmark", kernels.SizeOf(cut))
	expect.OK(b, err)
	cut(a)
	row := make([]float32, max(in, out))
	for i := range row {
		row[i] = float32(math.Sin(float64(i)))
	}
	for _, name := range []string{"x", "w"} {
		for r := range x[name].Rows() {
			d.Upload(x[name].Slice(r, r+1), row[:in])
		}
	}
	return d, x, func() {
		if err := a.Close(); err != nil {
			b.Error(err)
		}
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	}
}

// other is the library that RESTYLE_BLAS names, opened once; it cannot be closed.
var other *blas.Library

// library returns the products of a layer by the library that RESTYLE_BLAS names, by what they compute, or nil if it
// names none.
func library(b *testing.B, rows, in, out int) func(string) func() {
	file := os.Getenv("RESTYLE_BLAS")
	if file == "" {
		return func(string) func() { return nil }
	}
	if other == nil {
		var err error
		if other, err = blas.Open(file, cpu.Threads()); err != nil {
			b.Fatal(err)
		}
	}
	m := map[string][]float32{"x": make([]float32, rows*in), "y": make([]float32, rows*out), "w": make([]float32, in*out)}
	at := func(name string) uintptr { return uintptr(unsafe.Pointer(&m[name][0])) }
	for _, name := range []string{"x", "w"} {
		for i := range m[name] {
			m[name][i] = float32(math.Sin(float64(i % in)))
		}
	}
	products := map[string]func(){
		"y":  func() { other.Multiply(rows, out, in, at("x"), false, at("w"), true, at("y")) },
		"dx": func() { other.Multiply(rows, in, out, at("y"), false, at("w"), false, at("x")) },
		"dw": func() { other.Multiply(out, in, rows, at("y"), true, at("x"), false, at("w")) },
	}
	return func(name string) func() { return products[name] }
}

// timed reports work per nanosecond in the fastest run, and its share of the ceiling. If there is a peer, it runs after
// each run.
func timed(b *testing.B, name string, work float64, ceiling func() float64, run, peer func()) {
	b.Run(name, func(b *testing.B) {
		runtime.LockOSThread() // clock returns this thread's time
		defer runtime.UnlockOSThread()
		most := ceiling()
		run()
		best, peers := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
		var times []float64 // as fast as the peer, in each run
		for b.Loop() {
			begin := clock()
			run()
			end := clock()
			best = min(best, end-begin)
			if peer != nil {
				peer()
				took := clock() - end
				peers = min(peers, took)
				times = append(times, float64(took)/float64(end-begin))
			}
		}
		most = max(most, ceiling()) / 1e9
		rate := work / float64(best)
		b.ReportMetric(rate, "G/s")
		b.ReportMetric(most, "ceiling-G/s")
		b.ReportMetric(100*rate/most, "%")
		if peer != nil {
			slices.Sort(times)
			b.ReportMetric(work/float64(peers), "BLAS-G/s")
			b.ReportMetric(times[len(times)/2], "xBLAS")
		}
	})
}
