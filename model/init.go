package model

import "math/rand/v2"

// Init gives a model to be trained from scratch its first weights: matrices are drawn from a normal distribution with mean 0
// and standard deviation std (transformers' initializer_range, 0.02 as a rule), norms are 1 and biases 0. The same seed gives
// the same weights, whatever else the model has: each tensor has a generator of its own, PCG seeded with the seed and the
// tensor's place in Params.
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
