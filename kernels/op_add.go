package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// Add adds two tensors of the same type and length:
//
//	y = a + b
//
// y may be a or b. The backward pass needs no operation: both gradients are dy.
func (d *Device) Add(y, a, b tensor.Tensor) {
	floating("Add", "y", y)
	want("Add", "a", a, y.DType, y.Len())
	want("Add", "b", b, y.DType, y.Len())
	d.ran("add")
	if d.gpu != nil {
		n := vectors(y.Matrix())
		d.launch(kernel{"op_add.cu", "add", vectorsOf(y.Matrix())}, each(n), addr(y), addr(a), addr(b), i64(n))
		return
	}
	cpu.Add(y, a, b)
}
