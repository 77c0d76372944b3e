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

// LinearBackward is the gradient of Linear:
//
//	dx = dy·w
//	dw += dyᵀ·x
//	dbias += Σ dy over the rows
//
// dy is [rows, out] of x's and w's type, dx [rows, in], dw [out, in], dbias [out], each of them F32 or BF16, or no tensor:
// then it is not computed. x may be no tensor without dw, and w none without dx. dx may be dy's neighbour, but no part of it.
func (d *Device) LinearBackward(dx, dw, dbias, dy, x, w tensor.Tensor) {
	d.onlyCPU("LinearBackward")
	const op = "LinearBackward"
	floating(op, "dy", dy)
	bf16 := dy.DType == tensor.BF16
	if dx.Ok() {
		rows, in, out := checkLinear(op, dy, dx, w)
		want(op, "w", w, dy.DType, out, in)
		d.ran("linear_dx")
		cpu.Gemm(cpu.Product{
			M: rows, N: in, K: out,
			A: cpu.Operand{Addr: dy.Addr, Stride: out}, B: cpu.Operand{Addr: w.Addr, Stride: in},
			C:    cpu.Operand{Addr: dx.Addr, Stride: in},
			BF16: bf16, CBF16: dx.DType == tensor.BF16,
		})
	}
	if dw.Ok() {
		rows, in, out := checkLinear(op, dy, x, dw)
		want(op, "x", x, dy.DType, rows, in)
		d.ran("linear_dw")
		cpu.Gemm(cpu.Product{
			M: out, N: in, K: rows,
			A: cpu.Operand{Addr: dy.Addr, Stride: out, Transposed: true}, B: cpu.Operand{Addr: x.Addr, Stride: in},
			C:    cpu.Operand{Addr: dw.Addr, Stride: in},
			BF16: bf16, CBF16: dw.DType == tensor.BF16, Add: true,
		})
	}
	if dbias.Ok() {
		out := dbias.Len()
		floating(op, "dbias", dbias)
		if out != dy.Dim(-1) {
			panic(fmt.Sprintf("%s: dbias is %v, dy %v", op, dbias, dy))
		}
		d.ran("linear_dbias")
		cpu.ColumnSums(dbias.Addr, dbias.DType == tensor.BF16, cpu.Operand{Addr: dy.Addr, Stride: out}, bf16, dy.Rows(), out)
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
