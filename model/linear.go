package model

import (
	"restyle/kernels"
	"restyle/tensor"
)

// A linear layer is y = x Wᵀ + b, with W of shape [out, in].
type linear struct {
	weight pair
	bias   pair // no tensor where the layer has none
}

func newLinear(pairs map[string]pair, name string) linear {
	return linear{weight: need(pairs, name+".weight"), bias: pairs[name+".bias"]}
}

func (l linear) forward(d *kernels.Device, y, x tensor.Tensor) {
	d.Linear(y, x, l.weight.w, l.bias.w)
}

// backward sets dx, which may be no tensor where nothing below is trained, and adds to the gradients that there are.
func (l linear) backward(d *kernels.Device, dx, dy, x tensor.Tensor) {
	d.LinearBackward(dx, l.weight.dw, l.bias.dw, dy, x, l.weight.w)
}

func (l linear) trained() bool { return l.weight.dw.Ok() || l.bias.dw.Ok() }
