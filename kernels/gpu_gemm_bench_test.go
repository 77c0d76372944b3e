package kernels

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// productCases returns the products that TestCompile compiles: a layer's output with a bias, the gradients of its input
// and of its weight, the outputs of one row and of few rows of many columns, for which k is split, and every tile in
// one of the layouts.
func productCases(t tensor.DType, rows, dim int) (cases []gpuCase) {
	add := func(rows, in int, run func(d *Device, p [3]cpu.Product)) {
		x, w, y := gpuOperand{t, []int{rows, in}, 1}, gpuOperand{t, []int{dim, in}, 1}, gpuOperand{t, []int{rows, dim}, 1}
		cases = append(cases, gpuCase{"products", []gpuOperand{x, w, y, {t, []int{dim}, 1}, w},
			func(d *Device, x []tensor.Tensor) {
				p := layerProducts(x[0], x[1], x[2], x[4])
				p[0].Bias = x[3].Addr
				run(d, p)
			}})
	}
	first := func(d *Device, p [3]cpu.Product) { d.product(p[0]) }
	add(rows, dim, func(d *Device, p [3]cpu.Product) {
		for _, p := range p {
			d.product(p)
		}
	})
	add(rows, dim, func(d *Device, p [3]cpu.Product) {
		for act := range SiLU {
			p[0].Act = act + 1
			d.product(p[0])
		}
		if t.Half() && dim%8 == 0 {
			d.tiled(p[0], tensorTiles[0], 1)
		}
	})
	add(1, dim, first)
	add(32, 8*dim, first)
	for i, tile := range tensorTiles {
		if !t.Half() || dim%8 > 0 {
			break // there are no tensor cores, or only the smallest tile is ever chosen
		}
		add(rows, dim, func(d *Device, p [3]cpu.Product) { d.tiled(p[i%3], tile, 1) })
	}
	for i, tile := range slices.Concat(wgmmaTiles, wgmmaQuantizedTiles) {
		if !t.Half() || dim%8 > 0 {
			break
		}
		add(rows, dim, func(d *Device, p [3]cpu.Product) {
			if d.gpu.Major != 9 && d.gpu.launched == nil || tile.pieces > 0 && t != tensor.BF16 {
				return
			}
			if tile.pieces > 0 { // quantized weights take less memory, and any bits are a number
				p[0].B.DType = quantizedTypes[i%3]
			}
			c := codedOf(p)
			gated := p[0]
			gated.C.Cols /= 2
			p[0].Act = []cpu.Activation{SiLU, GELUTanh, cpu.NoActivation, GELUExact}[i%4]
			for _, tile.turns = range []bool{false, true}[:1+number(tile.inTurns())] {
				d.wgmmaTiled(p[0], p[0].C, true, false, tile, coded{})
				if tile.pieces == 0 {
					tile.partSteps = blocks(c.A.Cols, 4*wgmmaDepth) // half of the steps
					d.wgmmaTiled(c.pairs(), c.C, false, false, tile, c)
					tile.partSteps = 0
				}
				if _, atOnce := tile.out(true); atOnce > 0 {
					d.wgmmaTiled(gated, p[0].A, true, true, tile, coded{})
					if of := c; tile.pieces == 0 {
						of.C = gated.C
						d.wgmmaTiled(of.pairs(), p[0].A, true, true, tile, of)
					}
				}
				if t == tensor.BF16 && tile.pieces == 0 && d.gpu.launched != nil { // there are no numbers of rows
					q, of := p[0], tile
					q.Act, of.groups = cpu.NoActivation, groups{kind: groupRows, offsets: tensor.Tensor{Shape: []int{3}}}
					d.wgmmaTiled(q, q.C, false, false, of, coded{})
					if _, atOnce := tile.out(true); atOnce > 0 {
						d.wgmmaTiled(gated, p[0].A, true, true, of, coded{})
					}
				}
				for _, q := range p[1:] {
					if tile.pieces == 0 && tile.columns%64 == 0 {
						d.wgmmaTiled(q, q.C, false, false, tile, coded{})
					}
				}
				if q := p[1]; tile.pieces == 0 && tile.columns%64 == 0 {
					of := tile
					of.gradient, q.Pre = true, p[0].C.Addr // of the size of C
					q.Act = []cpu.Activation{GELUExact, GELUTanh, GELUTanh, SiLU}[i%4]
					d.wgmmaTiled(q, q.C, false, false, of, coded{})
					q.Act, q.C.Cols = actSwiGLU, q.C.Cols/2&^7
					q.B.Cols = q.C.Cols
					ups := q.C
					ups.Addr += uintptr(ups.Cols * ups.DType.Size())
					d.wgmmaTiled(q, ups, false, false, of, coded{})
				}
			}
		})
	}
	return cases
}

