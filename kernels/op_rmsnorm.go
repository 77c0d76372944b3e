package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// RMSNorm divides every row by its root mean square (Zhang & Sennrich 2019) and scales its elements:
//
//	rstd[r] = 1 / √(Σᵢ x[r,i]² / dim + eps)
//	y[r,i] = x[r,i] · rstd[r] · w[i]
//
// x and y are [rows, dim], w is [dim], all of one type; rstd is [rows] F32, kept for the backward pass. The products
// are rounded once, when y is stored. y may be x.
func (d *Device) RMSNorm(y, rstd, x, w tensor.Tensor, eps float32) {
	checkNorm("RMSNorm", "y", y, rstd, x, w)
	d.ran("rmsnorm")
	if d.gpu != nil {
		m, g := normForward(y, w)
		d.launch(kernel{"op_rmsnorm.cu", "rmsnorm", m}, g,
			addr(y), addr(rstd), addr(x), addr(w), i32(y.Rows()), f32(eps))
		return
	}
	cpu.RMSNorm(y, rstd, x, w, eps)
}

// RMSNormBackward computes the gradient of RMSNorm. With x̂ = x · rstd and g = dy · w:
//
//	dx[r,i] = rstd[r] · (g[r,i] − x̂[r,i] · Σⱼ g[r,j] · x̂[r,j] / dim)
//	dw[i] += Σᵣ dy[r,i] · x̂[r,i]
//
// dx, dy and x are [rows, dim] of one type; dw is [dim] F32, or the zero Tensor if w is frozen. dx may be dy.
func (d *Device) RMSNormBackward(dx, dw, dy, x, w, rstd tensor.Tensor) {
	checkNorm("RMSNormBackward", "dx", dx, rstd, x, w)
	checkNormGradient("RMSNormBackward", dw, dy, x, w)
	defer d.release(d.mark())
	d.ran("rmsnorm_backward")
	d.normBackward(dx, dw, dy, x, w, rstd, false)
}

// AddRMSNorm adds to the residual stream and normalizes the sum:
//
//	h = a + b
//	y = RMSNorm(h, w)
//
// h is rounded to its type first, and the norm is computed from the rounded h. h may be a or b. Shapes and types are
// RMSNorm's.
//
// Fused ("rmsnorm") it is one kernel. Unfused: Add, RMSNorm.
func (d *Device) AddRMSNorm(y, rstd, h, a, b, w tensor.Tensor, eps float32) {
	checkNorm("AddRMSNorm", "y", y, rstd, h, w)
	want("AddRMSNorm", "a", a, h.DType, h.Len())
	want("AddRMSNorm", "b", b, h.DType, h.Len())
	if !d.fused("rmsnorm") {
		d.Add(h, a, b)
		d.RMSNorm(y, rstd, h, w, eps)
		return
	}
	d.ran("add_rmsnorm")
	if d.gpu != nil {
		m, g := normForward(y, w)
		d.launch(kernel{"op_rmsnorm.cu", "add_rmsnorm", m}, g,
			addr(y), addr(rstd), addr(h), addr(a), addr(b), addr(w), i32(y.Rows()), f32(eps))
		return
	}
	cpu.AddRMSNorm(y, rstd, h, a, b, w, eps)
}

// AddRMSNormBackward adds the gradient through RMSNorm to dh, which already holds the gradient of the residual stream;
// with dx as in RMSNormBackward:
//
//	dh += dx
//	dw[i] += Σᵣ dy[r,i] · x̂[r,i]
//
// h is the sum that AddRMSNorm stored. dh is the gradient of both of its addends. Shapes and types are
// RMSNormBackward's.
//
// Fused ("rmsnorm") it is one kernel, and the sum is rounded once. Unfused: RMSNormBackward into scratch memory, Add.
func (d *Device) AddRMSNormBackward(dh, dw, dy, h, w, rstd tensor.Tensor) {
	checkNorm("AddRMSNormBackward", "dh", dh, rstd, h, w)
	checkNormGradient("AddRMSNormBackward", dw, dy, h, w)
	defer d.release(d.mark())
	if !d.fused("rmsnorm") {
		dx := addNormScratch(d.scratch, h.DType, h.Rows(), h.Dim(-1))
		d.RMSNormBackward(dx, dw, dy, h, w, rstd)
		d.Add(dh, dh, dx)
		return
	}
	d.ran("add_rmsnorm_backward")
	d.normBackward(dh, dw, dy, h, w, rstd, true)
}

// normBackward computes both gradients. dw is first summed into partials in scratch memory, unless w is frozen.
func (d *Device) normBackward(dx, dw, dy, x, w, rstd tensor.Tensor, add bool) {
	dim := w.Len()
	var partials tensor.Tensor
	if d.gpu == nil {
		if dw.Ok() {
			partials = normScratch(d.scratch, cpu.NormPartials(dx.Rows(), dim), dim)
		}
		cpu.RMSNormBackward(dx, dw, dy, x, w, rstd, partials, add)
		return
	}
	m, g := d.normRingGrid(dx, w)
	if dw.Ok() {
		partials = normScratch(d.scratch, g.blocks.X, dim)
	}
	d.launch(kernel{"op_rmsnorm.cu", "rmsnorm_backward", m}, g,
		addr(dx).twice(add), addr(partials), addr(dy), addr(x), addr(w), addr(rstd), i32(dx.Rows()), flag(add))
	d.addPartials(partials, dw, tensor.Tensor{})
}
