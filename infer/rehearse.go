package infer

import (
	"context"
	"errors"

	"restyle/kernels"
	"restyle/model"
)

// Rehearse has a model read a question and a token of its answer, of so many tokens together. With a device that computes nothing
// (see kernels.Builds) it shows which kernels an Engine launches.
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

// precompile compiles the kernels of an engine that is to be opened, in parallel.
func precompile(ctx context.Context, dev *kernels.Device, c model.Config, o model.Options) error {
	return dev.Precompile(ctx, func(dev *kernels.Device) error {
		m, err := model.New(dev, c, o)
		if err != nil {
			return err
		}
		return errors.Join(Rehearse(m, min(defaultContext, c.MaxPositions)), m.Close())
	}, nil)
}
