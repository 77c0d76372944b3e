package model

import (
	"restyle/kernels"
	"restyle/tensor"
)

// A stream is the residual stream: h, or h + t where its last addition is still to be made. Whoever reads it begins with a
// norm, which makes the addition in the same pass over memory.
type stream struct {
	h      tensor.Tensor // [rows, dim]
	branch tensor.Tensor // [rows, dim], or no tensor
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
func (n norm) forward(dev *kernels.Device, acts normActs, s stream) {
	if s.branch.Ok() {
		dev.AddRMSNorm(acts.x, acts.rstd, acts.h, s.h, s.branch, n.w, n.eps)
	} else {
		dev.RMSNorm(acts.x, acts.rstd, s.h, n.w, n.eps)
	}
}

// backwardThrough goes from dy, the gradient of the output of the layer behind the norm, back through both. What comes of it is
// added to p.dh, the gradient of the residual stream, unless nothing there is trained.
func (n norm) backwardThrough(p *pass, l linear, dy tensor.Tensor, acts normActs, below bool) {
	if !below && !n.trainable() {
		l.backward(p.dev, tensor.Tensor{}, false, dy, acts.x, p.overwrite)
		return
	}
	l.backward(p.dev, p.actGrads.dx, false, dy, acts.x, p.overwrite)
	n.zeroIf(p.dev, p.overwrite)
	p.dev.AddRMSNormBackward(p.dh, n.whole(), p.actGrads.dx, acts.h, n.w, acts.rstd)
}

// backwardFirst is the backward pass of the last norm, where the residual stream ends: it sets dh.
func (n norm) backwardFirst(dev *kernels.Device, dh, dx tensor.Tensor, acts normActs, overwrite bool) {
	n.zeroIf(dev, overwrite)
	dev.RMSNormBackward(dh, n.whole(), dx, acts.h, n.w, acts.rstd)
}
