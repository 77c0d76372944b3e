package model

import (
	"fmt"

	"restyle/tensor"
)

// A Quantization is the types of a model's quantized weights: tensor.INT8, INT4, INT4Z, NF4, or 0 for weights that are
// not quantized. The zero value quantizes nothing. Everything else keeps its type: norms, biases, an embedding that is
// not the head, learned positions and routers.
type Quantization struct {
	Layers tensor.DType // of the linear layers in the model's layers
	Head   tensor.DType // of the head, and so of an embedding that is tied to it
}

func (q Quantization) validate() error {
	for _, t := range []tensor.DType{q.Layers, q.Head} {
		if t != 0 && !t.Quantized() {
			return fmt.Errorf("model: Quantization %v: must be INT8, INT4, INT4Z or NF4", t)
		}
	}
	return nil
}

// onlyINT8 reports whether all quantized weights are INT8.
func (q Quantization) onlyINT8() bool {
	return (q.Layers == tensor.INT8 || q.Layers == 0) && (q.Head == tensor.INT8 || q.Head == 0)
}

// anyNF4 reports whether some quantized weights are NF4.
func (q Quantization) anyNF4() bool { return q.Layers == tensor.NF4 || q.Head == tensor.NF4 }

// widest returns the most inputs of a linear layer.
func (c Config) widest() int { return max(c.Dim, c.Inner, c.expertInner(), c.Heads*c.HeadDim) }
