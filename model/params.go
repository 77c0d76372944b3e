package model

import (
	"cmp"
	"slices"

	"restyle/kernels"
	"restyle/tensor"
)

// A Param is one parameter, by its Hugging Face name. Loading, saving, the optimizer, clipping and counting all use the
// list of them.
type Param struct {
	Name string
	// W is the weight. It may be part of a larger matrix: q, k and v are adjacent and multiplied as one.
	W tensor.Tensor
	// Grad is the gradient: F32, or Options.GradType. It is the zero Tensor if the parameter is frozen or the model was
	// made without Options.Train.
	Grad tensor.Tensor
	// Layer is the index of the layer that the parameter belongs to, or Outside for the embedding, the last norm and the
	// head.
	Layer int
	// Decay reports whether weight decay applies: to matrices, but not to norms and biases.
	Decay bool
	// Norm reports whether W is the weight of a norm.
	Norm bool
	// Adapter reports whether the parameter is a factor of a layer's adapter: see Options.Adapter.
	Adapter bool
	// Transposed reports whether files store W, a matrix, as [in, out] instead of [out, in].
	Transposed bool
}

// Outside is the Layer of parameters that belong to no layer.
const Outside = -1

// Trainable reports whether the parameter has a gradient.
func (p Param) Trainable() bool { return p.Grad.Ok() }

// builder allocates the tensors of a model's parts and lists them. From that list follow the parameters, their names in
// files, their sizes and their number.
type builder struct {
	weights      *kernels.Arena
	gradients    *kernels.Arena // nil if nothing is trainable
	dtype        tensor.DType   // of weights
	gradType     tensor.DType   // of the gradients of matrices in layers
	headType     tensor.DType   // of the gradient of an untied head
	matrixGrads  tensor.DType   // of the gradients of the matrices that are being built
	products     tensor.DType   // of the matrices that are being built, if Quantization.Weights has none; 0: dtype
	quantization Quantization
	trainable    func(name string) bool
	adapters     func(module string) (rank int, scale float64, ok bool)
	room         int    // Options.AdapterRoom
	layer        int    // that is being built
	prefix       string // of its parameters' names
	transpose    bool   // files store its matrices as [in, out]

	params   []Param
	built    []*adapter
	arriving arrivals
	factors  tensor.Tensor   // memory of the list of the adapters' factors; the zero Tensor: there are none
	refused  []string        // modules that would have adapters but cannot
	codable  map[string]bool // the matrices that may be quantized
}

// rows are the rows of a matrix that belong to one parameter: its name and their number.
type rows struct {
	name string
	n    int
}

// plain builds a matrix with in columns that is not quantized.
func (b *builder) plain(in int, r rows) weight { return b.matrix(in, b.dtype, r) }

func (b *builder) matrix(in int, t tensor.DType, parts ...rows) weight {
	return b.weight(".weight", Param{Decay: true, Transposed: b.transpose}, t, parts, in)
}

// matrices builds a matrix with in columns. Its rows may belong to several parameters; neighbors of one type are one
// tensor.
func (b *builder) matrices(in int, parts ...rows) (list []part) {
	types := make([]tensor.DType, len(parts))
	for i, r := range parts {
		types[i] = b.typeOf(b.prefix + r.name + ".weight")
	}
	first, from := 0, 0 // of a tensor: its first parameter and row
	for i := range parts {
		if i+1 < len(parts) && types[i+1] == types[i] {
			continue
		}
		w := b.matrix(in, types[i], parts[first:i+1]...)
		list = append(list, part{w, from})
		first, from = i+1, from+w.w.Dim(0)
	}
	return list
}

// typeOf returns the type of a matrix that may be quantized.
func (b *builder) typeOf(name string) tensor.DType {
	b.codable[name] = true
	t, ok := b.quantization.Weights[name]
	if !ok {
		t = b.products
	}
	return cmp.Or(t, b.dtype)
}

// scale builds the weight of a norm over size elements.
func (b *builder) scale(name string, size int) weight {
	return b.weight(".weight", Param{Norm: true}, b.dtype, []rows{{name, size}})
}

// norm builds a norm of the residual stream.
func (b *builder) norm(cfg Config, name string) norm {
	n := norm{weight: b.scale(name, cfg.Dim), centered: cfg.LayerNorm, eps: cfg.NormEps}
	if cfg.NormBias {
		n.bias = b.weight(".bias", Param{}, b.dtype, []rows{{name, cfg.Dim}})
	}
	return n
}

// weight builds one tensor of type t whose rows, each of shape inner, belong to several parameters. Their names end in
// suffix, and kind has their other fields. If all are trainable, they share one gradient; otherwise each trainable one
// has its own.
func (b *builder) weight(suffix string, kind Param, t tensor.DType, parts []rows, inner ...int) (m weight) {
	shape := func(n int) []int { return append([]int{n}, inner...) }
	names, trainable, n := make([]string, len(parts)), make([]bool, len(parts)), 0
	for i, r := range parts {
		names[i] = b.prefix + r.name + suffix
		trainable[i] = b.gradients != nil && b.trainable(names[i])
		n += r.n
	}
	m.w = b.weights.New(names[0], t, shape(n)...)
	gradType := tensor.F32
	if kind.Decay {
		gradType = b.matrixGrads
	}
	whole := !slices.Contains(trainable, false)
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
		case trainable[i]:
			p.Grad = b.gradients.New("", gradType, shape(r.n)...)
			m.grads = append(m.grads, grad{p.Grad, at})
		}
		if trainable[i] {
			p.Grad.Name = "grad " + names[i]
		}
		b.params = append(b.params, p)
		at += r.n
	}
	return m
}
