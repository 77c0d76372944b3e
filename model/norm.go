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

// norm is the RMSNorm or LayerNorm that a part starts with.
type norm struct {
	weight          // [dim]
	bias     weight // [dim]; zero if the norm has none
	centered bool   // it is LayerNorm
	eps      float32
}

func (n norm) trainable() bool { return n.weight.trainable() || n.bias.trainable() }

// normActs holds the activations of a norm that its backward pass needs.
type normActs struct {
	h    tensor.Tensor // [rows, dim] the residual stream
	mean tensor.Tensor // [rows] F32, only of LayerNorm
	rstd tensor.Tensor // [rows] F32
	x    tensor.Tensor // [rows, dim] the output
}

// forward adds s.branch to the stream, into acts.h, and normalizes the sum. If there is no branch, acts.h must be s.h.
func (n norm) forward(dev *kernels.Device, acts normActs, s stream) {
	switch add := s.branch.Ok(); {
	case n.centered && add:
		dev.AddLayerNorm(acts.x, acts.mean, acts.rstd, acts.h, s.h, s.branch, n.w, n.bias.w, n.eps)
	case n.centered:
		dev.LayerNorm(acts.x, acts.mean, acts.rstd, s.h, n.w, n.bias.w, n.eps)
	case add:
		dev.AddRMSNorm(acts.x, acts.rstd, acts.h, s.h, s.branch, n.w, n.eps)
	default:
		dev.RMSNorm(acts.x, acts.rstd, s.h, n.w, n.eps)
	}
}

// allocNorm allocates all of normActs except h, the residual stream. number tells a layer's two norms apart.
func allocNorm(arena *kernels.Arena, cfg Config, t tensor.DType, rows int, number string) (acts normActs) {
	acts.rstd = arena.New("rstd"+number, tensor.F32, rows)
	if cfg.LayerNorm {
		acts.mean = arena.New("mean"+number, tensor.F32, rows)
	}
	acts.x = arena.New("x"+number, t, rows, cfg.Dim)
	return acts
}

// backwardThrough goes back from dy, the output gradient of the layer l after the norm, through both. It adds the
// result to p.dh, the gradient of the residual stream, unless neither the norm nor anything below is trainable.
func (n norm) backwardThrough(p *pass, l linear, dy tensor.Tensor, acts normActs, below bool) {
	dx := n.outputGradient(p, below)
	l.backward(p, dx, false, dy, acts.x, p.overwrite)
	n.backward(p, dx, acts)
}

// outputGradient returns the tensor for the gradient of the norm's output, or the zero Tensor if neither the norm nor
// anything below is trainable.
func (n norm) outputGradient(p *pass, below bool) tensor.Tensor {
	if !below && !n.trainable() {
		return tensor.Tensor{}
	}
	return p.actGrads.dx
}

// backward goes back from dx, the gradient of the norm's output, unless it is the zero Tensor, and adds the result to
// p.dh.
func (n norm) backward(p *pass, dx tensor.Tensor, acts normActs) {
	if !dx.Ok() {
		return
	}
	n.zeroGradients(p.dev, p.overwrite)
	if n.centered {
		p.dev.AddLayerNormBackward(p.dh, n.whole(), n.bias.whole(), dx, acts.h, n.w, acts.mean, acts.rstd)
		return
	}
	p.dev.AddRMSNormBackward(p.dh, n.whole(), dx, acts.h, n.w, acts.rstd)
}

// backwardFirst computes the backward pass of the last norm, where the residual stream ends: it overwrites dh.
func (n norm) backwardFirst(dev *kernels.Device, dh, dx tensor.Tensor, acts normActs, overwrite bool) {
	n.zeroGradients(dev, overwrite)
	if n.centered {
		dev.LayerNormBackward(dh, n.whole(), n.bias.whole(), dx, acts.h, n.w, acts.mean, acts.rstd)
		return
	}
	dev.RMSNormBackward(dh, n.whole(), dx, acts.h, n.w, acts.rstd)
}

// zeroGradients zeroes the gradients if overwrite is true, because backward passes add to them.
func (n norm) zeroGradients(dev *kernels.Device, overwrite bool) {
	n.zeroIf(dev, overwrite)
	n.bias.zeroIf(dev, overwrite)
}
