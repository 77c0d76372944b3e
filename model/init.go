package model

import (
	"math"
	"math/rand/v2"
)

// Init sets the first weights of a model to be trained from scratch. Matrices are drawn from a normal distribution with
// mean 0 and standard deviation std (transformers' initializer_range, usually 0.02), norms are 1 and biases 0. The same
// seed gives the same weights, whether or not the model has others: each tensor has its own PCG generator, seeded with
// seed and its index in Params. Adapters and quantized weights are left as they are.
func (m *Model) Init(seed uint64, std float64) {
	for layer := Outside; layer < m.cfg.Layers; layer++ {
		m.InitLayer(layer, seed, std)
	}
}

// InitLayer does what Init does, for the parameters of one layer, or of Outside.
func (m *Model) InitLayer(layer int, seed uint64, std float64) {
	for i, p := range m.params {
		if p.Layer != layer || p.Adapter || p.W.DType.Quantized() {
			continue
		}
		x := make([]float32, p.W.Len())
		switch {
		case p.Decay:
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for j := range x {
				x[j] = float32(std * r.NormFloat64())
			}
		case p.Norm:
			for j := range x {
				x[j] = 1
			}
		}
		m.dev.Upload(p.W, x)
	}
}

// InitAdapters sets the first weights of adapters, as PEFT does: each a is drawn uniformly from ±1/√in, and b is 0, so
// that at first the model equals the model without adapters. Each a has its own generator, as in Init.
func (m *Model) InitAdapters(seed uint64) {
	for i, p := range m.params {
		if !p.Adapter {
			continue
		}
		x := make([]float32, p.W.Len())
		if in := p.W.Dim(1); p.factorA() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for j := range x {
				x[j] = float32((2*r.Float64() - 1) / math.Sqrt(float64(in)))
			}
		}
		m.dev.Upload(p.W, x)
	}
}
