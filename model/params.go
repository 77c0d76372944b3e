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
	// Grad is its gradient, always F32. It is no tensor when the parameter is frozen, or the model was opened without.
	Grad tensor.Tensor
	// Block is the block that the parameter belongs to, from 0; Outside for the embedding, the last norm and the head.
	Block int
	// Decay says that weight decay applies: to matrices, not to norms and biases.
	Decay bool
}

// Outside is the Block of what belongs to none.
const Outside = -1

// Trained says whether the parameter has a gradient.
func (p Param) Trained() bool { return p.Grad.Ok() }

// A builder makes the tensors that the parts of a model ask for, and keeps the list of them: from it follow the parameters,
// their names in files, their sizes and their number.
type builder struct {
	weights   *kernels.Arena
	gradients *kernels.Arena // nil: nothing is trained
	dtype     tensor.DType   // of weights
	trained   func(name string) bool
	block     int    // whose parts are being made
	prefix    string // of their names

	params []Param
	specs  []TensorSpec
}

// rows is one layer's share of a matrix: its name, and how many outputs it has.
type rows struct {
	name string
	n    int
}

// linear makes a layer of in inputs, whose outputs are those of several in the files.
func (b *builder) linear(in int, bias bool, parts ...rows) (l linear) {
	l.weight = b.weight(parts, func(r rows) TensorSpec {
		return TensorSpec{Name: r.name + ".weight", Shape: []int{r.n, in}}
	})
	if bias {
		l.bias = b.weight(parts, func(r rows) TensorSpec {
			return TensorSpec{Name: r.name + ".bias", Shape: []int{r.n}, Bias: true}
		})
	}
	return l
}

// norm makes the weight of an RMSNorm.
func (b *builder) norm(name string, size int) weight {
	return b.weight([]rows{{name, size}}, func(r rows) TensorSpec {
		return TensorSpec{Name: r.name + ".weight", Shape: []int{r.n}, Norm: true}
	})
}

// weight makes one tensor whose rows are those of several parameters. What is trained whole has its gradient in one piece;
// otherwise each parameter that is trained has its own.
func (b *builder) weight(parts []rows, spec func(rows) TensorSpec) (m weight) {
	var specs []TensorSpec
	var learn []bool
	n := 0
	for _, r := range parts {
		s := spec(rows{b.prefix + r.name, r.n})
		specs = append(specs, s)
		learn = append(learn, b.gradients != nil && b.trained(s.Name))
		n += r.n
	}
	shape := slices.Clone(specs[0].Shape)
	shape[0] = n
	m.w = b.weights.New(specs[0].Name, b.dtype, shape...)
	if !slices.Contains(learn, false) {
		m.grads = []grad{{dw: b.gradients.New("grad "+specs[0].Name, tensor.F32, shape...)}}
	}
	at := 0
	for i, s := range specs {
		end := at + s.Shape[0]
		p := Param{Name: s.Name, W: m.w.Slice(at, end), Block: b.block, Decay: len(s.Shape) > 1}
		p.W.Name = s.Name
		switch {
		case !slices.Contains(learn, false):
			p.Grad = m.grads[0].dw.Slice(at, end)
		case learn[i]:
			p.Grad = b.gradients.New("", tensor.F32, s.Shape...)
			m.grads = append(m.grads, grad{p.Grad, at})
		}
		if learn[i] {
			p.Grad.Name = "grad " + s.Name
		}
		b.params = append(b.params, p)
		at = end
	}
	b.specs = append(b.specs, specs...)
	return m
}
