package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// AddSquares adds the squares of all elements of a tensor, F32 or BF16: over all gradients, the square of their global norm.
//
//	Σ x²
//
// They are added up in float64, over blocks that depend on the sizes alone, and so neither overflow nor depend on threads.
func (d *Device) AddSquares(c Control, x tensor.Tensor) {
	d.onlyCPU("AddSquares")
	floating("AddSquares", "x", x)
	d.ran("add_squares")
	c.x.F64()[1] += cpu.SumSquares(x)
}
