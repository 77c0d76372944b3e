package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// Linear layers of a model for inference may have quantized weights, of type INT8, INT4, INT4Z, NF4, or one of GGUF's
// Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K: see tensor.Coding. Linear, LinearAdd, LinearSwiGLU, NormLinear,
// NormSwiGLU and GroupedLinear take such a w, and Embedding such a table. LinearBackward and the gradients of layers
// after activations also take it: other weights are the ones that are trained. Activations, biases and results are as
// with other weights. Package quant makes quantized weights.
//
// For up to eight rows, each weight is read once and stays exact: a group's codes are multiplied by the activations,
// and the float32 sum by the group's scale; the group's offset multiplies the sum of the activations. With AVX2, and
// with AVX-512 for F16 or without BF16, INT4's codes are multiplied as integers, by the activations of the group as
// multiples of a power of two: activations below a 128th of the largest, an eighth in F16, are rounded by up to 2⁻¹⁵ of
// it. With AVX2 and AVX-512, the codes of all of GGUF's types are multiplied in the same way. NF4's values are numbers
// of the table times the scale, in float32 on a CPU, and rounded to BF16 on a GPU. For more rows, weights are first
// rounded to the type of x, some thousand rows of w at a time, and then multiplied like other weights. For up to 384
// rows in BF16, a GPU of compute capability 9.0 does both in one kernel, except for NF4, and does not store them;
// INT8's codes stay exact there, and their scales multiply the sums. SetINT8Activations replaces some of these products
// by LinearINT8's. With SetRowsAlone, weights are also rounded for few rows, and such a GPU's one kernel computes any
// number of rows.

// maxFewRows is the maximum number of rows that are multiplied without dequantizing the weights first.
const maxFewRows = 8

// minDequantizedRows rows of weights are dequantized at once, or as many more as fit in dequantizedBytes, which is what
// a CPU's caches hold. A GPU has gpuDequantizedBytes, because only a large product keeps it busy.
const minDequantizedRows = 64

var dequantizedBytes, gpuDequantizedBytes = 8 << 20, 64 << 20 // tests set them

// productQuantized is product for a quantized B.
func (d *Device) productQuantized(p cpu.Product) {
	switch {
	case p.C.Rows == 0 || p.C.Cols == 0: // nothing to compute
	case !p.TransB:
		d.gradientDequantized(p)
	case d.gpu != nil && d.fewRows(p):
		d.matvec(p, rowNorm{}, false, expertRows{})
	case d.codesActivations(p):
		d.productINT8(p)
	case d.gpu == nil && p.A.Rows <= maxFewRows && !d.rowsAlone:
		d.fewQuantized(p)
	case d.gpu == nil && d.rowsAlone && cpu.GemmCoded(p): // computed
	case d.gpu != nil && d.wgmma(p, tensor.Matrix{}, false): // queued
	case d.rowsAlone && hasPair(p) && d.hasWGMMA() && !isStored(p.B.DType) && p.C.DType == tensor.BF16:
		d.productCodedAndPair(p)
	default:
		d.productDequantized(p)
	}
}

// maxPairedRows is the maximum number of rows whose sums productCodedAndPair has in scratch memory.
const maxPairedRows = 512

// productCodedAndPair adds up the products in float32, of some rows at a time: the kernel that computes values of
// weights as it multiplies takes no pair, and storing all of the values takes longer.
func (d *Device) productCodedAndPair(p cpu.Product) {
	defer d.release(d.mark())
	all := pairedSumsScratch(d.scratch, p.C.Rows, p.C.Cols)
	for from := 0; from < p.C.Rows; from += maxPairedRows {
		to := min(from+maxPairedRows, p.C.Rows)
		sums := all.Slice(0, to-from)
		first, second := p, cpu.Product{C: sums.Matrix(), A: rowsBetween(p.A2, from, to), B: p.B2, TransB: true, Add: true}
		first.C, first.A, first.Add = sums.Matrix(), rowsBetween(p.A, from, to), false
		first.A2, first.B2 = tensor.Matrix{}, tensor.Matrix{}
		d.product(first)
		d.product(second)
		d.storeSums(rowsBetween(p.C, from, to), sums, p.Add)
	}
}

// pairedSumsScratch lays out the sums of some of the rows of a layer with out outputs.
func pairedSumsScratch(cut cut, rows, out int) tensor.Tensor {
	return cut("sums", tensor.F32, min(rows, maxPairedRows), out)
}

