package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// Softmax computes the softmax of each row, and, unless lse is the zero Tensor, the logarithm of its sum:
//
//	y[r,i] = e^(x[r,i] − max x[r]) / Σⱼ e^(x[r,j] − max x[r])
//	lse[r] = log Σⱼ e^x[r,j]
//
// x is [rows, dim]; y has its type and length, and may be x. lse is [rows] F32.
//
// An element of −∞ gives 0, and its gradient is 0. A row has a result only if its largest element is finite: in any
// other row, and in one with a NaN, all of y is NaN, as in PyTorch. lse is +∞ for a row with +∞, −∞ for a row of −∞,
// and NaN for any other row with a NaN. Attention, which must give 0 for a query that sees no key, does so by its mask
// and not by this operation.
func (d *Device) Softmax(y, lse, x tensor.Tensor) {
	const op = "Softmax"
	floating(op, "x", x)
	want(op, "y", y, x.DType, x.Len())
	if lse.Ok() {
		want(op, "lse", lse, tensor.F32, x.Rows())
	}
	d.ran("softmax")
	if d.gpu == nil {
		cpu.Softmax(y.View(x.Shape...), lse.Matrix(), x)
		return
	}
	m, g, n := softmaxGrid(x.Matrix(), 16)
	d.launch(kernel{"op_softmax.cu", "softmax", m}, g, addr(y), addr(lse), addr(x), i32(x.Rows()), i32(n))
}

// SoftmaxBackward computes the gradient of Softmax from its result:
//
//	dx[r,i] = y[r,i] · (dy[r,i] − Σⱼ dy[r,j] · y[r,j])
//
// y is [rows, dim]; dx and dy have its type and length, and dx may be dy or y. A row of NaN gives NaN.
func (d *Device) SoftmaxBackward(dx, dy, y tensor.Tensor) {
	const op = "SoftmaxBackward"
	floating(op, "y", y)
	want(op, "dy", dy, y.DType, y.Len())
	want(op, "dx", dx, y.DType, y.Len())
	d.ran("softmax_backward")
	if d.gpu == nil {
		cpu.SoftmaxBackward(dx.View(y.Shape...), dy.View(y.Shape...), y)
		return
	}
	m, g, n := softmaxGrid(y.Matrix(), 8)
	d.launch(kernel{"op_softmax.cu", "softmax_backward", m}, g, addr(dx), addr(dy), addr(y), i32(y.Rows()), i32(n))
}

// softmaxGrid returns the macros and the grid for rows of x, and the number of vectors of a row. Two vectors of a row
// per thread keep memory busy; a thread block of 512 threads keeps at most maxVectors per thread, and reads longer rows
// twice. The source is compiled for a power of two of vectors, so that rows of many lengths share a compiled kernel.
func softmaxGrid(x tensor.Matrix, maxVectors int) (macros, grid, int) {
	one := x
	one.Rows = 1
	n, blockDim := vectors(one), 256
	threads, most := normThreads(one, 2, blockDim), 2
	if n > 2*blockDim {
		blockDim, threads = 512, 512
	}
	for most*threads < n {
		most *= 2
	}
	if most > maxVectors {
		most = 0
	}
	m := vectorsOf(x).with("THREADS", threads).with("KEPT", most)
	return m, line(blocks(x.Rows*threads, blockDim), blockDim), n
}
