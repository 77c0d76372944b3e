package model

import (
	"fmt"
	"slices"
	"strings"

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
	// Decay says that weight decay applies: to matrices, not to norms and biases.
	Decay bool
}

// Trained says whether the parameter has a gradient.
func (p Param) Trained() bool { return p.Grad.Ok() }

// together are parameters that lie behind each other in one matrix, because one product computes all of them.
var together = [][]string{
	{"self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj."},
	{"mlp.gate_proj.", "mlp.up_proj."},
}

// group is the key under which a parameter shares its matrix with others: its name, with the first of those that belong
// together in place of its own part.
func group(name string) string {
	for _, names := range together {
		for _, part := range names {
			if i := strings.Index(name, part); i >= 0 {
				return name[:i] + names[0] + name[i+len(part):]
			}
		}
	}
	return name
}

// A pair is a matrix, or a vector, and its gradient. The gradient is no tensor where nothing in it is trained.
type pair struct{ w, dw tensor.Tensor }

// allocate cuts all parameters from one arena and their gradients from another, in the order of Config.Tensors. What
// belongs together becomes one matrix. trained chooses by name; nil gradients: none is.
func allocate(c Config, t tensor.DType, weights, gradients *kernels.Arena, trained func(string) bool) (map[string]pair, []Param) {
	specs := c.Tensors()
	pairs := map[string]pair{}
	var params []Param
	for i := 0; i < len(specs); {
		key := group(specs[i].Name)
		n := i
		rows := 0
		learn := false
		for ; n < len(specs) && group(specs[n].Name) == key; n++ {
			rows += specs[n].Shape[0]
			learn = learn || gradients != nil && trained(specs[n].Name)
		}
		shape := slices.Clone(specs[i].Shape)
		shape[0] = rows
		p := pair{w: weights.New(key, t, shape...)}
		if learn {
			p.dw = gradients.New("grad "+key, tensor.F32, shape...)
		}
		pairs[key] = p
		at := 0
		for ; i < n; i++ {
			s := specs[i]
			q := Param{Name: s.Name, W: p.w.Slice(at, at+s.Shape[0]), Decay: len(s.Shape) > 1}
			q.W.Name = s.Name
			if learn && trained(s.Name) {
				q.Grad = p.dw.Slice(at, at+s.Shape[0])
				q.Grad.Name = "grad " + s.Name
			}
			params = append(params, q)
			at += s.Shape[0]
		}
	}
	return pairs, params
}

// need is the pair of that name, which the configuration must have given.
func need(pairs map[string]pair, name string) pair {
	p, ok := pairs[name]
	if !ok {
		panic(fmt.Sprintf("model: no parameter %s", name))
	}
	return p
}
