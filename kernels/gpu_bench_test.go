package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"restyle/tensor"
)

// A gpuCase is an operation timed on a GPU, with operands allocated in one piece of memory.
type gpuCase struct {
	name     string
	operands []gpuOperand
	run      func(d *Device, x []tensor.Tensor)
}

// A gpuOperand is an operand and how often all of it is moved: 1 if it is read or written, 2 for both.
type gpuOperand struct {
	t     tensor.DType
	shape []int
	moved int
}

// gpuCases returns the operations that run on a GPU. TestCompile compiles what they launch, fused and unfused.
func gpuCases(t tensor.DType, rows, dim int) []gpuCase {
	full := func(moved int) gpuOperand { return gpuOperand{t, []int{rows, dim}, moved} }
	pair := gpuOperand{t, []int{rows, 2 * dim}, 1}
	rstd, w, dw := gpuOperand{tensor.F32, []int{rows}, 1}, gpuOperand{t, []int{dim}, 1}, gpuOperand{tensor.F32, []int{dim},
		2}
	// The heads have 64 elements.
	positions, angles := gpuOperand{tensor.I32, []int{rows}, 1}, gpuOperand{tensor.F32, []int{rows, 32}, 1}
	cases := []gpuCase{
		{"rmsnorm forward", []gpuOperand{full(1), rstd, full(1), w}, func(d *Device, x []tensor.Tensor) {
			d.RMSNorm(x[0], x[1], x[2], x[3], 1e-5)
		}},
		{"rmsnorm backward", []gpuOperand{full(1), dw, full(1), full(1), w, rstd}, func(d *Device, x []tensor.Tensor) {
			d.RMSNormBackward(x[0], x[1], x[2], x[3], x[4], x[5])
		}},
		{"add rmsnorm forward", []gpuOperand{full(1), rstd, full(1), full(1), full(1), w},
			func(d *Device, x []tensor.Tensor) {
				d.AddRMSNorm(x[0], x[1], x[2], x[3], x[4], x[5], 1e-5)
			}},
		{"add rmsnorm backward", []gpuOperand{full(2), dw, full(1), full(1), w, rstd}, func(d *Device, x []tensor.Tensor) {
			d.AddRMSNormBackward(x[0], x[1], x[2], x[3], x[4], x[5])
		}},
		{"swiglu forward", []gpuOperand{full(1), pair}, func(d *Device, x []tensor.Tensor) { d.SwiGLU(x[0], x[1]) }},
		{"swiglu backward", []gpuOperand{pair, full(1), pair}, func(d *Device, x []tensor.Tensor) {
			d.SwiGLUBackward(x[0], x[1], x[2])
		}},
		{"gelu forward", []gpuOperand{full(1), full(1)}, func(d *Device, x []tensor.Tensor) { d.GELU(x[0], x[1], false) }},
		{"gelu backward", []gpuOperand{full(1), full(1), full(1)}, func(d *Device, x []tensor.Tensor) {
			d.GELUBackward(x[0], x[1], x[2], false)
		}},
		{"gelu tanh forward", []gpuOperand{full(1), full(1)},
			func(d *Device, x []tensor.Tensor) { d.GELU(x[0], x[1], true) }},
		{"gelu tanh.approx forward", []gpuOperand{full(1), full(1)},
			func(d *Device, x []tensor.Tensor) { d.GELUTanhApprox(x[0], x[1]) }},
		{"gelu tanh backward", []gpuOperand{full(1), full(1), full(1)}, func(d *Device, x []tensor.Tensor) {
			d.GELUBackward(x[0], x[1], x[2], true)
		}},
		{"gather rows", []gpuOperand{full(1), full(1), positions},
			func(d *Device, x []tensor.Tensor) { d.GatherRows(x[0], x[1], x[2]) }},
		{"scatter rows", []gpuOperand{full(1), full(1), positions},
			func(d *Device, x []tensor.Tensor) { d.ScatterRows(x[0], x[1], x[2]) }},
	}
	if dim%64 == 0 && dim > 128 {
		cases = append(cases, gpuCase{"rope", []gpuOperand{full(2), positions, angles, angles},
			func(d *Device, x []tensor.Tensor) {
				d.RoPE(x[0], x[1], x[2], x[3], dim/64-2, 1)
			}})
	}
	cases = append(cases, layerNormCases(t, rows, dim)...)
	cases = append(cases, opsCases(t, rows, dim)...)
	cases = append(cases, rowCases(t, rows, dim)...)
	cases = append(cases, optimizerCases(t, rows, dim)...)
	cases = append(cases, expertCases(t, rows, dim)...)
	cases = append(cases, decodeCases(t, dim)...)
	cases = append(cases, quantizedCases(t, dim)...)
	return cases
}

