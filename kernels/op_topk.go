package kernels

import (
	"fmt"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// TopK finds the k largest elements of each row, in descending order, and their indices:
//
//	values[r,i] = x[r, indices[r,i]]
//
// x is [rows, n], indices [rows, k] I32; values is [rows, k] of x's type, or the zero Tensor. It must not overlap x. k
// is from 0 to n.
//
// NaN comes first, then the elements by value. Among equal elements, the lower index comes first; −0 and 0 are equal,
// and so are all NaN.
func (d *Device) TopK(values, indices, x tensor.Tensor, k int) {
	const op = "TopK"
	floating(op, "x", x)
	if k < 0 || k > x.Dim(-1) {
		panic(fmt.Sprintf("%s: k %d: must be from 0 to %d, the length of a row", op, k, x.Dim(-1)))
	}
	want(op, "indices", indices, tensor.I32, x.Rows(), k)
	if values.Ok() {
		want(op, "values", values, x.DType, x.Rows(), k)
	}
	d.ran("topk")
	if d.gpu == nil {
		cpu.TopK(values, indices, x, k)
		return
	}
	d.launch(kernel{"op_topk.cu", "topk", vectorsOf(x.Matrix())}, topKGrid(x), addr(values), addr(indices),
		addr(x), i32(x.Dim(-1)), i32(k))
}

// Argmax finds for each row the index that TopK puts first: the largest element's, the lowest of several, or the first
// NaN's. x is [rows, n], n at least 1, and at is [rows] I32.
func (d *Device) Argmax(at, x tensor.Tensor) { d.TopK(tensor.Tensor{}, at, x, 1) }

// TopKBackward computes the gradient of TopK's values:
//
//	dx[r, indices[r,i]] = dvalues[r,i], dx = 0 elsewhere
//
// dx is [rows, n], dvalues [rows, k] of its type, indices [rows, k] I32, each once in its row. dx must not overlap
// dvalues.
func (d *Device) TopKBackward(dx, dvalues, indices tensor.Tensor) {
	const op = "TopKBackward"
	floating(op, "dx", dx)
	k := dvalues.Dim(-1)
	want(op, "dvalues", dvalues, dx.DType, dx.Rows(), k)
	want(op, "indices", indices, tensor.I32, dx.Rows(), k)
	d.ran("topk_backward")
	if d.gpu == nil {
		cpu.TopKBackward(dx, dvalues, indices, k)
		return
	}
	n := vectors(dx.Matrix())
	d.launch(kernel{"op_topk.cu", "topk_backward", vectorsOf(dx.Matrix())}, each(n),
		addr(dx), addr(dvalues), addr(indices), i32(dx.Dim(-1)), i32(k), i64(n))
}

// topKGrid returns a grid with a thread block per row, of one warp for a short row, so that many rows are in progress
// at once.
func topKGrid(x tensor.Tensor) grid {
	if x.Dim(-1) <= 1024 {
		return line(x.Rows(), 32)
	}
	return line(x.Rows(), 1024)
}
