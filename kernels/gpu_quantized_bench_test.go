package kernels

import (
	"fmt"
	"slices"
	"testing"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// quantizedTypes are the types of quantized weights.
var quantizedTypes = []tensor.DType{tensor.INT8, tensor.INT4, tensor.INT4Z}

// quantizedCases returns the cases of layers with quantized weights.
func quantizedCases(t tensor.DType, dim int) (cases []gpuCase) {
	rows := func(m, n int) gpuOperand { return gpuOperand{t, []int{m, n}, 1} }
	row := func(n int) gpuOperand { return rows(1, n) }
	none, norm := tensor.Tensor{}, gpuOperand{t, []int{dim}, 1}
	cases = append(cases, gpuCase{"layer in INT8 of INT8 activations",
		[]gpuOperand{rows(128, 4*dim), rows(128, dim), {tensor.INT8, []int{4 * dim, dim}, 1}},
		func(d *Device, x []tensor.Tensor) { d.LinearINT8(x[0], x[1], x[2], none, false) }})
	for _, q := range quantizedTypes {
		w := gpuOperand{q, []int{4 * dim, dim}, 1}
		cases = append(cases,
			gpuCase{"layer in " + q.String(), []gpuOperand{row(4 * dim), row(dim), w},
				func(d *Device, x []tensor.Tensor) { d.Linear(x[0], x[1], x[2], none) }},
			gpuCase{"norm and layer in " + q.String(), []gpuOperand{row(4 * dim), row(dim), norm, w},
				func(d *Device, x []tensor.Tensor) { d.NormLinear(x[0], x[1], x[2], x[3], none, 1e-5) }},
			gpuCase{"norm, layer and SwiGLU in " + q.String(), []gpuOperand{row(2 * dim), row(dim), norm, w},
				func(d *Device, x []tensor.Tensor) { d.NormSwiGLU(x[0], x[1], x[2], x[3], none, 1e-5) }},
			gpuCase{"layer onto the stream in " + q.String(), []gpuOperand{{t, []int{1, 4 * dim}, 2}, row(dim), w},
				func(d *Device, x []tensor.Tensor) { d.LinearAdd(x[0], x[1], x[2], none) }},
			gpuCase{"layers of 4 experts in " + q.String(), // one row reads the weights of one of them
				[]gpuOperand{row(dim), row(dim), {q, w.shape, 0}, {tensor.I32, []int{5}, 1}, {q, []int{dim, dim}, 1}},
				func(d *Device, x []tensor.Tensor) { d.GroupedLinear(x[0], x[1], x[2], x[3], 1) }},
			gpuCase{"weights from " + q.String(), []gpuOperand{{t, []int{4 * dim, dim}, 1}, w},
				func(d *Device, x []tensor.Tensor) { d.DequantizeWeights(x[0], x[1]) }})
	}
	return cases
}

// BenchmarkGPUQuantized reports how fast one to eight rows times quantized weights read these, for each layer of
// Llama-3.2-1B, as a share of what a copy reads and writes. The products are a graph, in which each starts while the
// one before ends, as in decoding, and no cache holds their weights.
//
//	go test ./kernels -run '^$' -bench GPUQuantized -benchtime 1x
func BenchmarkGPUQuantized(b *testing.B) {
	d, err := Open("cuda", Options{})
	if err != nil {
		b.Skip(err)
	}
	for _, t := range append([]tensor.DType{tensor.BF16}, quantizedTypes...) {
		for _, l := range llamaLayers {
			for _, rows := range []int{1, 2, 4, 8} {
				b.Run(fmt.Sprintf("%v/%s/%d", t, l.name, rows), func(b *testing.B) {
					d.benchmarkQuantized(b, t, rows, l.in, l.out)
				})
			}
		}
	}
	if err := d.Close(); err != nil {
		b.Error(err)
	}
}

func (d *Device) benchmarkQuantized(b *testing.B, t tensor.DType, rows, in, out int) {
	var x, y tensor.Tensor
	var sets []tensor.Tensor
	lay := func(a *Arena) {
		x, y, sets = a.New("x", tensor.BF16, rows, in), a.New("y", tensor.BF16, rows, out), nil
		for bytes := 0; len(sets) < 8 || bytes < 4*d.gpu.L2; bytes += sets[0].Bytes() {
			sets = append(sets, a.New("w", t, out, in))
		}
	}
	a, err := d.NewArena("benchmark", SizeOf(lay))
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	lay(a)
	for _, w := range append(sets, x) {
		randomise(d, w)
	}
	products := func() {
		for _, w := range sets {
			d.Linear(y, x, w, tensor.Tensor{})
		}
	}
	products() // compiles
	graph := d.Capture(products)
	defer graph.Close()
	for b.Loop() {
	}
	bytes := sets[0].Bytes()
	half := len(sets) / 2 * bytes
	times := d.inTurns(b, func(int) { graph.Launch() },
		func(int) { d.fail(d.gpu.Copy(sets[0].Addr, sets[len(sets)/2].Addr, half)) })
	if err := d.Err(); err != nil {
		b.Fatal(err)
	}
	rate := float64(len(sets)*bytes) / float64(times[0].Nanoseconds())
	ceiling := 2 * float64(half) / float64(times[1].Nanoseconds())
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(times[0].Nanoseconds())/1e3/float64(len(sets)), "µs")
	b.ReportMetric(rate, "GB/s")
	b.ReportMetric(ceiling, "copy-GB/s")
	b.ReportMetric(100*rate/ceiling, "%copy")
}

