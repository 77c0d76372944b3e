package model

import (
	"fmt"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/tensor"
)

// TestAttention_UnscaledScores checks that scores that are not divided by √HeadDim equal the divided scores of
// queries √HeadDim times as long: of a whole sequence and with a cache, fused and not, on the CPU and on a GPU.
func TestAttention_UnscaledScores(t *testing.T) {
	for _, fused := range []kernels.Fused{nil, kernels.All()} {
		for _, dev := range []*kernels.Device{
			device(t, kernels.Options{Fused: fused}), testGPU(t, kernels.Options{Fused: fused})} {
			for _, byLayer := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, fused %t, by layer %t", dev.Name(), fused != nil, byLayer), func(t *testing.T) {
					cfg := shapes["gpt2"]
					cfg.Dim, cfg.Heads, cfg.KVHeads, cfg.HeadDim, cfg.ByLayer = 48, 3, 3, 16, byLayer
					long := unscaledLogits(t, dev, cfg, func(int) float32 { return 4 }) // = √HeadDim
					cfg.Unscaled = true
					same := func(int) float32 { return 1 }
					if off := distance(unscaledLogits(t, dev, cfg, same), long); off > 1e-6 {
						t.Errorf("the logits are off by %.2g", off)
					}
					cfg.ByLayer = false
					shorter := func(layer int) float32 {
						if byLayer {
							return 1 / float32(layer+1)
						}
						return 1
					}
					if off := distance(unscaledLogits(t, dev, cfg, shorter), long); off > 1e-6 {
						t.Errorf("the logits of queries shortened by layer are off by %.2g", off)
					}
				})
			}
		}
	}
}

// unscaledLogits returns the logits of a sequence, whole and with a cache, if the queries of each layer are multiplied
// by a factor.
func unscaledLogits(t *testing.T, dev *kernels.Device, cfg Config, factor func(layer int) float32) (all []float32) {
	m := open(t, dev, cfg, Options{DType: tensor.F32, MaxTokens: 9})
	for _, p := range m.Params() {
		if strings.Contains(p.Name, "attn.c_attn") {
			var layer int
			if _, err := fmt.Sscanf(p.Name, "transformer.h.%d.", &layer); err != nil {
				t.Fatal(p.Name, err)
			}
			w, err := dev.Floats(p.W)
			expect.OK(t, err)
			for i := range w[:len(w)/3] {
				w[i] *= factor(layer)
			}
			dev.Upload(p.W, w)
		}
	}
	b := sequence(cfg, 4, 9)
	expect.OK(t, m.Logits(b, func(_ int, logits []float32) { all = append(all, logits...) }))
	cache := newCache(t, m, 9)
	all = append(all, extend(t, m, cache, b.IDs[:6]...)...)
	for _, id := range b.IDs[6:] {
		all = append(all, extend(t, m, cache, id)...)
	}
	return all
}
