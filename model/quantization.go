package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"restyle/tensor"
)

// A Quantization holds the types of a model's quantized weights, or 0 for weights that are not quantized. The zero
// value quantizes nothing. Norms, biases, learned positions and routers are never quantized.
type Quantization struct {
	Layers tensor.DType // of the linear layers in the model's layers
	Head   tensor.DType // of the head, and so of an embedding that is tied to it
	// Weights is the types of single matrices, by their Params' names, such as "model.layers.0.self_attn.v_proj.weight":
	// they win over Layers and Head. Only so is an embedding quantized that is not the head. 0, or Options.DType, means
	// that the matrix is not quantized. The experts of a layer must agree: one type for gates and ups, one for downs.
	Weights map[string]tensor.DType
}

// None reports whether no weight is quantized.
func (q Quantization) None() bool { return q.Types() == nil }

// Equal reports whether two are the same.
func (q Quantization) Equal(r Quantization) bool {
	return q.Layers == r.Layers && q.Head == r.Head && maps.Equal(q.Weights, r.Weights)
}

// Types returns the types of quantized weights, each once, ascending; nil if there are none.
func (q Quantization) Types() (list []tensor.DType) {
	for _, t := range append(slices.Collect(maps.Values(q.Weights)), q.Layers, q.Head) {
		if t.Quantized() {
			list = append(list, t)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// String names the types of quantized weights, such as "Q4_K and Q6_K"; "" if there are none.
func (q Quantization) String() string {
	var names []string
	for _, t := range q.Types() {
		names = append(names, t.String())
	}
	return strings.Join(names, " and ")
}

// validate reports the first type that no weight could have in a model of type t.
func (q Quantization) validate(t tensor.DType) error {
	for _, of := range []tensor.DType{q.Layers, q.Head} {
		if of != 0 && !of.Quantized() {
			return fmt.Errorf("model: Quantization %v: must be a quantized type, such as INT8", of)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.Weights)) {
		if of := q.Weights[name]; of != 0 && of != t && !of.Quantized() {
			return fmt.Errorf("model: Quantization of %s is %v: must be 0, the model's %v, or a quantized type, such as INT8",
				name, of, t)
		}
	}
	return nil
}

// checkNames returns an error for the first name that none of the matrices has that can be quantized.
func (q Quantization) checkNames(matrices map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(q.Weights)) {
		if !matrices[name] {
			return fmt.Errorf("model: Quantization of %s: the model has no matrix of that name that can be quantized: norms, "+
				"biases, positions and routers cannot", name)
		}
	}
	return nil
}

// widest returns the most inputs of a linear layer.
func (c Config) widest() int { return max(c.Dim, c.Inner, c.expertInner(), c.Heads*c.HeadDim) }
