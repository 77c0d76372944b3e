package kernels

import (
	"fmt"
	"math"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// LinearINT8 computes a linear layer with INT8 weights and activations, or adds it to y:
//
//	scale = max|x of a row| / 127
//	code  = x / scale, rounded to the nearest integer, ties to even, at most ±127; 0 if scale is 0
//	y     = Σ code · w's code · (scale · w's scale) + bias
//
// This is quantize's rule for INT8 weights, applied to activations. The sum is an int32, exact, and so the same on
// every device and instruction set. A row that has a NaN or an infinity becomes NaN. Rounding x moves y by at most half
// of scale · Σ|w| of the row of w, and as a rule by 0.5% to 1% of ‖y‖; one large element in a row increases this for
// all others.
//
// x is [rows, in], F32, BF16 or F16, w is INT8 [out, in], bias is [out] of x's type or the zero Tensor; y is
// [rows, out], F32, BF16 or F16. in is at most MaxINT8.
func (d *Device) LinearINT8(y, x, w, bias tensor.Tensor, add bool) {
	const op = "LinearINT8"
	in, out := checkLinear(op, y, x, w)
	floating(op, "x", x)
	want(op, "w", w, tensor.INT8, out, in)
	if bias.Ok() {
		want(op, "bias", bias, x.DType, out)
	}
	if in > MaxINT8 {
		panic(fmt.Sprintf("%s: %d inputs: must be at most %d", op, in, MaxINT8))
	}
	d.ran("linear_int8")
	d.productINT8(cpu.Product{C: y.Matrix(), A: x.Matrix(), B: w.Matrix(), TransB: true, Bias: bias.Addr, Add: add})
}

// MaxINT8 is the maximum number of inputs of LinearINT8: the sum of as many products of codes fits an int32 in any
// case.
const MaxINT8 = math.MaxInt32 / (127 * 127)

// int8Scratch lays out quantized rows: their codes, padded to whole tiles, their scales and the sums of their codes.
func int8Scratch(cut cut, rows, in int) (codes, scales, sums tensor.Tensor) {
	const tileRows, tileBytes = 32, 64
	up := func(n, unit int) int { return blocks(n, unit) * unit }
	return cut("codes", tensor.U8, up(rows, tileRows), up(in, tileBytes)), cut("scales", tensor.F32, rows),
		cut("sums of codes", tensor.I32, rows)
}

// productINT8 is productQuantized for LinearINT8.
func (d *Device) productINT8(p cpu.Product) {
	if p.C.Rows == 0 || p.C.Cols == 0 {
		return
	}
	if d.gpu != nil && d.wgmmaINT8(p, tensor.Matrix{}, false) {
		return
	}
	defer d.release(d.mark())
	rows, in, out := p.A.Rows, p.A.Cols, p.B.Rows
	codes, scales, sums := int8Scratch(d.scratch, rows, in)
	if d.gpu == nil {
		x, w, bias := operandsOf(p)
		cpu.LinearInt8(p.C, x, w, bias, codes, scales, sums, p.Add)
		return
	}
	const tile = 64
	d.quantizeINT8(coded{p, codes, scales})
	d.sized(rows, out, in)
	d.next.flops = operations(p)
	g := line(blocks(out, tile), int8Threads)
	g.blocks.Y = blocks(rows, tile)
	d.launch(kernel{"op_int8.cu", "linear_int8", int8Macros(p)}, g, addrOf(p.C).twice(p.Add), i64(p.C.Stride), addr(codes),
		addr(scales), i64(codes.Dim(-1)), addrOf(p.B), i64(p.B.DType.RowBytes(in)), address(p.Bias), i32(rows), i32(out),
		flag(p.Add))
}

// int8Threads is the number of threads of a thread block of op_int8.cu, and int8Macros are its macros.
const int8Threads = 128

func int8Macros(p cpu.Product) macros {
	return define(result(p.C), macro{p.A.DType.String(), 1}, macro{"WIDTH", width(p.A.DType, p.A.Cols)})
}

// A coded product is a product of LinearINT8, with the codes of A's rows and their scales.
type coded struct {
	cpu.Product
	codes, scales tensor.Tensor
}

// pairs returns the product as product_wgmma_int8.cu sees it: two codes make up an element of A's type.
func (c coded) pairs() cpu.Product {
	p := c.Product
	p.B = wgmmaWeights(p.B)
	p.B.DType = p.A.DType
	p.A = tensor.Matrix{Addr: c.codes.Addr, Rows: p.A.Rows, Cols: p.B.Cols, Stride: c.codes.Dim(-1) / 2, DType: p.A.DType}
	return p
}

// quantizeINT8 computes the codes of A's rows on a GPU.
func (d *Device) quantizeINT8(c coded) {
	d.launch(kernel{"op_int8.cu", "quantize_int8", int8Macros(c.Product)}, line(c.A.Rows, int8Threads),
		addr(c.codes), addr(c.scales), addrOf(c.A), i32(c.A.Cols), i32(c.codes.Dim(-1)))
}

// wgmmaINT8 is wgmma for LinearINT8, of BF16 and F16. If it cannot compute the product, it quantizes nothing.
func (d *Device) wgmmaINT8(p cpu.Product, keep tensor.Matrix, gated bool) bool {
	defer d.release(d.mark())
	codes, scales, _ := int8Scratch(d.scratch, p.A.Rows, p.A.Cols)
	c := coded{p, codes, scales}
	return d.wgmmaOf(c.pairs(), keep, gated, false, c)
}

// sumINT8 is sumParts for LinearINT8.
func (d *Device) sumINT8(c coded, parts tensor.Matrix) {
	p, m, n := c.Product, c.C.Rows, c.C.Cols
	d.launch(kernel{"op_int8.cu", "sum_int8", int8Macros(p)}, line(blocks(m*n, int8Threads), int8Threads),
		addrOf(p.C).twice(p.Add), i64(p.C.Stride), addrOf(parts), addr(c.scales), address(p.B.Addr),
		i64(p.B.DType.RowBytes(p.B.Cols)), address(p.Bias), i32(m), i32(n), i32(parts.Rows/m), flag(p.Add))
}

// SetINT8Activations sets whether layers with INT8 weights also quantize their activations: Linear and the others then
// compute what LinearINT8 does. It is off by default. On a GPU, activations keep their type if that is faster, because
// the weights are what takes time: for up to eight rows in BF16, which are the tokens of an answer, unless rows are
// alone. The activations of experts also keep their type on a GPU, and the activations of layers with a Pair on any
// device. Call it before memory is planned, with ScratchOf or Precompile.
func (d *Device) SetINT8Activations(on bool) { d.int8Activations = on }

// codesActivations reports whether a product that fewRows does not compute on a GPU quantizes A's rows.
func (d *Device) codesActivations(p cpu.Product) bool {
	return d.int8Activations && p.B.DType == tensor.INT8 && p.A.Cols <= MaxINT8 && !hasPair(p)
}
