package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// Mul multiplies two tensors of the same type and length, element by element:
//
//	y = a · b
//
// y may be a or b.
func (d *Device) Mul(y, a, b tensor.Tensor) {
	floating("Mul", "y", y)
	want("Mul", "a", a, y.DType, y.Len())
	want("Mul", "b", b, y.DType, y.Len())
	d.mul(y.Matrix(), a.View(y.Shape...).Matrix(), b.View(y.Shape...).Matrix())
}

// mul is Mul for matrices.
func (d *Device) mul(y, a, b tensor.Matrix) {
	d.ran("mul")
	if d.gpu == nil {
		cpu.Mul(y, a, b)
		return
	}
	d.launch(kernel{"op_mul.cu", "mul", rowsOf(y)}, each(vectors(y)),
		addrOf(y), i32(y.Stride), addrOf(a), i32(a.Stride), addrOf(b), i32(b.Stride), i32(y.Rows))
}

// MulBackward computes both gradients of Mul:
//
//	da = dy · b
//	db = dy · a
//
// All are of the same type and length. Each gradient may be dy, a or b.
func (d *Device) MulBackward(da, db, dy, a, b tensor.Tensor) {
	const op = "MulBackward"
	floating(op, "dy", dy)
	for name, x := range map[string]tensor.Tensor{"da": da, "db": db, "a": a, "b": b} {
		want(op, name, x, dy.DType, dy.Len())
	}
	d.ran("mul_backward")
	if d.gpu == nil {
		s := dy.Shape
		cpu.MulBackward(da.View(s...), db.View(s...), dy, a.View(s...), b.View(s...))
		return
	}
	n := vectors(dy.Matrix())
	d.launch(kernel{"op_mul.cu", "mul_backward", rowsOf(dy.Matrix())}, each(n),
		addr(da), addr(db), addr(dy), addr(a), addr(b), i64(n))
}
