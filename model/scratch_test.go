package model

import (
	"fmt"
	"testing"

	"restyle/kernels"
	"restyle/kernels/cuda"
	"restyle/tensor"
)

// TestMemoryOf_CoversScratch runs models of the shapes of real ones on GPUs that compute nothing, trains them, and
// extends a KV cache to its end: operations may not need more scratch memory than planned. In the small models of other
// tests, the minimum hides what is missing.
func TestMemoryOf_CoversScratch(t *testing.T) {
	const seq, context = 512, 1024
	var list []Options
	for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16} {
		list = append(list, Options{DType: dtype, MaxTokens: 4 * seq, Longest: seq, Train: true})
		for _, w := range []tensor.DType{0, tensor.INT8, tensor.NF4} {
			list = append(list, Options{DType: dtype, MaxTokens: 4 * seq, Longest: seq, Train: true, Adapter: adaptersOf,
				Trainable: func(string) bool { return false }, Quantization: Quantization{Layers: w}},
				Options{DType: dtype, Context: context, Adapter: adaptersOf, Quantization: Quantization{Layers: w}})
		}
		for _, w := range []tensor.DType{0, tensor.INT8, tensor.INT4} {
			q := Quantization{Layers: w, Head: w}
			list = append(list, Options{DType: dtype, Context: context, Quantization: q},
				Options{DType: dtype, MaxTokens: seq, Quantization: q})
		}
		for _, w := range []tensor.DType{0, tensor.INT4, tensor.NF4} { // among INT8
			q := Quantization{Layers: tensor.INT8, Weights: map[string]tensor.DType{
				"model.layers.0.self_attn.v_proj.weight": w, "model.layers.1.self_attn.q_proj.weight": w,
				"model.embed_tokens.weight": w}}
			for range 2 { // with and without INT8 activations
				list = append(list, Options{DType: dtype, Context: context, Quantization: q})
			}
			list = append(list, Options{DType: dtype, MaxTokens: 4 * seq, Longest: seq, Train: true, Adapter: adaptersOf,
				Trainable: func(string) bool { return false }, Quantization: q})
		}
	}
	for name, cfg := range shapes {
		cfg = enlarged(cfg)
		for _, fused := range []kernels.Fused{nil, kernels.All()} {
			for i, opts := range list {
				if CheckOptions(cfg, opts) != nil {
					continue
				}
				for _, major := range []int{8, 9} {
					var b kernels.Builds
					o := kernels.Options{Fused: fused}
					err := b.Rehearse(cuda.Properties{SMs: 132, Major: major}, o, func(d *kernels.Device) error {
						d.SetINT8Activations(i%2 == 1)
						planned := MemoryOf(d, fused, cfg, opts).Scratch
						err := rehearse(d, cfg, opts)
						if got := d.ScratchPeak(); got > planned {
							err = fmt.Errorf("operations needed %d bytes of scratch memory, planned %d", got, planned)
						}
						return err
					})
					if err != nil {
						t.Errorf("%s, fused %t, %d.0, %+v: %v", name, fused != nil, major, opts, err)
					}
				}
			}
		}
	}
}

// enlarged returns the configuration with sizes of which narrow and wide layers fill memory differently.
func enlarged(cfg Config) Config {
	cfg.KVHeads = cfg.KVHeads * 16 / cfg.Heads
	cfg.Vocab, cfg.Dim, cfg.Inner, cfg.Heads, cfg.HeadDim, cfg.MaxPositions = 30011, 1024, 2816, 16, 64, 2048
	if cfg.Mixture != nil {
		m := *cfg.Mixture
		m.Inner = 704
		cfg.Mixture = &m
	}
	return cfg
}

// rehearse does what the options are for.
func rehearse(d *kernels.Device, cfg Config, opts Options) error {
	m, err := New(d, cfg, opts)
	if err != nil {
		return err
	}
	defer m.Close()
	batch := func(n int) Batch {
		ids := make([]int32, n)
		return Batch{IDs: ids, Labels: ids}
	}
	if opts.Context > 0 {
		c, err := m.NewKVCache(opts.Context)
		if err != nil {
			return err
		}
		defer c.Close()
		for _, n := range []int{1, opts.Context - 2, 1} {
			if _, err := m.Extend(c, make([]int32, n)); err != nil {
				return err
			}
		}
		return nil
	}
	if !opts.Train {
		_, err := m.Loss(batch(opts.MaxTokens))
		return err
	}
	one := batch(opts.Longest)
	for _, b := range []Batch{Join(one, one, one, one), one, batch(8), batch(1)} {
		if _, err := m.Gradient(b, 1, Gradients{Overwrite: true}); err != nil {
			return err
		}
	}
	return nil
}
