package opcheck

import (
	"maps"
	"math"

	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/tensor"
)

var activations = map[kernels.Activation]string{
	kernels.GELUExact: "gelu", kernels.GELUTanh: "gelu tanh", kernels.SiLU: "silu",
}

// activation computes the formula, and its derivative.
func activation(x float64, act kernels.Activation) (y, slope float64) {
	if act == kernels.SiLU {
		sigmoid := 1 / (1 + math.Exp(-x))
		return x * sigmoid, sigmoid + x*sigmoid*(1-sigmoid)
	}
	return GELU(x, act == kernels.GELUTanh)
}

// activated returns the formula's values.
func activated(pre []float64, act kernels.Activation) []float64 {
	y := make([]float64, len(pre))
	for i, v := range pre {
		y[i], _ = activation(v, act)
	}
	return y
}

// activationGradient returns the gradient of what the activation gets.
func activationGradient(dy, pre []float64, act kernels.Activation) []float64 {
	dpre := make([]float64, len(pre))
	for i, v := range pre {
		_, slope := activation(v, act)
		dpre[i] = dy[i] * slope
	}
	return dpre
}

// gateGradient returns the gradient of gates and ups.
func gateGradient(dy, gateUp []float64, rows, inner int) []float64 {
	d := make([]float64, rows*2*inner)
	for i, dy := range dy {
		at := i/inner*2*inner + i%inner
		y, slope := activation(gateUp[at], kernels.SiLU)
		d[at], d[at+inner] = dy*gateUp[at+inner]*slope, dy*y
	}
	return d
}

// alone has the kernels of activations by themselves, forward and backward.
var alone = map[kernels.Activation][2]string{
	kernels.GELUExact: {"gelu", "gelu_backward"}, kernels.GELUTanh: {"gelu", "gelu_backward"},
	kernels.SiLU: {"silu", "silu_backward"},
}

// linearActivationCase returns a layer with a bias, and its activation. The backward pass needs what the activation
// gets.
func linearActivationCase(t tensor.DType, rows, in, out int, act kernels.Activation, backward bool) *Case {
	c := LinearCase(t, rows, in, out, true)
	layer := c.Backward
	c.Op, c.Name = "linear_activation", label(rows, in, out)+" "+activations[act]
	c.Forward = func(d *kernels.Device, x Tensors) {
		d.LinearActivation(x["y"], x["pre"], x["x"], x["w"], x["bias"], act, pairOf(x)...)
	}
	c.Want = func(x Values) Values {
		pre := linearOf(x, x["x"], rows, in, out)
		return Values{"y": activated(pre, act), "pre": pre}
	}
	c.Gradients = func(x Values) Values {
		return linearGradients(x, activationGradient(x["dy"], linearOf(x, x["x"], rows, in, out), act), rows, in, out)
	}
	// What the activation gets may be rounded to BF16 before.
	c.Tolerance = tolerance(t, 4e-6, 1e-2)
	c.Elements = map[string]Limit{"y": normProductLimit(t)}
	own := alone[act]
	c.Kernels = [2][]string{{"linear", own[0], own[1], "linear_dx", "linear_dw", "linear_dbias"},
		{"linear_activation", own[1], "linear_dx", "linear_dw", "linear_dbias"}}
	if !backward {
		c.Backward = nil
		c.Want = func(want func(x Values) Values) func(x Values) Values {
			return func(x Values) Values { return Values{"y": want(x)["y"]} }
		}(c.Want)
		for i := range c.In {
			c.In[i].Grad = NoGradient
		}
		c.Out[0].Grad = NoGradient
		c.Name += " alone"
		c.Kernels = [2][]string{{"linear", own[0]}, {"linear_activation"}}
		return c
	}
	c.Out = append(c.Out, plain("pre", t, rows, out), plain("dpre", t, rows, out))
	c.Backward = func(d *kernels.Device, x Tensors) {
		d.ActivationBackward(x["dpre"], x["dy"], x["pre"], act)
		of := maps.Clone(x)
		of["dy"] = x["dpre"]
		layer(d, of)
	}
	gradient := limit(t, Limit{0x1p-19, 0x1p-16}, Limit{0x1p-5, 0x1p-4})
	c.Elements["dx"], c.Elements["dw"], c.Elements["dbias"] = gradient, gradient, gradient
	return c
}