// BenchmarkGPU reports each operation's bandwidth, counting the bytes that it must move, and its share of the bandwidth
// of a copy of as many bytes within the GPU's memory, timed in turns with it. Data are random, and several sets of
// operands take turns, so that no set is found in a cache. -benchtime has no effect, because each result is the median
// of batches of launches.
//
//	go test ./kernels -run '^$' -bench GPU -benchtime 1x
func BenchmarkGPU(b *testing.B) {
	d, err := Open("cuda", Options{Fused: All()})
	if err != nil {
		b.Skip(err)
	}
	b.Logf("%+v, NVRTC %d.%d, code for %s", d.gpu.Properties, d.gpu.compiler.Major, d.gpu.compiler.Minor, d.gpu.arch)
	for _, t := range []tensor.DType{tensor.F32, tensor.BF16} {
		for _, dim := range []int{2048, 8192} {
			for _, c := range gpuCases(t, 16384, dim) {
				b.Run(fmt.Sprintf("%s %v 16384x%d", c.name, t, dim), func(b *testing.B) { c.time(b, d) })
			}
		}
	}
	if err := d.Close(); err != nil {
		b.Error(err)
	}
}

func (c gpuCase) time(b *testing.B, d *Device) {
	const sets, batch, batches = 3, 16, 15
	var x [sets][]tensor.Tensor
	cut := func(a *Arena) (moved int) {
		for i := range x {
			x[i] = nil
			for _, o := range c.operands {
				t := a.New("operand", o.t, o.shape...)
				x[i] = append(x[i], t)
				moved += o.moved * t.Bytes()
			}
		}
		return moved / sets
	}
	moved := 0
	a, err := d.NewArena("benchmark", SizeOf(func(a *Arena) { moved = cut(a) })+sets*(moved+8<<20))
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	cut(a)
	for i := range x {
		for _, t := range x[i] {
			randomise(d, t)
		}
	}

	median := func(f func(i int)) time.Duration {
		var times []time.Duration
		for range batches {
			t, err := d.gpu.Time(func() {
				for i := range batch {
					f(i % sets)
				}
			})
			if err != nil {
				b.Fatal(err)
			}
			times = append(times, t/batch)
		}
		slices.Sort(times)
		return times[batches/2]
	}
	// The speed of a copy depends on the distance between its halves: the fastest of three counts.
	copySome := func(apart int) func(i int) {
		return func(i int) {
			from := a.base + uintptr(i*2*apart)
			d.fail(d.gpu.Copy(from+uintptr(apart), from, moved/2))
		}
	}
	run := func(i int) { c.run(d, x[i]) }
	median(run) // compiles the kernels and raises the clocks
	copied, ran := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for _, apart := range []int{moved / 2 &^ 255, moved/2&^(1<<21-1) + 1<<21, moved/2&^(1<<21-1) + 3<<20} {
		copied = min(copied, median(copySome(apart)))
		for i := range x {
			for _, t := range x[i] {
				if t.DType == tensor.I32 || len(t.Shape) == 1 { // the copies overwrote indices, and made scales negative
					randomise(d, t)
				}
			}
		}
		ran = min(ran, median(run))
	}

	for b.Loop() {
	}
	rate, ceiling := float64(moved)/ran.Seconds()/1e12, float64(moved)/copied.Seconds()/1e12
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ran.Seconds()*1e6, "µs")
	b.ReportMetric(rate, "TB/s")
	b.ReportMetric(ceiling, "copy-TB/s")
	b.ReportMetric(100*rate/ceiling, "%copy")
}

// randomise fills a tensor with normal values: one block of them, repeated.
func randomise(d *Device, t tensor.Tensor) {
	if t.DType == tensor.I32 { // a row index
		rows := make([]int32, t.Len())
		for i := range rows {
			rows[i] = int32(i)
		}
		d.UploadI32(t, rows)
		return
	}
	if t.DType.Quantized() {
		t = tensor.Tensor{DType: tensor.U8, Shape: []int{t.Bytes()}, Addr: t.Addr}
	}
	if t.DType == tensor.F64 { // a sum
		d.Zero(t)
		return
	}
	block := t.View(t.Len()).Slice(0, min(t.Len(), 1<<20))
	rng := rand.New(rand.NewPCG(1, 2))
	if t.DType == tensor.U8 { // codes
		codes := make([]byte, block.Len())
		for i := range codes {
			codes[i] = byte(rng.Uint32())
		}
		d.UploadBytes(block, codes)
	} else {
		values := make([]float32, block.Len())
		for i := range values {
			values[i] = float32(rng.NormFloat64())
			if len(t.Shape) == 1 { // such as scales and second moments, which are never negative
				values[i] = float32(math.Abs(float64(values[i])))
			}
		}
		d.Upload(block, values)
	}
	for have := block.Len(); have < t.Len(); have *= 2 {
		n := min(have, t.Len()-have)
		d.Copy(t.View(t.Len()).Slice(have, have+n), t.View(t.Len()).Slice(0, n))
	}
}
