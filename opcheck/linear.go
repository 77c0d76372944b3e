package opcheck

import (
	"restyle/kernels"
	"restyle/tensor"
)

// linear computes the formula: row by row, y = x·wᵀ + bias.
func linear(x, w, bias []float64, rows, in, out int) []float64 {
	sums := make([]float64, rows*out)
	for r := range rows {
		for o := range out {
			if bias != nil {
				sums[r*out+o] = bias[o]
			}
			sums[r*out+o] += dot(x[r*in:][:in], w[o*in:][:in])
		}
	}
	return sums
}

// inputGradient computes the formula dx = dy·w, and + du·a if there is a second layer, u = x·aᵀ, with the same input.
func inputGradient(x Values, dy []float64, rows, in, out int) []float64 {
	dx := make([]float64, rows*in)
	addProduct(dx, dy, x["w"], rows, in, out)
	if a := x["a"]; a != nil {
		addProduct(dx, x["du"], a, rows, in, len(a)/in)
	}
	return dx
}

func addProduct(dx, dy, w []float64, rows, in, out int) {
	for r := range rows {
		for o := range out {
			axpy(dx[r*in:][:in], dy[r*out+o], w[o*in:][:in])
		}
	}
}

// axpy computes y += a·x.
func axpy(y []float64, a float64, x []float64) {
	for i, v := range x {
		y[i] += a * v
	}
}

// linearGradients computes the formulas of all gradients: dw = dyᵀ·x, and dbias is the sum of dy's rows.
func linearGradients(x Values, dy []float64, rows, in, out int) Values {
	dw, dbias := make([]float64, out*in), make([]float64, out)
	for r := range rows {
		for o := range out {
			axpy(dw[o*in:][:in], dy[r*out+o], x["x"][r*in:][:in])
		}
		axpy(dbias, 1, dy[r*out:][:out])
	}
	return Values{"x": inputGradient(x, dy, rows, in, out), "w": dw, "bias": dbias}
}

// LinearCase returns a layer with or without a bias.
func LinearCase(t tensor.DType, rows, in, out int, bias bool) *Case {
	c := &Case{
		Op: "linear", Type: t, Name: label(rows, in, out),
		In:      []Operand{act("x", t, rows, in), par("w", t, out, in)},
		Out:     []Operand{act("y", t, rows, out)},
		Forward: func(d *kernels.Device, x Tensors) { d.Linear(x["y"], x["x"], x["w"], x["bias"], pairOf(x)...) },
		Backward: func(d *kernels.Device, x Tensors) {
			d.LinearBackward(x["dx"], x["dy"], x["w"], false, gradientPairOf(x)...)
			half := out / 2 // its gradient in two parts
			d.LinearGradient(x["dw"].Slice(0, half), x["dy"], x["x"], 0, true)
			d.LinearGradient(x["dw"].Slice(half, out), x["dy"], x["x"], half, true)
			if x["dbias"].Ok() {
				d.BiasGradient(x["dbias"], x["dy"], 0)
			}
		},
		Want: func(x Values) Values {
			return Values{"y": linearOf(x, x["x"], rows, in, out)}
		},
		Gradients: func(x Values) Values { return linearGradients(x, x["dy"], rows, in, out) },
		Kernels:   [2][]string{{"linear", "linear_dx", "linear_dw"}},
	}
	if bias {
		c.Name += " and bias"
		c.In = append(c.In, par("bias", t, out))
		c.Kernels[0] = append(c.Kernels[0], "linear_dbias")
	}
	return c
}

// toF32Case returns a layer whose output is in float32, such as logits.
func toF32Case(t tensor.DType, rows, in, out int, bias bool) *Case {
	c := forwardOnly(LinearCase(t, rows, in, out, bias))
	c.Name += " to F32"
	c.Out[0].Type = tensor.F32
	return c
}

// forwardOnly leaves out the backward pass of a linear layer.
func forwardOnly(c *Case) *Case {
	c.Backward, c.Kernels = nil, [2][]string{{"linear"}}
	for i := range c.In {
		c.In[i].Grad = NoGradient
	}
	c.Out[0].Grad = NoGradient
	return c
}

