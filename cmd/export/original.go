package main

import (
	"context"
	"errors"

	"restyle/hf"
	"restyle/kernels"
	"restyle/model"
)

// An original is the model in IN. It keeps in memory the weights of the layer that load has read last, and the weights
// outside of layers.
type original struct {
	*model.Model
	c *hf.Checkpoint
}

func openOriginal(ctx context.Context, d *kernels.Device, c *hf.Checkpoint) (*original, error) {
	m, err := model.New(d, c.Config, model.Options{DType: c.DType(), MaxTokens: maxTokens, ReuseWeights: 1})
	if err != nil {
		return nil, err
	}
	o := &original{m, c}
	if err := o.load(ctx, model.Outside); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return o, nil
}

// load reads the weights of a layer, or the weights outside of layers.
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
