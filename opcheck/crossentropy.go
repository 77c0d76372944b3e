package opcheck

import (
	"math"
	"math/rand/v2"

	"restyle/kernels"
	"restyle/tensor"
)

// CrossEntropy computes the formula of cross-entropy: it returns every row's loss, and the gradient of their sum times
// scale.
func CrossEntropy(logits, targets []float64, vocab int, scale float64) (loss, gradient []float64) {
	for r, target := range targets {
		x := logits[r*vocab : (r+1)*vocab]
		most, sum := math.Inf(-1), 0.0
		for _, v := range x {
			most = math.Max(most, v)
		}
		for _, v := range x {
			sum += math.Exp(v - most)
		}
		lse := most + math.Log(sum)
		loss = append(loss, lse-x[int(target)])
		for i, v := range x {
			g := math.Exp(v - lse)
			if i == int(target) {
				g--
			}
			gradient = append(gradient, g*scale)
		}
	}
	return loss, gradient
}

// crossEntropyCase returns a case with logits from logit, or normally distributed ones if logit is nil.
func crossEntropyCase(t tensor.DType, rows, vocab int, logit func(r *rand.Rand, i int) float64, gradient bool) *Case {
	scale := 0.37
	if vocab%2 > 0 {
		scale = 1.9
	}
	logits := Operand{Name: "logits", Type: t, Shape: []int{rows, vocab}, Fill: logit}
	targets := Operand{Name: "targets", Type: tensor.I32, Shape: []int{rows}, Fill: func(r *rand.Rand, i int) float64 {
		if i == 0 {
			return float64(vocab - 1)
		}
		return float64(r.IntN(vocab))
	}}
	c := &Case{
		Op: "crossentropy", Type: t, Name: label(rows, vocab),
		In: []Operand{logits, targets}, Out: []Operand{plain("loss", tensor.F32, rows), logits},
		Forward: func(d *kernels.Device, x Tensors) {
			var dlogits tensor.Tensor
			if gradient {
				dlogits = x["logits"]
			}
			d.CrossEntropy(x["loss"], dlogits, x["logits"], x["targets"], float32(scale))
		},
		Want: func(x Values) Values {
			loss, g := CrossEntropy(x["logits"], x["targets"], vocab, scale)
			if !gradient {
				g = x["logits"]
			}
			return Values{"loss": loss, "logits": g}
		},
		Kernels: [2][]string{{"logsoftmax", "nll", "nll_backward"}, {"crossentropy"}},
	}
	if gradient {
		// Each gradient is as exact as its exponential, however small: logits of some thousand have an ulp of 2⁻¹⁴, and that
		// is its relative error.
		c.Elements = map[string]Limit{"logits": {ElementLimits[t].Relative + 0x1p-13, 0x1p-40}}
	}
	c.ForwardBytes = c.bytes("logits", "logits")
	if !gradient {
		c.Name += " loss alone"
		c.Kernels[0] = c.Kernels[0][:2]
		c.ForwardBytes /= 2
	}
	return c
}

func crossEntropyCases() (cases []*Case) {
	for _, t := range Types {
		for _, gradient := range []bool{false, true} {
			for _, s := range [][2]int{{1, 1}, {3, 7}, {40, 257}, {2, 1029}, {21, 16390}, {2, 128256}, {2, 128257}} {
				cases = append(cases, crossEntropyCase(t, s[0], s[1], nil, gradient))
			}
			cases = append(cases,
				crossEntropyCase(t, 2, 2000, func(*rand.Rand, int) float64 { return 3 }, gradient),
				crossEntropyCase(t, 3, 1500, func(r *rand.Rand, _ int) float64 { return 1e3 * r.NormFloat64() }, gradient),
				// Every part of the row has a larger maximum than the part before.
				crossEntropyCase(t, 2, 5000, func(_ *rand.Rand, i int) float64 { return float64(i%5000) / 50 }, gradient),
				// Each part that a GPU reads at once has a largest logit far below the one of the part before.
				crossEntropyCase(t, 1, 70000, func(_ *rand.Rand, i int) float64 { return float64(-i) / 100 }, gradient))
		}
	}
	return cases
}
