package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"restyle/internal/expect"
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

// BenchmarkPool measures what many sequences at once gain, and what it costs that each is computed as if it were the
// only one: tokens per second that a model of the size of SmolLM2-135M generates, 32 each after prompts of 128, as
// one sequence in a KVCache and as one, eight and 32 in a Pool. They take turns, and the median counts.
func BenchmarkPool(b *testing.B) {
	cfg := Config{Family: "llama", Vocab: 49152, Dim: 576, Inner: 1536, Layers: 30, Heads: 9, KVHeads: 3, HeadDim: 64,
		MaxPositions: 8192, NormEps: 1e-5, RoPETheta: 100000, Tied: true, PadID: -1}
	for _, q := range []tensor.DType{0, tensor.INT8, tensor.INT4} {
		b.Run(fmt.Sprint(q), func(b *testing.B) {
			const prompt, answer, most = 128, 32, 32
			m := open(b, device(b, kernels.Options{Fused: kernels.All()}), cfg,
				Options{DType: tensor.BF16, Quantization: Quantization{Layers: q, Head: q}, Context: prompt + answer})
			p, err := m.NewPool(PoolOptions{Blocks: most * blocksOf(prompt+answer), Rows: 512, Pieces: most})
			expect.OK(b, err)
			defer p.Close()
			cache, err := m.NewKVCache(prompt + answer)
			expect.OK(b, err)
			defer cache.Close()
			ids := sequence(cfg, 1, prompt+answer).IDs
			times := map[string][]time.Duration{}
			timed := func(name string, f func() error) {
				start := time.Now()
				expect.OK(b, f())
				times[name] = append(times[name], time.Since(start))
			}
			for b.Loop() {
				cache.Trim(0)
				timed("cache-prompt", func() error {
					_, err := m.Extend(cache, ids[:prompt])
					return err
				})
				for at := prompt; at < prompt+answer; at++ {
					timed("cache-1", func() error {
						_, err := m.Extend(cache, ids[at:at+1])
						return err
					})
				}
				for _, n := range []int{1, 8, most} {
					for s := range n { // one prompt after the other
						timed("pool-prompt", func() error { return p.samePieces(ids, s, s+1, 0, prompt) })
					}
					for at := prompt; at < prompt+answer; at++ {
						timed(fmt.Sprint("pool-", n), func() error { return p.samePieces(ids, 0, n, at, at+1) })
					}
				}
			}
			for name, all := range times {
				tokens := prompt
				fmt.Sscanf(name, "cache-%d", &tokens)
				fmt.Sscanf(name, "pool-%d", &tokens)
				slices.Sort(all)
				b.ReportMetric(float64(tokens)/all[len(all)/2].Seconds(), name+"-tok/s")
			}
		})
	}
}

// samePieces computes the tokens lo to hi of the sequences first to end, which are all the same.
func (p *Pool) samePieces(ids []int32, first, end, lo, hi int) error {
	var pieces []Piece
	for s := first; s < end; s++ {
		blocks := make([]int32, blocksOf(len(ids)))
		for i := range blocks {
			blocks[i] = int32(s*len(blocks) + i)
		}
		pieces = append(pieces, Piece{IDs: ids[lo:hi], At: lo, Blocks: blocks, Logits: true})
	}
	_, err := p.Step(pieces)
	return err
}
