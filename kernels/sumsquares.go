package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// SumSquares is the sum of the squares of all elements of all tensors, F32 or BF16: the square of a gradient's global norm.
//
//	Σ x²
//
// It is added up in float64, over blocks that depend on the sizes alone, and so neither overflows nor depends on threads.
func (d *Device) SumSquares(xs ...tensor.Tensor) (sum float64) {
	d.onlyCPU("SumSquares")
	for _, x := range xs {
		floating("SumSquares", "x", x)
		d.ran("sum_squares")
		sum += cpu.SumSquares(x)
	}
	return sum
}