// codedOf returns the product of a layer's output in codes: any bits are codes, and they take less memory than x, w and
// dw.
func codedOf(p [3]cpu.Product) coded {
	c := coded{Product: p[0]}
	c.B.DType = tensor.INT8
	c.codes = tensor.Tensor{DType: tensor.U8, Shape: []int{c.A.Rows, c.A.Cols}, Addr: c.A.Addr}
	c.scales = tensor.Tensor{DType: tensor.F32, Shape: []int{c.A.Rows}, Addr: p[2].C.Addr}
	return c
}

// layerProducts returns the products of a layer: y, dx and dw. dx uses the memory of x, and dy that of y.
func layerProducts(x, w, y, dw tensor.Tensor) [3]cpu.Product {
	return [3]cpu.Product{
		{C: y.Matrix(), A: x.Matrix(), B: w.Matrix(), TransB: true},
		{C: x.Matrix(), A: y.Matrix(), B: w.Matrix()},
		{C: dw.Matrix(), A: y.Matrix(), TransA: true, B: x.Matrix()},
	}
}

// llamaLayers are the linear layers of Llama-3.2-1B.
var llamaLayers = []struct {
	name    string
	in, out int
}{{"qkv", 2048, 3072}, {"o", 2048, 2048}, {"gateUp", 2048, 16384}, {"down", 8192, 2048}, {"head", 2048, 128256}}

// BenchmarkGPUProduct reports the TFLOP/s of every product of Llama-3.2-1B with our own kernels and, in turns, with
// cuBLASLt if it is installed. Data are random, and several sets of operands take turns.
//
//	go test ./kernels -run '^$' -bench 'GPUProduct$' -benchtime 1x
func BenchmarkGPUProduct(b *testing.B) {
	benchmarkProducts(b, []int{128, 512, 2048, 16384}, func(b *testing.B, d *Device, of func(i int) cpu.Product) {
		own := func(i int) {
			p := of(i)
			if d.wgmma(p, tensor.Matrix{}, false) {
				return
			}
			t, parts := d.gpu.tiling(p)
			d.tiled(p, t, parts)
		}
		theirs := func(i int) { d.gpu.blas.multiply(d, of(i)) }
		times := d.inTurns(b, own, theirs)
		ours, blas := teraflops(of(0), times[0]), teraflops(of(0), times[1])
		b.ReportMetric(ours, "TFLOP/s")
		if d.gpu.blas != nil {
			b.ReportMetric(blas, "cuBLASLt-TFLOP/s")
			b.ReportMetric(100*ours/blas, "%cuBLASLt")
		}
	})
}

// BenchmarkGPUTiles reports the TFLOP/s of every product at 2,048 rows with each of the tiles; the tiles' rates are
// derived from them.
//
//	go test ./kernels -run '^$' -bench 'GPUTiles$' -benchtime 1x
func BenchmarkGPUTiles(b *testing.B) {
	benchmarkProducts(b, []int{2048}, func(b *testing.B, d *Device, of func(i int) cpu.Product) {
		var runs []func(i int)
		for _, tile := range tensorTiles {
			runs = append(runs, func(i int) { d.tiled(of(i), tile, 1) })
		}
		times := d.inTurns(b, runs...)
		for i, tile := range tensorTiles {
			b.ReportMetric(teraflops(of(0), times[i]), fmt.Sprintf("TFLOP/s-%dx%d", tile.m, tile.n))
		}
	})
}

