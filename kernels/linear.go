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
// x is [rows, in], w [out, in], bias [out] or no tensor, all of one type; y is [rows, out], F32 or BF16. Sums are in
// float32, and each is rounded once.
func (d *Device) Linear(y, x, w, bias tensor.Tensor) {
	const op = "Linear"
	d.onlyCPU(op)
	rows, in, out := checkLinear(op, y, x, w)
	want(op, "w", w, x.DType, out, in)
	if bias.Ok() {
		want(op, "bias", bias, x.DType, out)
	}
	d.ran("linear")
	cpu.Gemm(cpu.Product{
		M: rows, N: out, K: in,
		A: cpu.Operand{Addr: x.Addr, Stride: in}, B: cpu.Operand{Addr: w.Addr, Stride: in, Transposed: true},
		C: cpu.Operand{Addr: y.Addr, Stride: out}, Bias: bias.Addr,
		BF16: x.DType == tensor.BF16, CBF16: y.DType == tensor.BF16,
	})
}

// LinearBackward is the gradient of Linear by x, or is added to what is there:
//
//	dx = dy·w    or    dx += dy·w
//
// dy is [rows, out], w [out, in] of its type, dx [rows, in] F32 or BF16. dx may be dy's neighbour, but no part of it.
func (d *Device) LinearBackward(dx, dy, w tensor.Tensor, add bool) {
	const op = "LinearBackward"
	d.onlyCPU(op)
	rows, in, out := checkLinear(op, dy, dx, w)
	want(op, "w", w, dy.DType, out, in)
	d.ran("linear_dx")
	cpu.Gemm(cpu.Product{
		M: rows, N: in, K: out,
		A: cpu.Operand{Addr: dy.Addr, Stride: out}, B: cpu.Operand{Addr: w.Addr, Stride: in},
		C:    cpu.Operand{Addr: dx.Addr, Stride: in},
		BF16: dy.DType == tensor.BF16, CBF16: dx.DType == tensor.BF16, Add: add,
	})
}

// LinearGradient is the gradient of Linear by the rows of w from row from on, or is added to what is there:
//
//	dw = dy[:, from:from+n]ᵀ·x    or    dw += …
//
// dy is [rows, out] and x [rows, in] of its type; dw is [n, in], F32 or BF16.
func (d *Device) LinearGradient(dw, dy, x tensor.Tensor, from int, add bool) {
	const op = "LinearGradient"
	d.onlyCPU(op)
	floating(op, "dy", dy)
	floating(op, "dw", dw)
	rows, in, n, out := x.Rows(), x.Dim(-1), dw.Rows(), dy.Dim(-1)
	want(op, "x", x, dy.DType, dy.Rows(), in)
	want(op, "dw", dw, dw.DType, n, in)
	checkPart(op, from, n, out)
	d.ran("linear_dw")
	cpu.Gemm(cpu.Product{
		M: n, N: in, K: rows,
		A: columns(dy, from, true), B: cpu.Operand{Addr: x.Addr, Stride: in},
		C:    cpu.Operand{Addr: dw.Addr, Stride: in},
		BF16: dy.DType == tensor.BF16, CBF16: dw.DType == tensor.BF16, Add: add,
	})
}

// BiasGradient adds the gradient of Linear by the elements of bias from element from on:
//
//	dbias += Σ dy[:, from:from+n] over the rows
//
// dy is [rows, out], dbias [n]; each is F32 or BF16.
func (d *Device) BiasGradient(dbias, dy tensor.Tensor, from int) {
	const op = "BiasGradient"
	d.onlyCPU(op)
	floating(op, "dy", dy)
	floating(op, "dbias", dbias)
	checkPart(op, from, dbias.Len(), dy.Dim(-1))
	d.ran("linear_dbias")
	cpu.ColumnSums(dbias.Addr, dbias.DType == tensor.BF16, columns(dy, from, false), dy.DType == tensor.BF16, dy.Rows(), dbias.Len())
}

// columns are those of a matrix from column from on.
func columns(x tensor.Tensor, from int, transposed bool) cpu.Operand {
	return cpu.Operand{Addr: x.Addr + uintptr(from*x.DType.Size()), Stride: x.Dim(-1), Transposed: transposed}
}

func checkPart(op string, from, n, out int) {
	if from < 0 || from+n > out {
		panic(fmt.Sprintf("%s: outputs %d to %d of %d", op, from, from+n, out))
	}
}

// checkLinear is the sizes of a layer, which the shapes of y, x and w, or of gradients in their places, have to agree on.
func checkLinear(op string, y, x, w tensor.Tensor) (rows, in, out int) {
	for _, t := range []tensor.Tensor{y, x, w} {
		floating(op, "an operand", t)
	}
	rows, in, out = x.Rows(), x.Dim(-1), y.Dim(-1)
	if y.Rows() != rows || w.Rows() != out || w.Dim(-1) != in {
		panic(fmt.Sprintf("%s: from %v through %v to %v", op, x, w, y))
	}
	return rows, in, out
}
