package opcheck

import (
	"math/rand/v2"

	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/tensor"
)

var quantized = []tensor.DType{tensor.INT8, tensor.INT4, tensor.INT4Z, tensor.NF4}

// blockTypes are the quantized types of GGUF. Their rows are whole blocks.
var blockTypes = []tensor.DType{tensor.Q4_0, tensor.Q4_1, tensor.Q5_0, tensor.Q5_1, tensor.Q8_0, tensor.Q4_K,
	tensor.Q5_K, tensor.Q6_K}

// quantizedLinearCase returns a layer with quantized weights. If add is true, y is added to.
func quantizedLinearCase(weights, t, to tensor.DType, rows, in, out int, bias, add bool) *Case {
	c := &Case{
		Op: "linear_quantized", Type: t, Name: label(rows, in, out) + " " + weights.String(),
		In:      []Operand{plain("x", t, rows, in), plain("w", weights, out, in)},
		Out:     []Operand{plain("y", to, rows, out)},
		Forward: func(d *kernels.Device, x Tensors) { d.Linear(x["y"], x["x"], x["w"], x["bias"], pairOf(x)...) },
		Want: func(x Values) Values {
			y := linearOf(x, x["x"], rows, in, out)
			if add {
				for i := range y {
					y[i] += x["y"][i]
				}
			}
			return Values{"y": y}
		},
		Kernels:  [2][]string{{"linear"}},
		Elements: map[string]Limit{"y": normProductLimit(to)},
	}
	if t == tensor.F16 || (rows > 8 || weights == tensor.NF4) && t == tensor.BF16 { // weights may be rounded before
		c.Tolerance, c.Elements["y"] = 6e-3, normProductLimit(t)
	}
	if t == tensor.BF16 && to == tensor.F32 && rows <= 8 && weights != tensor.INT8 && weights != tensor.NF4 {
		// CPUs may round activations below a 128th of their group's largest by up to 2⁻¹⁵ of that: of a few of 128
		c.Tolerance = 1.5e-5
	}
	if to != t {
		c.Name += " to " + to.String()
	}
	if bias {
		c.Name += " and bias"
		c.In = append(c.In, plain("bias", t, out))
	}
	if add {
		c.Name += " added"
		c.In = append(c.In, c.Out[0])
		c.Forward = func(d *kernels.Device, x Tensors) { d.LinearAdd(x["y"], x["x"], x["w"], x["bias"], pairOf(x)...) }
		c.Kernels = [2][]string{{"linear_add"}}
	}
	c.ForwardBytes = c.bytes("x", "w", "y")
	return c
}

// quantizedGradientCase returns a layer with quantized weights, forward and backward. If add is true, dx is F32 and is
// added to.
func quantizedGradientCase(weights, t tensor.DType, rows, in, out int, add bool) *Case {
	c := quantizedLinearCase(weights, t, t, rows, in, out, false, false)
	c.Name += " and back"
	c.In[0].Grad, c.Out[0].Grad = Overwritten, Overwritten
	if c.Elements["dx"] = normProductLimit(t); t.Half() { // weights are rounded before
		c.Tolerance = 6e-3
	}
	if add {
		c.Name += " added"
		c.In[0].Grad = Accumulated
	}
	c.Backward = func(d *kernels.Device, x Tensors) {
		d.LinearBackward(x["dx"], x["dy"], x["w"], add, gradientPairOf(x)...)
	}
	c.Gradients = func(x Values) Values { return Values{"x": inputGradient(x, x["dy"], rows, in, out)} }
	c.Kernels = [2][]string{{"linear", "linear_dx"}}
	c.BackwardBytes = c.bytes("y", "w", "x")
	return c
}

