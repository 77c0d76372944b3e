package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// RMSNorm divides every row by the root of its mean square (Zhang & Sennrich 2019) and scales its elements:
//
//	rstd[r] = 1 / √(Σᵢ x[r,i]² / dim + eps)
//	y[r,i] = x[r,i] · rstd[r] · w[i]
//
// x and y are [rows, dim], w is [dim], all of one type; rstd is [rows] F32, kept for the backward pass. The products are
// rounded once, when y is stored. y may be x.
func (d *Device) RMSNorm(y, rstd, x, w tensor.Tensor, eps float32) {
	checkNorm("RMSNorm", "y", y, rstd, x, w)
	d.ran("rmsnorm")
	cpu.RMSNorm(y, rstd, x, w, eps)
}

// RMSNormBackward is the gradient of RMSNorm. With x̂ = x · rstd and g = dy · w:
//
//	dx[r,i] = rstd[r] · (g[r,i] − x̂[r,i] · Σⱼ g[r,j] · x̂[r,j] / dim)
//	dw[i] += Σᵣ dy[r,i] · x̂[r,i]
//
// dx, dy and x are [rows, dim] of one type; dw is [dim] F32, or no tensor where w is frozen. dx may be dy.
func (d *Device) RMSNormBackward(dx, dw, dy, x, w, rstd tensor.Tensor) {
	checkNorm("RMSNormBackward", "dx", dx, rstd, x, w)
	checkNormGradient("RMSNormBackward", dw, dy, x, w)
	defer d.release(d.mark())
	d.ran("rmsnorm_backward")
	cpu.RMSNormBackward(dx, dw, dy, x, w, rstd, d.normPartials(dw, x), false)
}

// AddRMSNorm adds to the residual stream and normalises the sum:
//
//	h = a + b
//	y = RMSNorm(h, w)
//
// h is rounded to its type first, and what is normalised is the rounded h, which may be a or b. Shapes and types are
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
	cpu.AddRMSNorm(y, rstd, h, a, b, w, eps)
}

// AddRMSNormBackward adds the gradient through RMSNorm to dh, which holds that of the residual stream already; with dx as
// in RMSNormBackward:
//
//	dh += dx
//	dw[i] += Σᵣ dy[r,i] · x̂[r,i]
//
// h is the sum that AddRMSNorm stored. dh is the gradient of both of its addends. Shapes and types are RMSNormBackward's.
//
// Fused ("rmsnorm") it is one kernel, and the sum is rounded once. Unfused: RMSNormBackward into scratch memory, Add.
func (d *Device) AddRMSNormBackward(dh, dw, dy, h, w, rstd tensor.Tensor) {
	checkNorm("AddRMSNormBackward", "dh", dh, rstd, h, w)
	checkNormGradient("AddRMSNormBackward", dw, dy, h, w)
	defer d.release(d.mark())
	if !d.fused("rmsnorm") {
		dx := d.scratch("norm gradient", h.DType, h.Rows(), h.Dim(-1))
		d.RMSNormBackward(dx, dw, dy, h, w, rstd)
		d.Add(dh, dh, dx)
		return
	}
	d.ran("add_rmsnorm_backward")
	cpu.RMSNormBackward(dh, dw, dy, h, w, rstd, d.normPartials(dw, h), true)
}

// normPartials is scratch memory for the sums of dw over blocks of rows, none where w is frozen.
func (d *Device) normPartials(dw, x tensor.Tensor) tensor.Tensor {
	if !dw.Ok() {
		return tensor.Tensor{}
	}
	return d.scratch("dw of blocks of rows", tensor.F32, cpu.NormBlocks(x.Len()/dw.Len(), dw.Len()), dw.Len())
}

func checkNorm(op, name string, y, rstd, x, w tensor.Tensor) {
	floating(op, name, y)
	dim := y.Dim(-1)
	want(op, "x", x, y.DType, y.Rows(), dim)
	want(op, "w", w, y.DType, dim)
	want(op, "rstd", rstd, tensor.F32, y.Rows())
}

func checkNormGradient(op string, dw, dy, x, w tensor.Tensor) {
	want(op, "dy", dy, x.DType, x.Len())
	if dw.Ok() {
		want(op, "dw", dw, tensor.F32, w.Len())
	}
}
