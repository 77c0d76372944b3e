package model

import "math/rand/v2"

// Init sets the first weights of a model to be trained from scratch. Matrices are drawn from a normal distribution with
// mean 0 and standard deviation std (transformers' initializer_range, usually 0.02), norms are 1 and biases 0. The same
// seed gives the same weights, whether or not the model has others: each tensor has its own PCG generator, seeded with
// seed and its index in Params.
func (m *Model) Init(seed uint64, std float64) {
	for i, p := range m.params {
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