// quantizedEmbeddingCase looks up rows of a quantized table.
func quantizedEmbeddingCase(weights, t tensor.DType, rows, vocab, dim int) *Case {
	return &Case{
		Op: "embedding_quantized", Type: t, Name: label(rows, vocab, dim) + " " + weights.String(),
		In: []Operand{plain("table", weights, vocab, dim), {Name: "ids", Type: tensor.I32, Shape: []int{rows},
			Fill: func(r *rand.Rand, _ int) float64 { return float64(r.IntN(vocab)) }}},
		Out:     []Operand{plain("y", t, rows, dim)},
		Forward: func(d *kernels.Device, x Tensors) { d.Embedding(x["y"], x["table"], x["ids"]) },
		Want: func(x Values) Values {
			var y []float64
			for _, id := range x["ids"] {
				y = append(y, x["table"][int(id)*dim:(int(id)+1)*dim]...)
			}
			return Values{"y": y}
		},
		Kernels: [2][]string{{"embedding"}},
	}
}

// dequantizedCase computes the values of quantized weights.
func dequantizedCase(weights, t tensor.DType, out, in int) *Case {
	return &Case{
		Op: "dequantize_weights", Type: t, Name: label(out, in) + " " + weights.String(),
		In:      []Operand{plain("w", weights, out, in)},
		Out:     []Operand{plain("y", t, out, in)},
		Forward: func(d *kernels.Device, x Tensors) { d.DequantizeWeights(x["y"], x["w"]) },
		Want:    func(x Values) Values { return Values{"y": x["w"]} },
		Kernels: [2][]string{{"dequantize_weights"}},
	}
}

// withQuantized returns the case with quantized weights. It has the forms that it had before.
func withQuantized(c *Case, weights tensor.DType) *Case {
	if len(c.Forms()) == 1 {
		c.Op = "linear_quantized"
	}
	c.Name += " " + weights.String()
	for i := range c.In {
		if c.In[i].Name == "w" {
			c.In[i].Type = weights
		}
	}
	return c
}

// Weights may be rounded before. What that makes of an up, or of a gradient, is multiplied by its gate, up to five
// times the root mean square.
var quantizedGatedLimit = Limit{0x1.2p-7, 0x1p-5}

func quantizedBehindLimit(t tensor.DType) Limit {
	return limit(t, Limit{0x1p-19, 0x1p-16}, Limit{0x1.2p-6, 0x1p-5})
}

func quantizedCases() (cases []*Case) {
	for i, w := range quantized {
		for j, t := range Types {
			sizes := [][3]int{{1, 1, 1}, {2, 130, 3}, {8, 127, 33}, {3, 392, 31}, {9, 129, 16}}
			if t == tensor.BF16 { // rows of whole words, as tensor cores with tiles take them
				sizes = append(sizes, [3]int{12, 200, 72}, [3]int{130, 72, 200}, [3]int{9, 648, 136},
					[3]int{20, 328, 80}, [3]int{9, 4168, 24}) // of the last, k is divided
				for _, c := range []*Case{linearSwiGLUCase(t, 140, 328, 200, true, false),
					linearSwiGLUCase(t, 9, 72, 96, false, i > 0)} {
					c.Elements["y"] = quantizedGatedLimit
					cases = append(cases, withQuantized(c, w))
				}
			}
			for k, size := range sizes {
				cases = append(cases, quantizedLinearCase(w, t, t, size[0], size[1], size[2], k%3 == 2, k%4 == 3))
			}
			cases = append(cases, quantizedLinearCase(w, t, tensor.F32, 1, 200, 70, false, false),
				quantizedLinearCase(w, t, tensor.F32, 12, 200, 70, true, false),
				quantizedEmbeddingCase(w, t, 5, 9, 300), dequantizedCase(w, t, 7, 301))
			for k, size := range [][3]int{{1, 1, 1}, {7, 131, 33}, {40, 136, 72}} {
				cases = append(cases, quantizedGradientCase(w, t, size[0], size[1], size[2], (i+j+k)%2 == 1))
				if (i+j)%3 == k {
					cases = append(cases, inParts(quantizedGradientCase(w, t, size[0]+k, size[1], 3*size[2], false)))
				}
			}
			if i == j {
				for _, c := range []*Case{behindCase(t, 11, 33, 130, cpu.NoActivation),
					behindCase(t, 40, 72, 136, kernels.GELUTanh)} {
					c.Elements["dpre"] = quantizedBehindLimit(t)
					cases = append(cases, withQuantized(c, w))
				}
			}
			cases = append(cases, quantizedExpertsCase(w, t, 5, 136, 19, 6, 5),
				quantizedExpertsCase(w, t, 40, 130, 21, 5, 24))
			size := [][3]int{{1, 200, 24}, {1, 4104, 17}, {1, 33, 7}}[(i+j)%3]
			if t == tensor.BF16 { // the row is longer than all warps' first turns
				size = [3]int{1, 4104, 17}
			}
			in := size[1]
			cases = append(cases, withQuantized(normLinearCase(t, size[0], in, size[2], true, false), w),
				withQuantized(normLinearCase(t, size[0], in, size[2], false, true), w),
				withQuantized(linearAddCase(t, size[0], in, size[2], true), w))
			if t == tensor.F16 || t == tensor.BF16 && w == tensor.NF4 { // weights may be rounded before
				c := cases[len(cases)-1]
				c.Tolerance, c.Elements = 6e-3, map[string]Limit{"h": normProductLimit(t)}
			}
		}
	}
	return cases
}

