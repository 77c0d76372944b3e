package opcheck

import (
	"restyle/kernels"
	"restyle/tensor"
)

func addCase(t tensor.DType, n int) *Case {
	c := &Case{
		Op: "add", Type: t, Name: label(n),
		In:      []Operand{plain("a", t, n), plain("b", t, n)},
		Out:     []Operand{plain("y", t, n)},
		Forward: func(d *kernels.Device, x Tensors) { d.Add(x["y"], x["a"], x["b"]) },
		Want:    func(x Values) Values { return Values{"y": sums(x["a"], x["b"])} },
		Kernels: [2][]string{{"add"}},
	}
	c.ForwardBytes = c.bytes("a", "b", "y")
	return c
}

// sums returns a + b.
func sums(a, b []float64) []float64 {
	y := make([]float64, len(a))
	for i := range y {
		y[i] = a[i] + b[i]
	}
	return y
}

func addCases() (cases []*Case) {
	for _, t := range Types {
		for _, n := range []int{1, 7, 64, 1031, 20011} {
			cases = append(cases, addCase(t, n))
		}
	}
	return cases
}