// productDequantized computes the weights first, some rows at a time.
func (d *Device) productDequantized(p cpu.Product) {
	defer d.release(d.mark())
	w := d.dequantizedScratch(d.scratch, p.A.DType, p.B.Rows, p.B.Cols)
	for step, from := rowsAtOnce(w, p.B.Rows), 0; from < p.B.Rows; from += step {
		n := min(step, p.B.Rows-from)
		part := p
		part.B = d.dequantized(w, p.B, from, n)
		part.C.Addr += uintptr(from * p.C.DType.Size())
		part.C.Cols = n
		if hasPair(p) {
			part.B2 = rowsBetween(p.B2, from, from+n)
		}
		if p.Bias != 0 {
			part.Bias += uintptr(from * p.A.DType.Size())
		}
		d.product(part)
	}
}

// gradientDequantized is productDequantized for A·B, the gradient of a layer's input. If the values of B's rows do not
// fit at once, each part of them adds to all of C: meanwhile the sums are kept in float32, for some rows of C at a
// time.
func (d *Device) gradientDequantized(p cpu.Product) {
	defer d.release(d.mark())
	c, out, in := p.C, p.B.Rows, p.B.Cols
	w := d.dequantizedScratch(d.scratch, p.A.DType, out, in)
	if w.Rows() == out {
		p.B = d.dequantized(w, p.B, 0, out)
		d.product(p)
		return
	}
	sums := d.scratch("sums", tensor.F32, min(c.Rows, maxGateUpRows), in)
	step := rowsAtOnce(w, out)
	for top := 0; top < c.Rows; top += sums.Rows() {
		end := min(top+sums.Rows(), c.Rows)
		sums := sums.Slice(0, end-top)
		part := cpu.Product{C: sums.Matrix(), A: rowsBetween(p.A, top, end)}
		if hasPair(p) {
			part.A2, part.B2 = rowsBetween(p.A2, top, end), p.B2
		}
		for from := 0; from < out; from += step {
			part.Add = from > 0
			part.A.Cols = min(step, out-from)
			part.B = d.dequantized(w, p.B, from, part.A.Cols)
			d.product(part)
			part.A.Addr += uintptr(step * p.A.DType.Size())
			part.A2, part.B2 = tensor.Matrix{}, tensor.Matrix{} // the first part has added them
		}
		d.storeSums(rowsBetween(c, top, end), sums, p.Add)
	}
}

// gradientScratch lays out as much as gradientDequantized takes for layers with up to in inputs.
func (d *Device) gradientScratch(cut cut, t tensor.DType, rows, in int) {
	d.mostDequantized(cut, t, in)
	rows = min(rows, maxGateUpRows)
	cut("sums", tensor.F32, rows, in)
	cut("rounded sums", t, rows, in)
}

// storeSums rounds sums, which are F32, into y, or adds them rounded. Rows of y follow each other.
func (d *Device) storeSums(y tensor.Matrix, sums tensor.Tensor, add bool) {
	if !add {
		d.storeRows(y, sums)
		return
	}
	defer d.release(d.mark())
	rounded := d.scratch("rounded sums", y.DType, y.Rows, y.Cols)
	d.storeRows(rounded.Matrix(), sums)
	all := tensor.Tensor{DType: y.DType, Shape: rounded.Shape, Addr: y.Addr}
	d.Add(all, all, rounded)
}

// rowsBetween returns the rows lo to hi of x, excluding hi.
func rowsBetween(x tensor.Matrix, lo, hi int) tensor.Matrix {
	x.Addr += uintptr(lo * x.Stride * x.DType.Size())
	x.Rows = hi - lo
	return x
}

// dequantized computes the values of n rows of b from row from on, in w, and returns them.
func (d *Device) dequantized(w tensor.Tensor, b tensor.Matrix, from, n int) tensor.Matrix {
	b.Addr += uintptr(from * b.DType.RowBytes(b.Cols))
	b.Rows = n
	w = w.Slice(0, n)
	d.dequantizeRows(w, b, tensor.Tensor{})
	return w.Matrix()
}

// dequantizedScratch lays out dequantized rows of w.
func (d *Device) dequantizedScratch(cut cut, t tensor.DType, rows, in int) tensor.Tensor {
	return cut("dequantized", t, min(rows, max(minDequantizedRows, d.maxDequantized()/(in*t.Size()))), in)
}

// rowsAtOnce returns how many rows of weights are dequantized in w at a time: all, or a multiple of a tile's, so that
// no product of a part has a ragged tile.
func rowsAtOnce(w tensor.Tensor, all int) int {
	n := w.Rows()
	if n == all {
		return n
	}
	return n / minDequantizedRows * minDequantizedRows
}

// maxDequantized returns the device's dequantizedBytes.
func (d *Device) maxDequantized() int {
	if d.gpu != nil {
		return gpuDequantizedBytes
	}
	return dequantizedBytes
}