// blockCases returns the layers of quantizedCases whose weights have GGUF's types: one of each kind for a type of
// weights, of as few sizes as differ in how threads, tiles and groups of 128 codes divide them.
func blockCases() (cases []*Case) {
	for i, w := range blockTypes {
		one, some, many := 32, 160, 288 // blocks of 32: parts of the last 128 codes
		if w.Coding().Unit > 0 {
			one, some, many = 256, 256, 768
		}
		whole := quantizedLinearCase(w, tensor.BF16, tensor.F32, 1, 8192, 17, false, false) // turns of all warps
		cases = append(cases, whole)
		for j, t := range Types {
			rows, outputs := []int{1, 3, 8, 2}[(i+j)%4], []int{31, 5, 3}[j%3] // rows of weights are multiplied by fours
			cases = append(cases,
				quantizedLinearCase(w, t, t, rows, many, outputs, i%2 == 0, j == 1),
				quantizedLinearCase(w, t, tensor.F32, 1, some, 70, false, false),
				quantizedLinearCase(w, t, t, 12, some, 72, true, false),
				quantizedEmbeddingCase(w, t, 5, 9, many), dequantizedCase(w, t, 7, one),
				quantizedGradientCase(w, t, 7, some, 33, (i+j)%2 == 1))
			switch (i + j) % 3 {
			case 0:
				cases = append(cases, quantizedExpertsCase(w, t, 5, some, 19, 6, 5))
			case 1:
				cases = append(cases, quantizedExpertsCase(w, t, 40, some, 21, 5, 24))
			case 2:
				cases = append(cases, withPair(quantizedLinearCase(w, t, t, rows, many, 31, false, true), 8))
			}
			if t != tensor.BF16 {
				continue
			}
			gated, behind := linearSwiGLUCase(t, 140, many, 200, true, false), behindCase(t, 40, some, 136, cpu.NoActivation)
			gated.Elements["y"] = Limit{0x1.2p-7, 0x1.4p-5} // see quantizedGatedLimit: the farthest of more and longer sums
			behind.Elements["dpre"] = quantizedBehindLimit(t)
			cases = append(cases, withQuantized(gated, w), withQuantized(behind, w),
				quantizedLinearCase(w, t, t, 130, some, 200, false, i%2 == 1),
				withQuantized(normLinearCase(t, 1, many, 24, true, false), w),
				withQuantized(normLinearCase(t, 1, many, 17, false, true), w),
				withQuantized(linearAddCase(t, 1, many, 24, true), w))
		}
	}
	return append(cases, quantizedLinearCase(tensor.Q4_K, tensor.BF16, tensor.BF16, 9, 4352, 24, false, false),
		quantizedLinearCase(tensor.Q5_1, tensor.BF16, tensor.BF16, 9, 4128, 24, false, false), // k is divided
		withQuantized(normLinearCase(tensor.BF16, 1, 8448, 17, true, false), tensor.Q6_K))     // warps have second turns
}
