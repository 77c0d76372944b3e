package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// SwiGLU computes the gated activation of a Llama's feed-forward layer (Shazeer 2020), with silu(x) = x / (1 + e⁻ˣ):
//
//	y[r,i] = silu(gate[r,i]) · up[r,i]
//
// gateUp is [rows, 2·inner]: a row's gate, then its up. y is [rows, inner] of the same type.
//
// Fused ("swiglu") it is one kernel, and y is rounded once. Unfused: silu, product; silu(gate) is rounded to the type
// and kept in scratch memory between them.
func (d *Device) SwiGLU(y, gateUp tensor.Tensor) {
	checkSwiGLU("SwiGLU", "y", y, "gateUp", gateUp)
	gate, up := halves(gateUp)
	if d.fused("swiglu") {
		d.ran("swiglu")
		if d.gpu != nil {
			d.launch(kernel{"op_swiglu.cu", "swiglu", rowsOf(y.Matrix())}, each(vectors(y.Matrix())),
				addr(y), addr(gateUp), i32(y.Rows()))
			return
		}
		cpu.SwiGLU(y.Matrix(), gate, up)
		return
	}
	defer d.release(d.mark())
	a, _ := swiGLUScratch(d.scratch, y.DType, y.Rows(), y.Dim(-1), false)
	d.silu(a, gate)
	d.mul(y.Matrix(), a, up)
}

// SwiGLUBackward computes the gradient of SwiGLU. With σ = 1 / (1 + e^−gate):
//
//	dgate = dy · up · σ · (1 + gate · (1 − σ))
//	dup = dy · gate · σ
//
// dGateUp and gateUp are [rows, 2·inner], dy is [rows, inner], all of one type. dGateUp may be gateUp.
//
// Fused ("swiglu") it is one kernel. Unfused: silu, product (dy · up), product (dup = dy · silu(gate)), gradient of
// silu; the first two results are rounded to the type and kept in scratch memory.
func (d *Device) SwiGLUBackward(dGateUp, dy, gateUp tensor.Tensor) {
	checkSwiGLU("SwiGLUBackward", "dy", dy, "gateUp", gateUp)
	want("SwiGLUBackward", "dGateUp", dGateUp, gateUp.DType, gateUp.Len())
	gate, up := halves(gateUp)
	dgate, dup := halves(dGateUp.View(gateUp.Shape...))
	if d.fused("swiglu") {
		d.ran("swiglu_backward")
		if d.gpu != nil {
			d.launch(kernel{"op_swiglu.cu", "swiglu_backward", rowsOf(dy.Matrix())}, each(vectors(dy.Matrix())),
				addr(dGateUp), addr(dy), addr(gateUp), i32(dy.Rows()))
			return
		}
		cpu.SwiGLUBackward(dgate, dup, dy.Matrix(), gate, up)
		return
	}
	defer d.release(d.mark())
	a, da := swiGLUScratch(d.scratch, dy.DType, dy.Rows(), dy.Dim(-1), true)
	d.silu(a, gate)
	d.mul(da, dy.Matrix(), up)
	d.mul(dup, dy.Matrix(), a)
	d.siluBackward(dgate, da, gate)
}

// swiGLUScratch lays out silu(gate) and its gradient for the unfused forms.
func swiGLUScratch(cut cut, t tensor.DType, rows, inner int, backward bool) (a, da tensor.Matrix) {
	a = cut("silu", t, rows, inner).Matrix()
	if backward {
		da = cut("gradient of silu", t, rows, inner).Matrix()
	}
	return a, da
}

// SiLU computes y = x / (1 + e⁻ˣ). Both are of one type and length; y may be x.
func (d *Device) SiLU(y, x tensor.Tensor) {
	floating("SiLU", "x", x)
	want("SiLU", "y", y, x.DType, x.Len())
	d.silu(y.View(x.Shape...).Matrix(), x.Matrix())
}

// The steps of the unfused forms.

func (d *Device) silu(y, x tensor.Matrix) {
	d.ran("silu")
	if d.gpu == nil {
		cpu.SiLU(y, x)
		return
	}
	d.launch(kernel{"op_swiglu.cu", "silu", rowsOf(y)}, each(vectors(y)),
		addrOf(y), i32(y.Stride), addrOf(x), i32(x.Stride), i32(y.Rows))
}

func (d *Device) siluBackward(dx, dy, x tensor.Matrix) {
	d.ran("silu_backward")
	if d.gpu == nil {
		cpu.SiLUBackward(dx, dy, x)
		return
	}
	d.launch(kernel{"op_swiglu.cu", "silu_backward", rowsOf(dx)}, each(vectors(dx)),
		addrOf(dx), i32(dx.Stride), addrOf(dy), i32(dy.Stride), addrOf(x), i32(x.Stride), i32(dx.Rows))
}

// halves returns the gate and the up of every row.
func halves(gateUp tensor.Tensor) (gate, up tensor.Matrix) {
	inner := gateUp.Dim(-1) / 2
	return gateUp.Columns(0, inner), gateUp.Columns(inner, 2*inner)
}

func checkSwiGLU(op, name string, y tensor.Tensor, pair string, gateUp tensor.Tensor) {
	floating(op, name, y)
	want(op, pair, gateUp, y.DType, y.Rows(), 2*y.Dim(-1))
}
