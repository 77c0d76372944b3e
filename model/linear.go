package model

import (
	"fmt"
	"slices"

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
// which are then one product, forward and backward, if they are of one type. If only some of these are trainable, each
// has a gradient of its own.
//
// All products with W are methods, and nothing outside this file reads the fields: another form of W is a change here.
type linear struct {
	parts   []part   // W: one, or several of different types
	bias    weight   // zero if the layer has none
	adapter *adapter // nil if it has none
}

// part is some rows of a matrix, from row from on, which are of one type.
type part struct {
	weight
	from int
}

// linear builds a linear layer with in inputs. Its outputs may belong to several parameters.
func (b *builder) linear(in int, bias bool, parts ...rows) linear {
	l := b.unadapted(in, bias, parts...)
	l.adapter = b.adapter(in, parts)
	return l
}

// unadapted does what linear does, for a layer that cannot have an adapter.
func (b *builder) unadapted(in int, bias bool, parts ...rows) linear {
	l := linear{parts: b.matrices(in, parts...)}
	if bias {
		l.bias = b.weight(".bias", Param{}, b.dtype, parts)
	}
	return l
}

// linearOf returns a layer without a bias that multiplies by w.
func linearOf(w weight) linear { return linear{parts: []part{{weight: w}}} }

// w returns the weights of a layer that has one part: of all layers but q, k, v and gate, up, whose rows are of one
// parameter, and of experts.
func (l linear) w() tensor.Tensor {
	if len(l.parts) > 1 {
		panic("model: a product with weights of several types")
	}
	return l.parts[0].w
}

func (l linear) forward(p *pass, y, x tensor.Tensor) {
	pair := l.adapter.pair(p, x)
	for _, part := range l.parts {
		p.dev.LinearPart(y, x, part.w, l.bias.w, part.from, pair...)
	}
}

// forwardSwiGLU computes y = SwiGLU(gateUp) of the layer's output gateUp.
func (l linear) forwardSwiGLU(p *pass, y, gateUp, x tensor.Tensor) {
	if len(l.parts) > 1 {
		l.forward(p, gateUp, x)
		p.dev.SwiGLU(y, gateUp)
		return
	}
	p.dev.LinearSwiGLU(y, gateUp, x, l.w(), l.bias.w, l.adapter.pair(p, x)...)
}

// forwardGELU computes y = GELU(pre) of the layer's output pre.
func (l linear) forwardGELU(p *pass, y, pre, x tensor.Tensor, form GELU) {
	p.dev.LinearActivation(y, pre, x, l.w(), l.bias.w, form.activation(), l.adapter.pair(p, x)...)
}

// backward overwrites dx, or adds to it if addToDx is true, and overwrites the gradients of the trainable weights, or
// adds to them. If dx is the zero Tensor, because nothing before the layer is trainable, it is not computed. The
// products of several parts are rounded one by one.
func (l linear) backward(p *pass, dx tensor.Tensor, addToDx bool, dy, x tensor.Tensor, overwrite bool) {
	pair := l.adapter.backward(p, dy, x, overwrite)
	if dx.Ok() {
		if l.adapter.drops(p) {
			l.adapter.backThrough(p, dx, addToDx, pair)
			addToDx, pair = true, nil
		}
		for _, part := range l.parts {
			p.dev.LinearPartBackward(dx, dy, part.w, part.from, addToDx, pair...)
			pair, addToDx = nil, true
		}
	}
	l.gradients(p.dev, dy, x, overwrite)
}

// backwardSwiGLU does what backward does, and continues through the SwiGLU before the layer, x = SwiGLU(gateUp): it
// overwrites dGateUp.
func (l linear) backwardSwiGLU(p *pass, dGateUp, dy, x, gateUp tensor.Tensor) {
	l.gradients(p.dev, dy, x, p.overwrite)
	pair := l.adapter.backward(p, dy, x, p.overwrite)
	if l.adapter.drops(p) {
		p.dev.SwiGLUBackward(dGateUp, l.adapter.backBehind(p, dy, l.w(), pair), gateUp)
		return
	}
	p.dev.SwiGLULinearBackward(dGateUp, dy, l.w(), gateUp, pair...)
}

// backwardGELU does what backward does, and continues through the GELU before the layer, x = GELU(pre): it overwrites
// dpre.
func (l linear) backwardGELU(p *pass, dpre, dy, x, pre tensor.Tensor, form GELU) {
	l.gradients(p.dev, dy, x, p.overwrite)
	pair := l.adapter.backward(p, dy, x, p.overwrite)
	if l.adapter.drops(p) {
		p.dev.ActivationBackward(dpre, l.adapter.backBehind(p, dy, l.w(), pair), pre, form.activation())
		return
	}
	p.dev.ActivationLinearBackward(dpre, dy, l.w(), pre, form.activation(), pair...)
}

// gradients overwrites the gradients of the trainable weights, or adds to them.
func (l linear) gradients(dev *kernels.Device, dy, x tensor.Tensor, overwrite bool) {
	for _, part := range l.parts {
		for _, g := range part.grads {
			dev.LinearGradient(g.dw, dy, x, part.from+g.from, !overwrite)
		}
	}
	l.bias.zeroIf(dev, overwrite)
	for _, g := range l.bias.grads {
		dev.BiasGradient(g.dw, dy, g.from)
	}
}

// The forms of a layer that has the weights of several experts: rows of x that follow each other belong to the same
// expert, see kernels.Device.GroupedLinear.

func (l linear) forwardGrouped(dev *kernels.Device, y, x, offsets tensor.Tensor, most int) {
	dev.GroupedLinear(y, x, l.w(), offsets, most)
}

// forwardGroupedSwiGLU computes y = SwiGLU(gateUp) of the layer's output gateUp, which is undefined afterwards unless
// keep is set.
func (l linear) forwardGroupedSwiGLU(dev *kernels.Device, y, gateUp, x, offsets tensor.Tensor, most int, keep bool) {
	dev.GroupedSwiGLU(y, gateUp, x, l.w(), offsets, most, keep)
}

// inputGradientGrouped overwrites dx.
func (l linear) inputGradientGrouped(dev *kernels.Device, dx, dy, offsets tensor.Tensor, most int) {
	dev.GroupedLinearBackward(dx, dy, l.w(), offsets, most)
}

func (l linear) gradientsGrouped(dev *kernels.Device, dy, x, offsets tensor.Tensor, overwrite bool) {
	for _, g := range l.parts[0].grads {
		dev.GroupedLinearGradient(g.dw, dy, x, offsets, g.from, !overwrite)
	}
}

// The forms for one token, whose residual stream is h, on a device that decodes: see Model.decodes.

// decode computes the layer's output for the normalized h.
func (l linear) decode(p *pass, y, h tensor.Tensor, n norm) {
	pair := l.adapter.pairAfter(p, h, n)
	for _, part := range l.parts {
		p.dev.NormLinearPart(y, h, n.w, part.w, l.bias.w, n.eps, part.from, pair...)
	}
}

// decodeSwiGLU does what decode does, and then computes SwiGLU of the output. gateUp is undefined afterwards.
func (l linear) decodeSwiGLU(p *pass, y, gateUp, h tensor.Tensor, n norm) {
	if len(l.parts) > 1 {
		l.decode(p, gateUp, h, n)
		p.dev.SwiGLU(y, gateUp)
		return
	}
	p.dev.NormSwiGLU(y, h, n.w, l.w(), l.bias.w, n.eps, l.adapter.pairAfter(p, h, n)...)
}

// decodeAdd adds the layer's output to h.
func (l linear) decodeAdd(p *pass, h, x tensor.Tensor) {
	p.dev.LinearAdd(h, x, l.w(), l.bias.w, l.adapter.pair(p, x)...)
}

// decodeAddBefore does what decodeAdd does, and prefetches the weights of the next layer, or the first part of them.
func (l linear) decodeAddBefore(p *pass, next linear, h, x tensor.Tensor) {
	p.dev.LinearAddBefore(next.parts[0].w, h, x, l.w(), l.bias.w, l.adapter.pair(p, x)...)
}

// input calls f with the weights and an input of the layer, for each part.
func (l linear) input(f func(w, x tensor.Tensor), x tensor.Tensor) {
	for _, part := range l.parts {
		f(part.w, x)
	}
}

// quantized reports whether a part is quantized.
func (l linear) quantized() bool {
	return slices.ContainsFunc(l.parts, func(p part) bool { return p.w.DType.Quantized() })
}

// oneType returns an error if the layer has several parts.
func (l linear) oneType() error {
	if len(l.parts) == 1 {
		return nil
	}
	a, b := l.parts[0].w, l.parts[1].w
	return fmt.Errorf("%s is %v and %s is %v: the experts of a layer must agree: one type for all gates and ups, and one "+
		"for all downs", a.Name, a.DType, b.Name, b.DType)
}

func (l linear) trainable() bool {
	own := slices.ContainsFunc(l.parts, part.trainable)
	return own || l.bias.trainable() || l.adapter != nil && l.adapter.da.Ok()
}

// flops returns the floating-point operations of the layer per token. Each weight takes two in the forward pass, two
// for the gradient of its input if below is true, and two for its own gradient if it is trainable.
func (l linear) flops(below bool) float64 {
	n := 0.0
	for _, part := range l.parts {
		n += 2 * float64(part.w.Len())
	}
	if below {
		n *= 2
	}
	for _, part := range l.parts {
		for _, g := range part.grads {
			n += 2 * float64(g.dw.Len())
		}
	}
	return n + l.adapter.flops(below)
}

// activation returns the form as an activation of a linear layer.
func (g GELU) activation() kernels.Activation {
	if g == GELUTanh {
		return kernels.GELUTanh
	}
	return kernels.GELUExact
}