// BenchmarkGPUMatVec reports how fast products of a few rows read the weights of each layer of Llama-3.2-1B, in GB/s,
// and as a share of what a copy reads and writes.
//
//	go test ./kernels -run '^$' -bench 'GPUMatVec$' -benchtime 1x
func BenchmarkGPUMatVec(b *testing.B) {
	benchmarkProducts(b, []int{1, 2, 4, 8}, func(b *testing.B, d *Device, of func(i int) cpu.Product) {
		p := of(0)
		if !p.TransB {
			b.Skip("a gradient")
		}
		bytes := p.B.Rows * p.B.Stride * p.B.DType.Size()
		times := d.inTurns(b, func(i int) { d.product(of(i)) },
			func(i int) { d.fail(d.gpu.Copy(of(i).B.Addr, of(i+1).B.Addr, bytes)) })
		rate, ceiling := float64(bytes)/float64(times[0].Nanoseconds()), float64(2*bytes)/float64(times[1].Nanoseconds())
		b.ReportMetric(rate, "GB/s")
		b.ReportMetric(ceiling, "copy-GB/s")
		b.ReportMetric(100*rate/ceiling, "%copy")
	})
}

// benchmarkProducts calls f with every product of every layer in BF16. There are so many sets of operands that no cache
// holds them; the argument of f's function selects one.
func benchmarkProducts(b *testing.B, rows []int, f func(b *testing.B, d *Device, of func(i int) cpu.Product)) {
	d, err := Open("cuda", Options{})
	if err != nil {
		b.Skip(err)
	}
	b.Logf("%+v, NVRTC %d.%d, code for %s", d.gpu.Properties, d.gpu.compiler.Major, d.gpu.compiler.Minor, d.gpu.arch)
	for _, l := range llamaLayers {
		for _, rows := range rows {
			var sets [][3]cpu.Product
			var filled []tensor.Tensor
			cut := func(a *Arena) {
				sets, filled = nil, nil
				for bytes := 0; len(sets) < 2 || bytes < 4*d.gpu.L2; {
					x, w, dw := a.New("x", tensor.BF16, rows, l.in), a.New("w", tensor.BF16, l.out, l.in),
						a.New("dw", tensor.BF16, l.out, l.in)
					y := a.New("y", tensor.BF16, rows, l.out)
					sets, filled = append(sets, layerProducts(x, w, y, dw)), append(filled, x, w)
					bytes += x.Bytes() + w.Bytes()
				}
			}
			a, err := d.NewArena("benchmark", SizeOf(cut))
			if err != nil {
				b.Fatal(err)
			}
			cut(a)
			for i, name := range []string{"y", "dx", "dw"} {
				b.Run(fmt.Sprintf("%s/%d/%s", l.name, rows, name), func(b *testing.B) {
					for _, x := range filled {
						randomise(d, x)
					}
					for b.Loop() { // b.Loop resets what was reported before
					}
					b.ReportMetric(0, "ns/op")
					f(b, d, func(set int) cpu.Product { return sets[set%len(sets)][i] })
				})
			}
			if err := a.Close(); err != nil {
				b.Error(err)
			}
		}
	}
	if err := d.Close(); err != nil {
		b.Error(err)
	}
}

// inTurns returns how long each of several functions takes: the median of batches that take turns. Each function gets
// the number of its run.
func (d *Device) inTurns(b *testing.B, runs ...func(i int)) []time.Duration {
	const batches = 7
	times, n := make([][]time.Duration, len(runs)), make([]int, len(runs))
	batch := func(i, n int) time.Duration {
		t, err := d.gpu.Time(func() {
			for j := range n {
				runs[i](j)
			}
		})
		if err != nil {
			b.Fatal(err)
		}
		return t
	}
	for i := range runs {
		batch(i, 3) // compiles the kernels and raises the clocks
		n[i] = 1 + int(10*time.Millisecond/max(time.Microsecond, batch(i, 1)))
	}
	for range batches {
		for i := range runs {
			times[i] = append(times[i], batch(i, n[i])/time.Duration(n[i]))
		}
	}
	medians := make([]time.Duration, len(runs))
	for i := range runs {
		slices.Sort(times[i])
		medians[i] = times[i][batches/2]
	}
	return medians
}

func teraflops(p cpu.Product, t time.Duration) float64 {
	return 2 * float64(p.C.Rows) * float64(p.C.Cols) * float64(depth(p)) / float64(t.Nanoseconds()) / 1e3
}