// longCases returns products of so many terms that they are added up in parts, with all that can follow a product, of
// few rows and of many, of whole vectors and not.
func longCases(t tensor.DType) (cases []*Case) {
	for i, rows := range []int{5, 40} {
		for _, bias := range []bool{false, true} {
			in, out := 1030, 33
			if bias == (i == 0) {
				in, out = 1032, 40
			}
			act := kernels.GELUExact + kernels.Activation(len(cases)%3)
			cases = append(cases, forwardOnly(LinearCase(t, rows, in, out, bias)), toF32Case(t, rows, in, out, bias),
				linearAddCase(t, rows, in, out, bias), linearActivationCase(t, rows, in, out, act, false),
				linearSwiGLUCase(t, rows, in, out/2, bias, i == 0))
		}
	}
	return cases
}

// inParts computes the outputs of a layer, and its input's gradient, in two parts.
func inParts(c *Case) *Case {
	c.Name += " in parts"
	each := func(w tensor.Tensor, f func(w tensor.Tensor, from int)) {
		some := w.Dim(0) / 2
		f(w.Slice(0, some), 0)
		f(w.Slice(some, w.Dim(0)), some)
	}
	c.Forward = func(d *kernels.Device, x Tensors) {
		each(x["w"], func(w tensor.Tensor, from int) {
			if norm := x["norm"]; norm.Ok() {
				d.NormLinearPart(x["y"], x["x"], norm, w, x["bias"], normLinearEps, from, pairOf(x)...)
				return
			}
			d.LinearPart(x["y"], x["x"], w, x["bias"], from, pairOf(x)...)
		})
	}
	if rest := c.Backward; rest != nil {
		if _, ok := c.Elements["dx"]; !ok { // the first sum, up to 4 of the RMS of both, is rounded before they may cancel
			c.Elements = map[string]Limit{"dx": limit(c.Type, ElementLimits[tensor.F32], Limit{0x1p-8 + 0x1p-14, 4 * 0x1p-9})}
		}
		c.Backward = func(d *kernels.Device, x Tensors) {
			rest(d, x)
			add, pair := false, gradientPairOf(x)
			each(x["w"], func(w tensor.Tensor, from int) {
				d.LinearPartBackward(x["dx"], x["dy"], w, from, add, pair...)
				add, pair = true, nil
			})
		}
	}
	return c
}

func linearCases() (cases []*Case) {
	for _, t := range Types {
		cases = append(cases, longCases(t)...)
		for i, size := range [][3]int{
			{1, 1, 1}, {2, 3, 1}, {1, 64, 48}, {7, 33, 17}, {8, 100, 65}, {9, 16, 129}, {31, 65, 33}, {33, 40, 65}, {70, 20, 33},
			{5, 600, 20}, {64, 128, 72},
			{128, 64, 136}, // shapes that cuBLASLt takes: with a bias, and the one before without
		} {
			cases = append(cases, LinearCase(t, size[0], size[1], size[2], i%2 == 1))
		}
		if t == tensor.F32 { // a GPU adds up the bias's gradient in longer shares of the rows
			cases = append(cases, LinearCase(t, 4100, 3, 2, true))
			cases[len(cases)-1].Tolerance = 4e-6 // for sums of this many terms
		}
		for _, size := range [][3]int{{1, 64, 48}, {7, 33, 17}, {40, 72, 80}} { // only the last has parts of whole vectors
			cases = append(cases, inParts(LinearCase(t, size[0], size[1], size[2], true)))
		}
		if t == tensor.BF16 { // k is so long that it is divided
			cases = append(cases, LinearCase(t, 9, 4168, 24, true))
		}
		for _, size := range [][3]int{{1, 70, 50}, {30, 70, 50}, {30, 72, 56}} {
			cases = append(cases, toF32Case(t, size[0], size[1], size[2], false))
		}
	}
	return cases
}
