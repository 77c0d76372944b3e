package model

import (
	"restyle/kernels"
	"restyle/tensor"
)

// A stream is the residual stream: h, or h + t where its last addition is still to be made. Whoever reads it begins with a
// norm, which makes the addition in the same pass over memory.
type stream struct {
	h tensor.Tensor // [rows, dim]
	t tensor.Tensor // [rows, dim], or no tensor
}

// A norm is the RMSNorm that a part begins with.
type norm struct {
	weight // [dim]
	eps    float32
}

// normActs are what its backward pass reads of its forward pass.
type normActs struct {
	h    tensor.Tensor // [rows, dim] the residual stream
	rstd tensor.Tensor // [rows] F32
	x    tensor.Tensor // [rows, dim] the output
}

// forward makes the stream's addition, into a.h, and normalises the sum. Where there is none a.h is the stream itself.
func (n norm) forward(d *kernels.Device, a normActs, s stream) {
	if s.t.Ok() {
		d.AddRMSNorm(a.x, a.rstd, a.h, s.h, s.t, n.w, n.eps)
	} else {
		d.RMSNorm(a.x, a.rstd, s.h, n.w, n.eps)
	}
}

// backwardThrough goes from dy, the gradient of the output of the layer behind the norm, back through both. What comes of it is
// added to p.dh, the gradient of the residual stream, unless nothing there is trained.
func (n norm) backwardThrough(p *pass, l linear, dy tensor.Tensor, a normActs, below bool) {
	if !below && !n.trained() {
		l.backward(p.d, tensor.Tensor{}, false, dy, a.x, p.overwrite)
		return
	}
	l.backward(p.d, p.grads.dx, false, dy, a.x, p.overwrite)
	n.begin(p.d, p.overwrite)
	p.d.AddRMSNormBackward(p.dh, n.whole(), p.grads.dx, a.h, n.w, a.rstd)
}

// backwardFirst is the backward pass of the last norm, where the residual stream ends: it sets dh.
func (n norm) backwardFirst(d *kernels.Device, dh, dx tensor.Tensor, a normActs, overwrite bool) {
	n.begin(d, overwrite)
	d.RMSNormBackward(dh, n.whole(), dx, a.h, n.w, a.rstd)
}
