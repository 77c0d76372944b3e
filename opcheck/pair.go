package opcheck

import (
	"fmt"
	"slices"

	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// pairOf returns the pair of a layer's product, if withPair gave the case one, and gradientPairOf the pair of its
// input's gradient.
func pairOf(x Tensors) []kernels.Pair { return pairNamed(x, "x2", "w2") }

func gradientPairOf(x Tensors) []kernels.Pair { return pairNamed(x, "du", "a") }

func pairNamed(x Tensors, left, right string) []kernels.Pair {
	if !x[left].Ok() {
		return nil
	}
	return []kernels.Pair{{X: x[left], W: x[right]}}
}

// linearOf computes the formula of a layer that gets an input, with its bias and pair.
func linearOf(x Values, input []float64, rows, in, out int) []float64 {
	y := linear(input, x["w"], x["bias"], rows, in, out)
	if x2 := x["x2"]; x2 != nil {
		y = sums(y, linear(x2, x["w2"], nil, rows, len(x2)/rows, out))
	}
	return y
}

// withPair gives the product of a layer a pair of some rank. It also gives a pair to the product of its input's
// gradient, if the case has one: the gradient of a second layer, u = x·aᵀ, which has the same input.
func withPair(c *Case, rank int) *Case {
	c.Name += fmt.Sprintf(" paired %d", rank)
	rows, w := c.Out[0].Shape[0], c.In[slices.IndexFunc(c.In, func(o Operand) bool { return o.Name == "w" })]
	out, in := w.Shape[0], w.Shape[1]
	if c.In[0].Name != "pre" { // behindCase has no pair forward
		c.In = append(c.In, plain("x2", c.Type, rows, rank), plain("w2", c.Type, out, rank))
	}
	if c.Backward == nil {
		return c
	}
	c.In, c.Out = append(c.In, plain("a", c.Type, rank, in)), append(c.Out, act("u", c.Type, rows, rank))
	if limit, ok := c.Elements["y"]; ok {
		c.Elements["u"] = limit
	}
	forward, want := c.Forward, c.Want
	c.Forward = func(d *kernels.Device, x Tensors) {
		forward(d, x)
		input := x["act"] // of a layer after an activation
		if !input.Ok() {
			input = x["x"]
		}
		d.Linear(x["u"], input, x["a"], tensor.Tensor{})
	}
	c.Want = func(x Values) Values {
		y := want(x)
		input := y["act"]
		if input == nil {
			input = x["x"]
		}
		y["u"] = linear(input, x["a"], nil, rows, in, rank)
		return y
	}
	for i, names := range c.Kernels {
		if names != nil && !slices.Contains(names, "linear") {
			c.Kernels[i] = append(names, "linear")
		}
	}
	return c
}

// pairCases returns layers whose products have a second pair of operands: of ranks that are whole vectors, steps and
// k-blocks, and not.
func pairCases() (cases []*Case) {
	none := cpu.NoActivation
	for i, t := range Types {
		cases = append(cases,
			withPair(LinearCase(t, 1, 64, 48, true), 8), withPair(LinearCase(t, 5, 33, 17, false), 5),
			withPair(LinearCase(t, 40, 72, 64, true), 8), withPair(LinearCase(t, 9, 40, 65, false), 1),
			withPair(LinearCase(t, 130, 72, 200, true), 48),
			// two k-blocks, and room in the last of several
			withPair(LinearCase(t, 11, 64, 40, false), 300), withPair(LinearCase(t, 33, 576, 40, false), 24),
			withPair(toF32Case(t, 40, 1032, 40, false), 72), withPair(linearAddCase(t, 40, 1030, 33, true), 7), // parts of k
			withPair(linearActivationCase(t, 40, 72, 64, kernels.GELUTanh, true), 8),
			withPair(linearActivationCase(t, 7, 33, 17, kernels.SiLU, true), 5),
			withPair(linearSwiGLUCase(t, 140, 72, 200, true, false), 8),
			withPair(linearSwiGLUCase(t, 17, 33, 31, false, true), 5),
			withPair(linearSwiGLUCase(t, 140, 72, 192, true, true), 72),
			withPair(linearAddCase(t, 40, 72, 64, true), 16), withPair(linearAddCase(t, 1, 200, 24, true), 8),
			withPair(behindCase(t, 40, 72, 136, none), 8), withPair(behindCase(t, 150, 200, 72, kernels.GELUTanh), 72),
			withPair(behindCase(t, 7, 17, 33, kernels.SiLU), 5),
			withPair(normLinearCase(t, 1, 200, 24, true, false), 8), withPair(normLinearCase(t, 1, 1032, 17, false, true), 136))
		cases = append(cases, withPair(inParts(LinearCase(t, 40, 72, 80, true)), 8),
			withPair(inParts(normLinearCase(t, 1, 200, 24, true, false)), 8))
		for j, w := range quantized {
			rows := []int{3, 8, 1}[(i+j)%3]
			cases = append(cases,
				withPair(quantizedLinearCase(w, t, t, rows, 392, 31, j == 0, j == 1), 8),
				withPair(quantizedLinearCase(w, t, tensor.F32, 12, 200, 72, true, false), 5),
				withPair(quantizedGradientCase(w, t, 40, 136, 72, (i+j)%2 == 1), 8))
			if i != j {
				continue
			}
			cases = append(cases, withPair(quantizedLinearCase(w, t, t, 130, 72, 200, false, true), 16),
				withPair(quantizedGradientCase(w, t, 7, 131, 33, true), 5),
				withQuantized(withPair(normLinearCase(t, 1, 1032, 17, true, false), 136), w),
				withQuantized(withPair(normLinearCase(t, 1, 200, 24, false, true), 8), w))
			gated, behind := linearSwiGLUCase(t, 140, 72, 96, true, false), behindCase(t, 40, 72, 136, none)
			gated.Elements["y"], behind.Elements["dpre"] = quantizedGatedLimit, quantizedBehindLimit(t)
			cases = append(cases, withQuantized(withPair(gated, 8), w), withQuantized(withPair(behind, 8), w))
		}
	}
	return cases
}
