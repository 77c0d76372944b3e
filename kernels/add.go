package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// Add is the sum of two tensors of the same type and length:
//
//	y = a + b
//
// y may be a or b. It is its own backward pass: both gradients are dy.
func (d *Device) Add(y, a, b tensor.Tensor) {
	floating("Add", "y", y)
	want("Add", "a", a, y.DType, y.Len())
	want("Add", "b", b, y.DType, y.Len())
	d.ran("add")
	if d.gpu != nil {
		d.launch(kernel{"add.cu", "add", y.DType, y.Dim(-1)}, blocks(y.Rows()*vectors(y.DType, y.Dim(-1)), 256), 256, 0,
			addr(y), addr(a), addr(b), i32(y.Rows()))
		return
	}
	cpu.Add(y, a, b)
}