// mostDequantized lays out as much as dequantizedScratch and groupedScratch take for layers with up to in inputs:
// layers with fewer inputs may fill it better.
func (d *Device) mostDequantized(cut cut, t tensor.DType, in int) {
	cut("dequantized", tensor.U8, max(d.maxDequantized(), minDequantizedRows*in*t.Size()))
}

// fewRowsScratch lays out a copy of up to eight rows of x, of type t, on the CPU: see cpu.FewQuantized. Smaller groups
// than INT4's are multiplied by words or by F32.
func fewRowsScratch(cut cut, t, weights tensor.DType, rows, in int) tensor.Tensor {
	group := weights.Coding().Group
	if t != tensor.BF16 || group > 0 && group < tensor.GroupSize || cpu.Current() < cpu.AVX512BF16 {
		t = tensor.F32
	}
	return cut("padded x", t, rows, tensor.INT4.Groups(in)*tensor.GroupSize)
}

// fewQuantized multiplies few rows on the CPU.
func (d *Device) fewQuantized(p cpu.Product) {
	defer d.release(d.mark())
	x, w, bias := operandsOf(p)
	padded := fewRowsScratch(d.scratch, x.DType, w.DType, p.A.Rows, p.A.Cols)
	var more tensor.Tensor
	if hasPair(p) {
		more = d.scratch("sums of the pair", tensor.F32, p.C.Rows, p.C.Cols)
		cpu.Gemm(cpu.Product{C: more.Matrix(), A: p.A2, B: p.B2, TransB: true})
	}
	cpu.FewQuantized(p.C, x, w, more, bias, padded, p.Add)
}

// operandsOf returns the operands of a product of quantized weights. Rows of A follow each other.
func operandsOf(p cpu.Product) (x, w, bias tensor.Tensor) {
	x = tensor.Tensor{DType: p.A.DType, Shape: []int{p.A.Rows, p.A.Cols}, Addr: p.A.Addr}
	w = tensor.Tensor{DType: p.B.DType, Shape: []int{p.B.Rows, p.B.Cols}, Addr: p.B.Addr}
	if p.Bias != 0 {
		bias = tensor.Tensor{DType: p.A.DType, Shape: []int{p.B.Rows}, Addr: p.Bias}
	}
	return x, w, bias
}

// dequantizeRows computes the values of the rows of w that index lists, or of all rows, rounded to the type of y.
func (d *Device) dequantizeRows(y tensor.Tensor, w tensor.Matrix, index tensor.Tensor) {
	from := tensor.Tensor{DType: w.DType, Shape: []int{w.Rows, w.Cols}, Addr: w.Addr}
	if d.gpu == nil {
		cpu.DequantizeRows(y, from, index)
		return
	}
	in, rows, to := w.Cols, y.Rows(), y.Matrix()
	width, words := 1, w.DType.LowBytes(in)/4
	if in%4 == 0 {
		width = 4
	}
	how := codingOf(w.DType, define(macro{to.DType.String(), 1}, macro{"WIDTH", width}))
	d.launch(kernel{"op_quantized.cu", "dequantize_rows", how}, each(rows*words),
		addr(y), address(from.Addr).moves(rows*w.DType.RowBytes(in)), addr(index), i32(rows), i32(in))
}

// DequantizeWeights computes the values of quantized weights, rounded to the type of y: code · scale is one float32
// product, and adding an offset is one sum.
//
// w is [out, in] of a quantized type, y is [out, in], F32, BF16 or F16.
func (d *Device) DequantizeWeights(y, w tensor.Tensor) {
	const op = "DequantizeWeights"
	floating(op, "y", y)
	wantQuantized(op, "w", w)
	want(op, "y", y, y.DType, w.Rows(), w.Dim(-1))
	d.ran("dequantize_weights")
	d.dequantizeRows(y, w.Matrix(), tensor.Tensor{})
}

// maxFineGroup is the size of the largest groups that are fine: the lanes of a product's step have several.
const maxFineGroup = 32

// fine reports whether a quantized type has fine groups.
func fine(t tensor.DType) bool {
	group := t.Coding().Group
	return group > 0 && group <= maxFineGroup
}

// codingOf adds the macros of a quantized type: see include/quantized.cuh.
func codingOf(t tensor.DType, m macros) macros {
	c := t.Coding()
	m = m.with("BITS", c.Bits).with("ZEROS", number(c.Zeros))
	if c.Table != nil {
		m = m.with("TABLE", 1)
	}
	if !fine(t) {
		return m
	}
	m = m.with("GROUP", c.Group)
	for _, one := range []macro{{"UNIT", c.Unit}, {"OFFSETS", number(c.Offsets)}, {"ZERO", c.Zero}} {
		if one.value != 0 {
			m = m.with(one.name, one.value)
		}
	}
	return m
}
