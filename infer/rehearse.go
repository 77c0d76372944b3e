package infer

import (
	"context"
	"errors"

	"restyle/kernels"
	"restyle/model"
)

// Rehearse runs prompts of less than tokens tokens through a model. On a device that only records (see kernels.Builds)
// this tells which kernels an Engine launches, for a prompt and an answer of any length. Only the products of the
// longest prompt are recorded for kernels.Device.ChooseProducts.
func Rehearse(m *model.Model, tokens int) error {
	if tokens < 2 {
		return nil
	}
	cache, err := m.NewKVCache(tokens)
	if err != nil {
		return err
	}
	_, err = m.Extend(cache, make([]int32, tokens-1))
	err = errors.Join(err, cache.Close())
	m.Device().Untimed(func() { err = errors.Join(err, rehearseLengths(m, min(tokens-1, m.PrefillChunk()))) })
	return err
}

// Of prompts longer than everyLength, multiples of rehearsedRows are rehearsed: their products' kernels change with
// tiles, and no longer with rows.
const everyLength, rehearsedRows = 512, 8

// rehearseLengths runs prompts of lengths up to longest, because the number of rows decides which kernels compute
// products, and how they are compiled. One layer of each kind is enough: all of a kind launch the same kernels.
func rehearseLengths(m *model.Model, longest int) error {
	cfg := m.Config()
	if m.Quantization().Weights == nil { // otherwise each layer may have types of its own
		cfg, _ = cfg.OneOfEach()
	}
	one, err := model.New(m.Device(), cfg, model.Options{DType: m.DType(), Quantization: m.Quantization(),
		Adapter: m.Adapter(), ReuseWeights: m.ReuseWeights()})
	if err != nil {
		return err
	}
	one.Before = m.Before
	cache, err := one.NewKVCache(longest)
	if err != nil {
		return errors.Join(err, one.Close())
	}
	for n := 1; n <= longest && err == nil; n++ {
		if n > everyLength && n%rehearsedRows != 0 && n != longest {
			continue
		}
		cache.Trim(0)
		_, _, err = one.Greedy(cache, make([]int32, n))
	}
	return errors.Join(err, cache.Close(), one.Close())
}

// precompile compiles the kernels of an engine in parallel, before it is opened.
func precompile(ctx context.Context, dev *kernels.Device, c model.Config, o model.Options) error {
	return dev.Precompile(ctx, func(dev *kernels.Device) error {
		m, err := model.New(dev, c, o)
		if err != nil {
			return err
		}
		return errors.Join(Rehearse(m, min(defaultContext, c.Positions())), m.Close())
	}, nil)
}
