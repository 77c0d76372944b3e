package opcheck

import (
	"restyle/kernels"
	"restyle/tensor"
)

func mulCase(t tensor.DType, rows, dim int) *Case {
	c := &Case{
		Op: "mul", Type: t, Name: label(rows, dim),
		In:       []Operand{act("a", t, rows, dim), act("b", t, rows, dim)},
		Out:      []Operand{act("y", t, rows, dim)},
		Forward:  func(d *kernels.Device, x Tensors) { d.Mul(x["y"], x["a"], x["b"]) },
		Backward: func(d *kernels.Device, x Tensors) { d.MulBackward(x["da"], x["db"], x["dy"], x["a"], x["b"]) },
		Want: func(x Values) Values {
			y := make([]float64, rows*dim)
			for i := range y {
				y[i] = x["a"][i] * x["b"][i]
			}
			return Values{"y": y}
		},
		Kernels: [2][]string{{"mul", "mul_backward"}},
	}
	c.ForwardBytes = c.bytes("a", "b", "y")
	c.BackwardBytes = c.bytes("a", "b", "y", "a", "b")
	return c
}

func mulCases() (cases []*Case) {
	for _, t := range Types {
		for _, s := range [][2]int{{1, 1}, {3, 7}, {2, 16}, {5, 63}, {130, 24}} {
			cases = append(cases, mulCase(t, s[0], s[1]))
		}
	}
	return cases
}
