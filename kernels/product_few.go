package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// maxFewAlone and maxFewCoded are the maximum numbers of rows that product_few multiplies, the latter by quantized
// weights: on an H200, a step of 32 rows of Llama-3.2-1B took 3% less time with product_wgmma, and a step of 64 rows of
// an 8B model in INT4 17% less.
const maxFewAlone, maxFewCoded = 16, 32

// A thread block of product_few has up to maxFewWarps warps that multiply, each fewRows rows of weights, and up to
// fewStages steps in shared memory.
const maxFewWarps, fewRows, fewStages = 16, 16, 32

// maxShared is the size in bytes of the shared memory that a thread block may have on compute capability 9.0.
const maxShared = 227 << 10

// few computes a product of a few rows while rows are alone, if it can: with product_few, which gives the same bits as
// product_wgmma with t.
func (d *Device) few(p cpu.Product, gated bool, t wgmmaTile) bool {
	coded, c, most := p.B.DType.Quantized(), p.B.DType.Coding(), maxFewAlone
	if coded {
		most = maxFewCoded
	}
	if p.C.Rows > most || !p.TransB {
		return false
	}
	depth64, row := 1, 2*wgmmaDepth // of a step: blocks of 64 along k, and bytes of a row of weights
	if coded {
		row = wgmmaDepth
		if c.Bits < 8 {
			depth64 = 2
		}
	}
	m, n, k := p.C.Rows, p.C.Cols, depth(p)
	steps := blocks(k, depth64*wgmmaDepth)
	partSteps, count := steps, 1
	if t.partSteps > 0 {
		partSteps = t.partSteps / depth64
		count = blocks(steps, partSteps)
	}
	outputs := fewRows
	if gated {
		outputs /= 2
	}
	// As few warps as there can be, if each multiprocessor computes as many tiles one after the other. Then each has as
	// few rows as there are warps for all.
	all := count * blocks(n, outputs)
	warps := blocks(all, d.gpu.SMs*blocks(all, d.gpu.SMs*maxFewWarps))
	each := 1 // tiles of eight rows; up to maxFewCoded/8
	for warps*blocks(m, 8*each) > maxFewWarps {
		each *= 2
	}
	stage := fewRows*warps*row + 8*each*blocks(m, 8*each)*depth64*2*wgmmaDepth
	stages := min(fewStages, (maxShared-1024)/(stage+16))
	across := blocks(n, outputs*warps)
	g := line(min(d.gpu.SMs, count*across), 32*(maxFewWarps+2))
	g.shared, g.ahead = 1024+stages*(stage+16), !d.isScratch(p.B) && !d.isScratch(p.B2)
	var parts tensor.Matrix
	if count > 1 {
		parts = d.parts(blocks(m, 8*each)*across*warps, count*each*8*fewRows, 1)
		if parts.Rows*32 > maxArrived {
			return false
		}
	}
	act := p.Act
	if gated {
		act = cpu.ActSiLU
	}
	how := withPair(p, define(result(p.C), macro{"TILES", each}, macro{"GATED", number(gated)}, macro{"ACT", int(act)}))
	codes, columns := tensor.Matrix{}, wgmmaDepth // of a tile of weights
	if coded {
		how, codes, columns = codingOf(p.B.DType, how), p.B, wgmmaDepth/2
	}
	rows := 8 * blocks(m, 8)
	a, b := d.tileMap(p.A, rows, wgmmaDepth), d.tileMap(wgmmaWeights(p.B), outputs*warps, columns)
	a2, b2 := a, b
	if hasPair(p) {
		a2, b2 = d.tileMap(p.A2, rows, wgmmaDepth), d.tileMap(p.B2, outputs*warps, columns)
	}
	d.sized(m, n*(1+number(gated)), k)
	d.next.flops = operations(p) * float64(1+number(gated))
	d.launch(kernel{"product_few.cu", "product_few", halfOf(p, how)}, g,
		tiles(a, p.A), tiles(b, p.B), tiles(a2, p.A2), tiles(b2, p.B2), addrOf(p.C).twice(p.Add), i64(p.C.Stride),
		address(p.Bias), address(codes.Addr), addrOf(parts), address(d.gpu.arrived.Addr), i32(m), i32(n), i32(k),
		i32(p.A2.Cols), i32(partSteps), i32(warps), i32(stages), flag(p.Add), flag(g.ahead))
	return true
}

// isScratch reports whether a matrix is in scratch memory: not weights, but made by an earlier kernel.
func (d *Device) isScratch(x tensor.Matrix) bool {
	for _, a := range d.scratchArenas {
		if x.Addr-a.base < uintptr(a.size) {
			return true
		}
	}
	return false
}