// behindCase returns an activation, or SwiGLU if there is none, and a linear layer after it, backward.
func behindCase(t tensor.DType, rows, inner, out int, of kernels.Activation) *Case {
	c := &Case{Op: "linear_activation", Type: t, Name: label(rows, inner, out) + " behind " + activations[of],
		In:  []Operand{act("pre", t, rows, inner), plain("w", t, out, inner)},
		Out: []Operand{act("y", t, rows, out), plain("act", t, rows, inner)}}
	own := alone[of]
	c.Kernels[0] = []string{own[0], "linear", own[1], "linear_dx"}
	c.Kernels[1] = c.Kernels[0]
	value := func(pre []float64) []float64 { return activated(pre, of) }
	gradient := func(dy, pre []float64) []float64 { return activationGradient(dy, pre, of) }
	forward := func(d *kernels.Device, x Tensors) {
		if of == kernels.SiLU {
			d.SiLU(x["act"], x["pre"])
			return
		}
		d.GELU(x["act"], x["pre"], of == kernels.GELUTanh)
	}
	c.Backward = func(d *kernels.Device, x Tensors) {
		d.ActivationLinearBackward(x["dpre"], x["dy"], x["w"], x["pre"], of, gradientPairOf(x)...)
	}
	if of == cpu.NoActivation {
		c.Op, c.Name, c.In[0].Shape[1] = "swiglu", label(rows, inner, out)+" behind", 2*inner
		c.Kernels = [2][]string{{"silu", "mul", "linear", "linear_dx", "silu_backward"},
			{"swiglu", "linear", "linear_dx", "swiglu_backward"}}
		value = func(pre []float64) []float64 { return gate(pre, rows, inner) }
		gradient = func(dy, pre []float64) []float64 { return gateGradient(dy, pre, rows, inner) }
		forward = func(d *kernels.Device, x Tensors) { d.SwiGLU(x["act"], x["pre"]) }
		c.Backward = func(d *kernels.Device, x Tensors) {
			d.SwiGLULinearBackward(x["dpre"], x["dy"], x["w"], x["pre"], gradientPairOf(x)...)
		}
	}
	c.Forward = func(d *kernels.Device, x Tensors) {
		forward(d, x)
		d.Linear(x["y"], x["act"], x["w"], tensor.Tensor{})
	}
	c.Want = func(x Values) Values {
		act := value(x["pre"])
		return Values{"y": linear(act, x["w"], nil, rows, inner, out), "act": act}
	}
	c.Gradients = func(x Values) Values {
		return Values{"pre": gradient(inputGradient(x, x["dy"], rows, inner, out), x["pre"])}
	}
	c.BackwardBytes = c.bytes("pre", "pre", "w", "y")
	// The layer's input is rounded before the sums. Backward, one kernel rounds the result once; two also round the
	// product before it is multiplied, and the kernels of unfused SwiGLU round twice more.
	c.Tolerance = tolerance(t, 4e-6, 1e-2)
	c.Elements = map[string]Limit{"y": limit(t, Limit{0x1p-19, 0x1p-16}, Limit{0x1p-6, 0x1p-6}),
		"act": normProductLimit(t), "dpre": limit(t, Limit{0x1p-19, 0x1p-16}, Limit{0x1.2p-6, 0x1p-16})}
	return c
}

// linearSwiGLUCase returns a layer of gates and ups, and SwiGLU. If keep is true, the gates and ups are kept.
func linearSwiGLUCase(t tensor.DType, rows, in, inner int, bias, keep bool) *Case {
	c := &Case{
		Op: "swiglu", Type: t, Name: "linear " + label(rows, in, inner),
		In:  []Operand{plain("x", t, rows, in), plain("w", t, 2*inner, in)},
		Out: []Operand{plain("y", t, rows, inner)},
		Forward: func(d *kernels.Device, x Tensors) {
			d.LinearSwiGLU(x["y"], x["gateUp"], x["x"], x["w"], x["bias"], pairOf(x)...)
		},
		Want: func(x Values) Values {
			gateUp := linearOf(x, x["x"], rows, in, 2*inner)
			return Values{"y": gate(gateUp, rows, inner), "gateUp": gateUp}
		},
		Tolerance: tolerance(t, 4e-6, 1e-2),
		Elements:  map[string]Limit{"y": normProductLimit(t), "gateUp": normProductLimit(t)},
		Kernels:   [2][]string{{"linear", "silu", "mul"}, {"linear", "swiglu"}},
	}
	if bias {
		c.In = append(c.In, plain("bias", t, 2*inner))
	}
	if keep {
		c.Name += " kept"
		c.Out = append(c.Out, plain("gateUp", t, rows, 2*inner))
	}
	return c
}

func linearActivationCases() (cases []*Case) {
	for _, t := range Types {
		for i, size := range [][3]int{{1, 1, 1}, {2, 3, 1}, {1, 64, 48}, {7, 33, 17}, {9, 16, 129}, {33, 40, 64},
			{70, 20, 33}, {5, 600, 20}, {40, 600, 24}, {150, 200, 392}} {
			act := kernels.GELUExact + kernels.Activation(i%3)
			cases = append(cases, linearActivationCase(t, size[0], size[1], size[2], act, i%4 > 0))
		}
		for act := range kernels.SiLU {
			cases = append(cases, linearActivationCase(t, 32, 64, 80, act+1, true))
		}
		for act := range kernels.SiLU + 1 {
			for _, size := range [][3]int{{1, 1, 1}, {7, 17, 33}, {9, 64, 40}, {4000, 3, 2}, {13, 88, 600}} {
				cases = append(cases, behindCase(t, size[0], size[1], size[2], act))
			}
		}
		cases = append(cases, behindCase(t, 150, 200, 72, cpu.NoActivation), behindCase(t, 150, 200, 72, kernels.GELUTanh))
		cases = append(cases, linearSwiGLUCase(t, 2051, 3, 2, true, false),
			linearSwiGLUCase(t, 17, 33, 31, false, true), linearSwiGLUCase(t, 9, 8, 8, false, false),
			linearSwiGLUCase(t, 9, 8, 8, false, true), linearSwiGLUCase(t, 140, 328, 200, true, false),
			linearSwiGLUCase(t, 140, 328, 192, true, true))
	}
	return cases
}
