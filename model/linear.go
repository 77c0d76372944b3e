package model

import (
	"restyle/kernels"
	"restyle/tensor"
)

// weight is a matrix or a vector, with the gradients of its trainable rows.
type weight struct {
	w     tensor.Tensor
	grads []grad
}

// grad is the gradient of some rows of a weight, starting at row from.
type grad struct {
	dw   tensor.Tensor
	from int
}

func (w weight) trainable() bool { return len(w.grads) > 0 }

// whole returns the gradient of a weight of which all rows are trainable, or the zero Tensor if none is.
func (w weight) whole() tensor.Tensor {
	if len(w.grads) == 0 {
		return tensor.Tensor{}
	}
	return w.grads[0].dw
}

// zeroIf zeroes the gradients if overwrite is true, for operations that can only add to them.
func (w weight) zeroIf(dev *kernels.Device, overwrite bool) {
	for _, g := range w.grads {
		if overwrite {
			dev.Zero(g.dw)
		}
	}
}

// linear is y = x Wᵀ + b, with W of shape [out, in]. Its rows may belong to several parameters, such as q, k and v,
// which are then one product, forward and backward. If only some of these are trainable, each has a gradient of its
// own.
type linear struct {
	weight, bias weight // bias is zero if the layer has none
}

func (l linear) forward(dev *kernels.Device, y, x tensor.Tensor) {
	dev.Linear(y, x, l.weight.w, l.bias.w)
}

// backward overwrites dx, or adds to it if addToDx is true, and overwrites the gradients of the trainable weights, or
// adds to them. If dx is the zero Tensor, because nothing before the layer is trainable, it is not computed.
func (l linear) backward(dev *kernels.Device, dx tensor.Tensor, addToDx bool, dy, x tensor.Tensor, overwrite bool) {
	if dx.Ok() {
		dev.LinearBackward(dx, dy, l.weight.w, addToDx)
	}
	for _, g := range l.weight.grads {
		dev.LinearGradient(g.dw, dy, x, g.from, !overwrite)
	}
	l.bias.zeroIf(dev, overwrite)
	for _, g := range l.bias.grads {
		dev.BiasGradient(g.dw, dy, g.from)
	}
}

func (l linear) trainable() bool { return l.weight.trainable() || l.bias.trainable() }

// flops returns the floating-point operations of the layer per token. Each weight takes two in the forward pass, two
// for the gradient of its input if below is true, and two for its own gradient if it is trainable.
func (l linear) flops(below bool) float64 {
	n := 2 * float64(l.weight.w.Len())
	if below {
		n *= 2
	}
	for _, g := range l.weight.grads {
		n += 2 * float64(g.dw.Len())
	}
	return n
}
