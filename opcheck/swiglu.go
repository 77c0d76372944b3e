package opcheck

import (
	"math"

	"restyle/kernels"
	"restyle/tensor"
)

func swiGLUCase(t tensor.DType, rows, inner int) *Case {
	c := &Case{
		Op: "swiglu", Type: t, Name: label(rows, inner),
		In:       []Operand{act("gateUp", t, rows, 2*inner)},
		Out:      []Operand{act("y", t, rows, inner)},
		Forward:  func(d *kernels.Device, x Tensors) { d.SwiGLU(x["y"], x["gateUp"]) },
		Backward: func(d *kernels.Device, x Tensors) { d.SwiGLUBackward(x["dgateUp"], x["dy"], x["gateUp"]) },
		Want: func(x Values) Values {
			y := make([]float64, rows*inner)
			for i := range y {
				at := i/inner*2*inner + i%inner
				gate, up := x["gateUp"][at], x["gateUp"][at+inner]
				y[i] = gate / (1 + math.Exp(-gate)) * up
			}
			return Values{"y": y}
		},
		Kernels: [2][]string{{"silu", "mul", "silu_backward"}, {"swiglu", "swiglu_backward"}},
	}
	if t != tensor.F32 {
		// Unfused, silu and dy·up are rounded before they are multiplied, and so is the product.
		twice := tolerance(t, 0, 0x1.1p-7)
		c.Elements = map[string]Limit{"y": {twice, 0}, "dgateUp": {twice, 0x1p-17}}
	}
	c.ForwardBytes = c.bytes("gateUp", "y")
	c.BackwardBytes = c.bytes("gateUp", "gateUp", "y")
	return c
}

func swiGLUCases() (cases []*Case) {
	for _, t := range Types {
		cases = append(cases, spread(swiGLUCase(t, 4, 61), 100))
		for _, s := range [][2]int{{1, 1}, {3, 7}, {2, 16}, {5, 63}, {130, 24}, {2, 688}} {
			cases = append(cases, swiGLUCase(t, s[0], s[1]))
		}
	}
	return cases
}
