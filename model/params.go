package model

import (
	"slices"

	"restyle/kernels"
	"restyle/tensor"
)

// A Param is one parameter, under its Hugging Face name. Loading, saving, the optimiser, clipping and counting all follow
// from the list of them.
type Param struct {
	Name string
	// W is the weight. It may be a part of a larger matrix: q, k and v lie behind each other and are multiplied as one.
	W tensor.Tensor
	// Grad is its gradient, F32, or what Options.GradType says. It is no tensor when the parameter is frozen, or the model was
	// opened without.
	Grad tensor.Tensor
	// Layer is the layer that the parameter belongs to, from 0; Outside for the embedding, the last norm and the head.
	Layer int
	// Decay says that weight decay applies: to matrices, not to norms and biases.
	Decay bool
	// Norm says that it is the weight of an RMSNorm.
	Norm bool
}

// Outside is the Layer of what belongs to none.
const Outside = -1

// Trainable reports whether the parameter has a gradient.
func (p Param) Trainable() bool { return p.Grad.Ok() }

// A builder makes the tensors that the parts of a model ask for, and keeps the list of them: from it follow the parameters,
// their names in files, their sizes and their number.
type builder struct {
	weights   *kernels.Arena
	gradients *kernels.Arena // nil: nothing is trained
	dtype     tensor.DType   // of weights
	gradType  tensor.DType   // of the gradients of a block's matrices
	headType  tensor.DType   // of the gradient of an untied head
	matrices  tensor.DType   // of the gradients of those that are being made
	trainable func(name string) bool
	layer     int    // whose parts are being made
	prefix    string // of their names

	params []Param
}

// rows is one layer's share of a matrix: its name, and how many outputs it has.
type rows struct {
	name string
	n    int
}

// linear makes a layer of in inputs, whose outputs are those of several in the files.
func (b *builder) linear(in int, bias bool, parts ...rows) (l linear) {
	l.weight = b.weight(".weight", Param{Decay: true}, parts, in)
	if bias {
		l.bias = b.weight(".bias", Param{}, parts)
	}
	return l
}

// norm makes the weight of an RMSNorm.
func (b *builder) norm(name string, size int) weight {
	return b.weight(".weight", Param{Norm: true}, []rows{{name, size}})
}

// weight makes one tensor whose rows, of shape inner, are those of several parameters of a kind, under their names with an ending.
// What is trained whole has its gradient in one piece; otherwise each parameter that is trained has its own.
func (b *builder) weight(ending string, kind Param, parts []rows, inner ...int) (m weight) {
	shape := func(n int) []int { return append([]int{n}, inner...) }
	names, learn, n := make([]string, len(parts)), make([]bool, len(parts)), 0
	for i, r := range parts {
		names[i] = b.prefix + r.name + ending
		learn[i] = b.gradients != nil && b.trainable(names[i])
		n += r.n
	}
	m.w = b.weights.New(names[0], b.dtype, shape(n)...)
	gradType := tensor.F32
	if kind.Decay {
		gradType = b.matrices
	}
	whole := !slices.Contains(learn, false)
	if whole {
		m.grads = []grad{{dw: b.gradients.New("grad "+names[0], gradType, shape(n)...)}}
	}
	at := 0
	for i, r := range parts {
		p := kind
		p.Name, p.W, p.Layer = names[i], m.w.Slice(at, at+r.n), b.layer
		p.W.Name = names[i]
		switch {
		case whole:
			p.Grad = m.grads[0].dw.Slice(at, at+r.n)
		case learn[i]:
			p.Grad = b.gradients.New("", gradType, shape(r.n)...)
			m.grads = append(m.grads, grad{p.Grad, at})
		}
		if learn[i] {
			p.Grad.Name = "grad " + names[i]
		}
		b.params = append(b.params, p)
		at += r.n
	}
	return m
}
