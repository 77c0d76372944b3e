package kernels

import (
	"fmt"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// GroupedLinear is a linear layer of several experts, without biases. Each expert's rows are contiguous:
//
//	y[p] = x[p]·w[e]ᵀ,    offsets[e] ≤ p < offsets[e+1]
//
// x is [pairs, in], w [experts·out, in], the experts' matrices one below the other, y [pairs, out], and offsets I32
// [experts+1], of a Routing. All but y are of one type; y is F32, BF16 or F16. w may be quantized instead. most is the
// maximum number of rows of an expert.
func (d *Device) GroupedLinear(y, x, w, offsets tensor.Tensor, most int) {
	const op = "GroupedLinear"
	in, out := checkGrouped(op, y, x, w, offsets)
	wantWeights(op, w, x.DType, w.Rows(), in)
	d.ran("grouped_linear")
	d.grouped(cpu.Product{C: y.Matrix(), A: x.Matrix(), B: w.Slice(0, out).Matrix(), TransB: true},
		groups{kind: groupRows, offsets: offsets, most: most})
}

// GroupedSwiGLU is a GroupedLinear of gates and ups, followed by SwiGLU:
//
//	gateUp[p] = x[p]·w[e]ᵀ
//	y = SwiGLU(gateUp)
//
// x is [pairs, in], w [experts·2·inner, in], gateUp [pairs, 2·inner] and y [pairs, inner], all of one type; w may be
// quantized instead. gateUp is undefined afterwards, unless keep is set.
//
// Fused, on a GPU of compute capability 9.0, in BF16 and F16, it is one kernel, which rounds y once, and writes gateUp
// only to keep it. Otherwise it is two.
func (d *Device) GroupedSwiGLU(y, gateUp, x, w, offsets tensor.Tensor, most int, keep bool) {
	const op = "GroupedSwiGLU"
	in, out := checkGrouped(op, gateUp, x, w, offsets)
	wantWeights(op, w, x.DType, w.Rows(), in)
	want(op, "gateUp", gateUp, x.DType, x.Rows(), out)
	want(op, "y", y, x.DType, x.Rows(), out/2)
	if d.gpu != nil && d.fused("swiglu") && (most > maxFewRows || d.rowsAlone) {
		var kept tensor.Matrix
		if keep {
			kept = gateUp.Matrix()
		}
		p := cpu.Product{C: y.Matrix(), A: x.Matrix(), B: w.Slice(0, out).Matrix(), TransB: true}
		if d.wgmmaGroups(p, kept, true, groups{kind: groupRows, offsets: offsets, most: most}) {
			d.ran("grouped_linear")
			d.ran("swiglu")
			return
		}
	}
	d.GroupedLinear(gateUp, x, w, offsets, most)
	d.SwiGLU(y, gateUp)
}

// GroupedLinearBackward computes the gradient of GroupedLinear with respect to x:
//
//	dx[p] = dy[p]·w[e]
//
// dy is [pairs, out], dx [pairs, in]; the rest is as in GroupedLinear.
func (d *Device) GroupedLinearBackward(dx, dy, w, offsets tensor.Tensor, most int) {
	const op = "GroupedLinearBackward"
	_, out := checkGrouped(op, dy, dx, w, offsets)
	floating(op, "w", w)
	d.ran("grouped_linear_dx")
	d.grouped(cpu.Product{C: dx.Matrix(), A: dy.Matrix(), B: w.Slice(0, out).Matrix()},
		groups{kind: groupRows, offsets: offsets, most: most})
}

// GroupedLinearGradient computes the gradient of GroupedLinear with respect to rows of w from row from on, or adds it
// to dw. The rows are whole experts, or some rows of one expert. The gradient of an expert without rows is 0.
//
//	dw[e] = Σ_p dy[p]ᵀ·x[p]    or    dw[e] += …
//
// dy is [pairs, out] and x [pairs, in] of its type; dw is [n, in], F32, BF16 or F16.
func (d *Device) GroupedLinearGradient(dw, dy, x, offsets tensor.Tensor, from int, add bool) {
	const op = "GroupedLinearGradient"
	floating(op, "dy", dy)
	floating(op, "dw", dw)
	in, out, n := x.Dim(-1), dy.Dim(-1), dw.Rows()
	want(op, "x", x, dy.DType, dy.Rows(), in)
	want(op, "dw", dw, dw.DType, n, in)
	first := from / out
	experts := n / out
	rows := out
	at := 0
	if n%out != 0 || from%out != 0 {
		experts, rows, at = 1, n, from%out
	}
	if at+rows > out || first+experts >= offsets.Len() {
		panic(fmt.Sprintf("%s: rows %d to %d: must be whole experts of %d, or part of one", op, from, from+n, out))
	}
	d.ran("grouped_linear_dw")
	d.grouped(cpu.Product{C: dw.Slice(0, rows).Matrix(), A: dy.Columns(at, at+rows), TransA: true, B: x.Matrix(),
		Add: add}, groups{kind: groupDepth, offsets: offsets.Part(first, experts+1)})
}

// checkGrouped returns the sizes of an expert's layer. It panics unless the shapes agree.
func checkGrouped(op string, y, x, w, offsets tensor.Tensor) (in, out int) {
	for _, t := range []tensor.Tensor{y, x} {
		floating(op, "an operand", t)
	}
	in, out = x.Dim(-1), y.Dim(-1)
	want(op, "offsets", offsets, tensor.I32, offsets.Len())
	if y.Rows() != x.Rows() || w.Dim(-1) != in || w.Rows() != (offsets.Len()-1)*out {
		panic(fmt.Sprintf("%s: shapes do not agree: from %v through %v to %v with %d experts", op, x, w, y, offsets.Len()-1))
	}
	return in, out
}

// groups are the products of experts as a batch: each product has the rows of a and c, or the depth, of one expert.
type groups struct {
	kind    groupKind     // 0: there are none
	offsets tensor.Tensor // I32 [experts+1]
	most    int           // rows of an expert, at most
	flops   float64       // of all products; 0: as many as for all rows
}

// operations returns the FLOPs of the products of p.
func (of groups) operations(p cpu.Product) float64 {
	if of.flops > 0 {
		return of.flops
	}
	return operations(p)
}

// A groupKind says what the rows of an expert are in its product, numbered as in group.cuh.
type groupKind int

const (
	groupRows  groupKind = 1 // rows of a and c; each expert has its own b
	groupDepth groupKind = 2 // the depth; each expert has its own c
)

// grouped computes the product of each expert. p has all rows, and the matrix of the first expert, which the other
// experts' matrices follow. A GPU does it in one launch, in which thread blocks find the rows of their expert: the host
// does not know how many there are. If an expert has up to eight rows, each row streams the expert's weights, which is
// fast for the rows of one token. On compute capability 9.0, product_wgmma*.cu compute what they can; elsewhere, there
// are thread blocks for as many rows of each expert as there can be.
func (d *Device) grouped(p cpu.Product, of groups) {
	experts := of.offsets.Len() - 1
	apart := p.B.Rows * p.B.Cols
	if of.kind == groupDepth {
		apart = p.C.Rows * p.C.Cols
	}
	one := p // row
	one.A.Rows, one.C.Rows = 1, 1
	switch {
	case d.gpu == nil:
		d.eachGroup(p, of, apart)
		return
	case p.C.Rows > 0 && of.kind == groupRows && of.most <= maxFewRows && d.fewRows(one):
		d.matvec(one, rowNorm{}, false, expertRows{p.C.Rows, of.offsets})
		return
	case p.B.DType.Quantized():
		d.groupedQuantized(p, of)
		return
	case d.wgmmaGroups(p, tensor.Matrix{}, false, of): // queued
		return
	}
	of.flops = of.operations(p)
	mean := p.C.Rows
	if p.Batch[0] = (cpu.Batch{N: experts, C: apart}); of.kind == groupRows {
		p.Batch[0] = cpu.Batch{N: experts, B: apart}
		mean, p.C.Rows = blocks(p.C.Rows, experts), of.most
	}
	if p.C.Rows == 0 || p.C.Cols == 0 || experts == 0 {
		return
	}
	tiles := tilesFor(p)
	t := tiles[len(tiles)-1]
	for _, larger := range tiles {
		if larger.m <= mean && !d.rowsAlone {
			t = larger
			break
		}
	}
	d.tiledGroups(p, t, 1, of)
}

// groupedQuantized is grouped for quantized weights on a GPU, which are dequantized first: the weights of some experts
// at a time, or some rows of one expert's.
func (d *Device) groupedQuantized(p cpu.Product, of groups) {
	if p.C.Rows == 0 {
		return
	}
	defer d.release(d.mark())
	experts, out := of.offsets.Len()-1, p.B.Rows
	w := groupedScratch(d.scratch, p.A.DType, experts*out, p.B.Cols)
	some := max(1, w.Rows()/out) // experts at a time
	n := min(out, w.Rows())      // rows of each
	for first := 0; first < experts; first += some {
		for from := 0; from < out; from += n {
			part, group, rows := p, of, min(some, experts-first)*min(n, out-from)
			part.B.Addr += uintptr((first*out + from) * p.B.DType.RowBytes(p.B.Cols))
			part.B.Rows = rows
			d.dequantizeRows(w.Slice(0, rows), part.B, tensor.Tensor{})
			part.B = w.Slice(0, min(n, out-from)).Matrix()
			part.C.Addr += uintptr(from * p.C.DType.Size())
			part.C.Cols = part.B.Rows
			group.flops = 2 * float64(p.C.Rows) * float64(rows) * float64(p.B.Cols) / float64(experts)
			group.offsets = of.offsets.Part(first, min(some, experts-first)+1)
			d.grouped(part, group)
		}
	}
}

// groupedScratch lays out dequantized rows of experts' weights on a GPU.
func groupedScratch(cut cut, t tensor.DType, rows, in int) tensor.Tensor {
	most := gpuDequantizedBytes / (in * t.Size()) / minDequantizedRows * minDequantizedRows
	return cut("dequantized experts", t, min(rows, max(minDequantizedRows, most)), in)
}

// eachGroup is grouped on the CPU. apart is the number of elements from one expert's matrix to the next.
func (d *Device) eachGroup(p cpu.Product, of groups, apart int) {
	own := func(x tensor.Matrix, e int) tensor.Matrix {
		bytes := apart * x.DType.Size()
		if x.DType.Quantized() {
			bytes = x.Rows * x.DType.RowBytes(x.Cols)
		}
		x.Addr += uintptr(e * bytes)
		return x
	}
	at := of.offsets.I32()
	for e := range len(at) - 1 {
		q, lo, hi := p, int(at[e]), int(at[e+1])
		q.A = rowsBetween(p.A, lo, hi)
		if of.kind == groupDepth {
			q.B, q.C = rowsBetween(p.B, lo, hi), own(p.C, e)
		} else {
			q.B, q.C = own(p.B, e), rowsBetween(p.C, lo, hi)
		}
		if q.B.DType.Quantized() {
			d.productQuantized(q)
			continue
		}
		d.gemm(q)
	}
}
