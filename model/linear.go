package model

import (
	"restyle/kernels"
	"restyle/tensor"
)

// A weight is a matrix or a vector with the gradients of what is trained of it.
type weight struct {
	w     tensor.Tensor
	grads []grad
}

// A grad is the gradient of some rows of a weight, those from row from on.
type grad struct {
	dw   tensor.Tensor
	from int
}

func (w weight) trainable() bool { return len(w.grads) > 0 }

// whole is the gradient of a weight that is trained as a whole or not at all; no tensor where it is not.
func (w weight) whole() tensor.Tensor {
	if len(w.grads) == 0 {
		return tensor.Tensor{}
	}
	return w.grads[0].dw
}

// begin makes the gradients ready for those that can only be added to.
func (w weight) zeroIf(dev *kernels.Device, overwrite bool) {
	for _, g := range w.grads {
		if overwrite {
			dev.Zero(g.dw)
		}
	}
}

// A linear layer is y = x Wᵀ + b, with W of shape [out, in]. Its outputs may be several layers' in the files, such as q, k
// and v, which then are one product forward and backward; what is trained of them alone has a product of its own.
type linear struct {
	weight, bias weight // no tensor where the layer has no bias
}

func (l linear) forward(dev *kernels.Device, y, x tensor.Tensor) {
	dev.Linear(y, x, l.weight.w, l.bias.w)
}

// backward sets dx, or adds to it, and computes the gradients that there are: over those of before, or added to them. dx is no
// tensor where nothing below is trained.
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

// flops is how many floating-point operations the layer takes for a token: for each weight two forward, two for the gradient
// of its input where something below is trained, and two for its own where it is trained.
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
