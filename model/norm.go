package model

import (
	"restyle/kernels"
	"restyle/tensor"
)

// stream is the residual stream: h, or h + branch if its last addition is still to be made. Its reader starts with a
// norm, which makes the addition while it reads.
type stream struct {
	h      tensor.Tensor // [rows, dim]
	branch tensor.Tensor // [rows, dim], or the zero Tensor
}

// norm is the RMSNorm that a part starts with.
type norm struct {
	weight // [dim]
	eps    float32
}

// normActs holds the activations of a norm that its backward pass needs.
type normActs struct {
	h    tensor.Tensor // [rows, dim] the residual stream
	rstd tensor.Tensor // [rows] F32
	x    tensor.Tensor // [rows, dim] the output
}

// forward adds s.branch to the stream, into acts.h, and normalizes the sum. If there is no branch, acts.h must be s.h.
func (n norm) forward(dev *kernels.Device, acts normActs, s stream) {
	if s.branch.Ok() {
		dev.AddRMSNorm(acts.x, acts.rstd, acts.h, s.h, s.branch, n.w, n.eps)
	} else {
		dev.RMSNorm(acts.x, acts.rstd, s.h, n.w, n.eps)
	}
}

// backwardThrough goes back from dy, the output gradient of the layer l after the norm, through both. It adds the
// result to p.dh, the gradient of the residual stream, unless neither the norm nor anything below is trainable.
func (n norm) backwardThrough(p *pass, l linear, dy tensor.Tensor, acts normActs, below bool) {
	if !below && !n.trainable() {
		l.backward(p.dev, tensor.Tensor{}, false, dy, acts.x, p.overwrite)
		return
	}
	l.backward(p.dev, p.actGrads.dx, false, dy, acts.x, p.overwrite)
	n.zeroIf(p.dev, p.overwrite)
	p.dev.AddRMSNormBackward(p.dh, n.whole(), p.actGrads.dx, acts.h, n.w, acts.rstd)
}

// backwardFirst is the backward pass of the last norm, where the residual stream ends: it overwrites dh.
func (n norm) backwardFirst(dev *kernels.Device, dh, dx tensor.Tensor, acts normActs, overwrite bool) {
	n.zeroIf(dev, overwrite)
	dev.RMSNormBackward(dh, n.whole(), dx, acts.h, n.w, acts.rstd)
}
