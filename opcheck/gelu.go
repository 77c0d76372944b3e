package opcheck

import (
	"math"
	"math/rand/v2"

	"restyle/kernels"
	"restyle/tensor"
)

// GELU computes the formula of GELU, exact or with tanh, and its derivative. If x is beyond ±40, where x³ could
// overflow, the derivative is 0 or 1.
func GELU(x float64, tanh bool) (y, slope float64) {
	near := min(max(x, -40), 40)
	phi, dphi := math.Erfc(-near/math.Sqrt2)/2, math.Exp(-near*near/2)/math.Sqrt(2*math.Pi)
	if tanh {
		u := math.Sqrt(2/math.Pi) * (near + 0.044715*near*near*near)
		phi = 1 / (1 + math.Exp(-2*u))
		dphi = 2 * phi / (1 + math.Exp(2*u)) * math.Sqrt(2/math.Pi) * (1 + 3*0.044715*near*near)
	}
	return max(x, -40) * phi, phi + near*dphi
}

func geluCase(t tensor.DType, rows, dim int, tanh bool) *Case {
	form := " exact"
	if tanh {
		form = " tanh"
	}
	c := &Case{
		Op: "gelu", Type: t, Name: label(rows, dim) + form,
		In:       []Operand{act("x", t, rows, dim)},
		Out:      []Operand{act("y", t, rows, dim)},
		Forward:  func(d *kernels.Device, x Tensors) { d.GELU(x["y"], x["x"], tanh) },
		Backward: func(d *kernels.Device, x Tensors) { d.GELUBackward(x["dx"], x["dy"], x["x"], tanh) },
		Want: func(x Values) Values {
			y := make([]float64, len(x["x"]))
			for i, v := range x["x"] {
				y[i], _ = GELU(v, tanh)
			}
			return Values{"y": y}
		},
		Kernels: [2][]string{{"gelu", "gelu_backward"}},
	}
	c.ForwardBytes = c.bytes("x", "y")
	c.BackwardBytes = c.bytes("x", "y", "x")
	return c
}

// geluApproxCase returns a case of the form by tanh.approx, which on a GPU is off by up to 2.5e-4·|x|; x is at most 5.
func geluApproxCase(t tensor.DType, rows, dim int) *Case {
	c := geluCase(t, rows, dim, true)
	c.Name += " approx"
	c.Forward = func(d *kernels.Device, x Tensors) { d.GELUTanhApprox(x["y"], x["x"]) }
	c.Backward, c.BackwardBytes, c.Kernels = nil, 0, [2][]string{{"gelu_tanh_approx"}}
	c.In[0].Grad, c.Out[0].Grad = NoGradient, NoGradient
	c.Tolerance = tolerance(t, 0x1p-10, 8e-3)
	c.Elements = map[string]Limit{"y": {ElementLimits[t].Relative, 0x1p-8}}
	return c
}

// spread gives an activation elements as far from 0 as it still changes, on both sides: past all limits at which it is
// computed in another way. A result is as exact as the exponential it has, however small.
func spread(c *Case, far float64) *Case {
	c.Name += " spread"
	c.In[0].Fill = func(r *rand.Rand, i int) float64 { return far * (float64(i%61-30) + r.Float64()) / 30 }
	if c.Elements == nil {
		c.Elements = map[string]Limit{}
	}
	c.Elements["y"] = Limit{tolerance(c.Type, 0x1p-13, 0x1p-6), 0x1p-40}
	if c.Type == tensor.F16 { // whose smallest number is multiplied by an up
		c.Elements["y"] = Limit{0x1p-9, 0x1p-24}
	}
	return c
}

func geluCases() (cases []*Case) {
	for _, t := range Types {
		cases = append(cases, spread(geluCase(t, 4, 61, false), 20), spread(geluCase(t, 4, 61, true), 20))
		cases = append(cases, geluApproxCase(t, 5, 63), geluApproxCase(t, 2, 16))
		for _, tanh := range []bool{false, true} {
			for _, s := range [][2]int{{1, 1}, {3, 7}, {2, 16}, {5, 63}, {130, 24}, {2, 688}} {
				cases = append(cases, geluCase(t, s[0], s[1], tanh))
			}
		}
	}
	return cases
}
