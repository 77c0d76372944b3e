package main

import (
	"context"
	"errors"

	"restyle/hf"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// An original is the model in IN. It keeps one layer's weights in memory, those that load has read, and the weights
// outside of layers.
type original struct {
	*model.Model
	c *hf.Checkpoint
}

func openOriginal(ctx context.Context, d *kernels.Device, c *hf.Checkpoint) (*original, error) {
	m, err := model.New(d, c.Config, model.Options{DType: dtypeOf(c), MaxTokens: maxTokens, ReuseWeights: true})
	if err != nil {
		return nil, err
	}
	o := &original{m, c}
	if err := o.load(ctx, model.Outside); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return o, nil
}

// load reads the weights of a layer, or those outside of layers.
func (o *original) load(ctx context.Context, layer int) error {
	return o.c.Load(ctx, o.Device(), inLayer(o.Model, layer), nil)
}

// inLayer returns the parameters of a layer.
func inLayer(m *model.Model, layer int) (params []model.Param) {
	for _, p := range m.Params() {
		if p.Layer == layer {
			params = append(params, p)
		}
	}
	return params
}

// dtypeOf returns the type of weights and activations that suits a checkpoint.
func dtypeOf(c *hf.Checkpoint) tensor.DType {
	if n := c.DTypes(); n[tensor.BF16] > n[tensor.F32] && n[tensor.F16] == 0 {
		return tensor.BF16
	}
	return tensor.F32
}
