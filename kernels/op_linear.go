package kernels

import (
	"fmt"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// Linear is a linear layer:
//
//	y = x·wᵀ + bias
//
// x is [rows, in], w [out, in], bias [out] or the zero Tensor, all of one type; y is [rows, out], F32, BF16 or F16. w
// may be quantized instead. There may be a Pair. Sums are in float32, and each is rounded once.
func (d *Device) Linear(y, x, w, bias tensor.Tensor, pair ...Pair) {
	const op = "Linear"
	checkLinear(op, y, x, w)
	d.linearPart(op, y, x, w, bias, 0, pair)
}

// LinearPart is Linear for some of the outputs, from output from on: the outputs of w, which is [n, in], some rows of a
// layer's weights.
//
//	y[:, from:from+n] = x·wᵀ + bias[from:from+n]
//
// y, the bias and the Pair are the whole layer's. The other columns of y are left as they are.
func (d *Device) LinearPart(y, x, w, bias tensor.Tensor, from int, pair ...Pair) {
	d.linearPart("LinearPart", y, x, w, bias, from, pair)
}

func (d *Device) linearPart(op string, y, x, w, bias tensor.Tensor, from int, pair []Pair) {
	p := partOf(op, y, x, w, bias, from)
	d.ran("linear")
	d.product(paired(op, p, partOfPair(pair, from, p.B.Rows)))
}

// partOf returns the product of LinearPart. It panics with the operation's name if the operands do not fit.
func partOf(op string, y, x, w, bias tensor.Tensor, from int) cpu.Product {
	floating(op, "y", y)
	floating(op, "x", x)
	n, in := w.Rows(), x.Dim(-1)
	wantWeights(op, w, x.DType, n, in)
	want(op, "y", y, y.DType, x.Rows(), y.Dim(-1))
	p := cpu.Product{C: outputs(op, y, from, n), A: x.Matrix(), B: w.Matrix(), TransB: true}
	if bias.Ok() {
		want(op, "bias", bias, x.DType, y.Dim(-1))
		p.Bias = bias.Slice(from, from+n).Addr
	}
	return p
}

// LinearBackward computes the gradient of Linear with respect to x, or adds it to dx:
//
//	dx = dy·w    or    dx += dy·w
//
// dy is [rows, out], w [out, in] of its type or quantized, dx [rows, in] F32, BF16 or F16. dx must not overlap dy. The
// values of quantized weights are rounded to dy's type. If w is so large that this takes several parts, and add is
// true, dy·w is rounded before it is added. There may be a Pair.
func (d *Device) LinearBackward(dx, dy, w tensor.Tensor, add bool, pair ...Pair) {
	const op = "LinearBackward"
	checkLinear(op, dy, dx, w)
	d.linearPartBackward(op, dx, dy, w, 0, add, pair)
}

// LinearPartBackward is LinearBackward for LinearPart: dx = dy[:, from:from+n]·w, or dx += …
func (d *Device) LinearPartBackward(dx, dy, w tensor.Tensor, from int, add bool, pair ...Pair) {
	d.linearPartBackward("LinearPartBackward", dx, dy, w, from, add, pair)
}

func (d *Device) linearPartBackward(op string, dx, dy, w tensor.Tensor, from int, add bool, pair []Pair) {
	floating(op, "dx", dx)
	floating(op, "dy", dy)
	n, in := w.Rows(), w.Dim(-1)
	wantWeights(op, w, dy.DType, n, in)
	want(op, "dx", dx, dx.DType, dy.Rows(), in)
	d.ran("linear_dx")
	d.product(paired(op, cpu.Product{C: dx.Matrix(), A: outputs(op, dy, from, n), B: w.Matrix(), Add: add}, pair))
}

// LinearGradient computes the gradient of Linear with respect to the rows of w from row from on, or adds it to dw:
//
//	dw = dy[:, from:from+n]ᵀ·x    or    dw += …
//
// dy is [rows, out] and x [rows, in] of its type; dw is [n, in], F32, BF16 or F16.
func (d *Device) LinearGradient(dw, dy, x tensor.Tensor, from int, add bool) {
	const op = "LinearGradient"
	floating(op, "dy", dy)
	floating(op, "dw", dw)
	in, n := x.Dim(-1), dw.Rows()
	want(op, "x", x, dy.DType, dy.Rows(), in)
	want(op, "dw", dw, dw.DType, n, in)
	d.ran("linear_dw")
	d.product(cpu.Product{C: dw.Matrix(), A: outputs(op, dy, from, n), TransA: true, B: x.Matrix(), Add: add})
}

// BiasGradient adds the gradient of Linear with respect to the elements of bias from element from on:
//
//	dbias += Σ dy[:, from:from+n] over the rows
//
// dy is [rows, out], dbias [n]; each is F32, BF16 or F16.
func (d *Device) BiasGradient(dbias, dy tensor.Tensor, from int) {
	const op = "BiasGradient"
	floating(op, "dy", dy)
	floating(op, "dbias", dbias)
	x := outputs(op, dy, from, dbias.Len())
	d.ran("linear_dbias")
	if d.gpu != nil {
		d.columnSums(dbias, x)
		return
	}
	cpu.ColumnSums(dbias, x)
}

// outputs returns n columns of dy from column from on. It panics with the operation's name if dy does not have them.
func outputs(op string, dy tensor.Tensor, from, n int) tensor.Matrix {
	if from < 0 || from+n > dy.Dim(-1) {
		panic(fmt.Sprintf("%s: outputs %d to %d: dy has only %d", op, from, from+n, dy.Dim(-1)))
	}
	return dy.Columns(from, from+n)
}

// checkLinear returns the sizes of a layer. It panics unless the shapes of y, x and w, or of gradients in their places,
// agree.
func checkLinear(op string, y, x, w tensor.Tensor) (in, out int) {
	for _, t := range []tensor.Tensor{y, x, w} {
		if !t.DType.Quantized() {
			floating(op, "an operand", t)
		}
	}
	in, out = x.Dim(-1), y.Dim(-1)
	if y.Rows() != x.Rows() || w.Rows() != out || w.Dim(-1) != in {
		panic(fmt.Sprintf("%s: shapes do not agree: from %v through %v to %v", op, x, w, y))
	}
	return in, out
}
