package kernels

import "restyle/tensor"

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
	ya, aa, ba := y, a, b
	if y.DType == tensor.F32 {
		y, a, b := ya.F32(), aa.F32(), ba.F32()
		for i := range y {
			y[i] = a[i] + b[i]
		}
		return
	}
	yh, ah, bh := ya.Half(), aa.Half(), ba.Half()
	for i := range yh {
		yh[i] = tensor.FromF32(tensor.ToF32(ah[i]) + tensor.ToF32(bh[i]))
	}
}