// BenchmarkGPUQuantizedRows reports how fast products of quantized weights and many rows are: in one kernel, of weights
// that are dequantized first, and, for comparison, of BF16 weights; those of INT8 weights also with INT8 activations.
//
//	go test ./kernels -run '^$' -bench GPUQuantizedRows -benchtime 1x
func BenchmarkGPUQuantizedRows(b *testing.B) {
	d, err := Open("cuda", Options{})
	if err != nil {
		b.Skip(err)
	}
	for _, size := range [][2]int{{4096, 11008}, {11008, 4096}, {2048, 16384}, {2048, 3072}} {
		for _, t := range quantizedTypes {
			for _, rows := range []int{16, 128, 256, 512, 2048} {
				b.Run(fmt.Sprintf("%v/%dx%d/%d", t, size[1], size[0], rows), func(b *testing.B) {
					d.benchmarkQuantizedRows(b, t, rows, size[0], size[1])
				})
			}
		}
	}
	if err := d.Close(); err != nil {
		b.Error(err)
	}
}

func (d *Device) benchmarkQuantizedRows(b *testing.B, t tensor.DType, rows, in, out int) {
	var x, y tensor.Tensor
	var sets, plain []tensor.Tensor
	lay := func(a *Arena) {
		x, y, sets, plain = a.New("x", tensor.BF16, rows, in), a.New("y", tensor.BF16, rows, out), nil, nil
		for bytes := 0; len(sets) < 2 || bytes < 4*d.gpu.L2; bytes += sets[0].Bytes() {
			sets, plain = append(sets, a.New("w", t, out, in)), append(plain, a.New("plain", tensor.BF16, out, in))
		}
	}
	a, err := d.NewArena("benchmark", SizeOf(lay))
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	lay(a)
	for _, w := range slices.Concat(sets, plain, []tensor.Tensor{x}) {
		randomise(d, w)
	}
	product := func(w tensor.Tensor) cpu.Product {
		return cpu.Product{C: y.Matrix(), A: x.Matrix(), B: w.Matrix(), TransB: true}
	}
	for b.Loop() {
	}
	runs := []func(i int){func(i int) { d.product(product(sets[i%len(sets)])) },
		func(i int) { d.productDequantized(product(sets[i%len(sets)])) },
		func(i int) { d.product(product(plain[i%len(plain)])) }}
	if t == tensor.INT8 {
		runs = append(runs, func(i int) { d.productINT8(product(sets[i%len(sets)])) })
	}
	times := d.inTurns(b, runs...)
	if err := d.Err(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range []string{"µs", "µs-dequantized", "µs-BF16", "µs-INT8-activations"}[:len(times)] {
		b.ReportMetric(float64(times[i].Nanoseconds())/1e3, name)
	}
}
