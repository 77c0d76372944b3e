package infer

import (
	"context"
	"errors"

	"restyle/kernels"
	"restyle/model"
)

// Rehearse runs a prompt and one token of its answer through a model, tokens tokens in all. On a device that only
// records (see kernels.Builds) this tells which kernels an Engine launches.
func Rehearse(m *model.Model, tokens int) error {
	if tokens < 2 {
		return nil
	}
	cache, err := m.NewKVCache(tokens)
	if err != nil {
		return err
	}
	for _, n := range []int{tokens - 1, 1} {
		if _, e := m.Extend(cache, make([]int32, n)); err == nil {
			err = e
		}
	}
	return errors.Join(err, cache.Close())
}

// precompile compiles the kernels of an engine in parallel, before it is opened.
func precompile(ctx context.Context, dev *kernels.Device, c model.Config, o model.Options) error {
	return dev.Precompile(ctx, func(dev *kernels.Device) error {
		m, err := model.New(dev, c, o)
		if err != nil {
			return err
		}
		return errors.Join(Rehearse(m, min(defaultContext, c.MaxPositions)), m.Close())
	}, nil)
}
