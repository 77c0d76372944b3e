package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"restyle/kernels"
	"restyle/tensor"
)

// benchModels are the models of the speed comparisons: one of five million parameters, and two layers of Llama-3.2-1B
// with a small vocabulary.
var benchModels = []struct {
	name string
	c    Config
}{
	{"starter", Config{Family: "llama", Vocab: 2048, Dim: 256, Inner: 688, Layers: 6, Heads: 8, KVHeads: 4, HeadDim: 32,
		MaxPositions: 2048, NormEps: 1e-5, RoPETheta: 10000, Tied: true, PadID: -1}},
	{"llama-3.2-1b-2layers", Config{Family: "llama", Vocab: 4096, Dim: 2048, Inner: 8192, Layers: 2, Heads: 32, KVHeads: 8,
		HeadDim:      64,
		MaxPositions: 131072, NormEps: 1e-5, RoPETheta: 500000, Tied: true, PadID: -1,
		RoPEScaling: &RoPEScaling{Kind: RoPELlama3,
			Factor: 32, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: 8192}}},
}

// BenchmarkGradient measures the forward and backward pass of four micro-batches of 512 tokens, all of them targets: a
// training step without the optimizer. It reports the median step. FLOPs are 6 per matrix weight and token, plus causal
// attention.
func BenchmarkGradient(b *testing.B) {
	for _, bm := range benchModels {
		for _, dtype := range []tensor.DType{tensor.BF16, tensor.F32} {
			for _, fused := range []kernels.Fused{nil, kernels.All()} {
				b.Run(fmt.Sprintf("%s/%v/fused=%v", bm.name, dtype, fused), func(b *testing.B) {
					const seq, micro = 512, 4
					cfg := bm.c
					dev := device(b, kernels.Options{Fused: fused})
					m := open(b, dev, cfg, Options{DType: dtype, MaxTokens: seq, Train: true})
					rng := rand.New(rand.NewPCG(1, 2))
					var batches []Batch
					for range micro {
						x := Batch{IDs: make([]int32, seq)}
						for i := range x.IDs {
							x.IDs[i] = int32(rng.IntN(cfg.Vocab))
						}
						x.Labels = x.IDs
						batches = append(batches, x)
					}
					step := func() time.Duration {
						start := time.Now()
						for i, x := range batches {
							if _, err := m.Gradient(x, 1.0/(micro*(seq-1)), Gradients{Overwrite: i == 0}); err != nil {
								b.Fatal(err)
							}
						}
						return time.Since(start)
					}
					step()
					var all []time.Duration
					for b.Loop() {
						all = append(all, step())
					}
					slices.Sort(all)
					matmul := cfg.Layers*(cfg.Dim*2*(cfg.Heads+cfg.KVHeads)*cfg.HeadDim+3*cfg.Dim*cfg.Inner) + cfg.Vocab*cfg.Dim
					flops := float64(6*matmul + 6*cfg.Layers*seq*cfg.Heads*cfg.HeadDim)
					rate := micro * seq / all[len(all)/2].Seconds()
					b.ReportMetric(rate, "tok/s")
					b.ReportMetric(micro*seq/all[0].Seconds(), "best-tok/s")
					b.ReportMetric(rate*flops/1e9, "GFLOP/s")
				})
			}
		}
	}
}
