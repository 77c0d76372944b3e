package opcheck

import (
	"restyle/kernels"
	"restyle/tensor"
)

// addPairCase adds the factors of an adapter to weights.
func addPairCase(t tensor.DType, out, rank, in int) *Case {
	const scale = 1.5
	return &Case{
		Op: "add_pair", Type: t, Name: label(out, rank, in),
		In:      []Operand{plain("w", t, out, in), plain("b", tensor.F32, out, rank), plain("a", tensor.F32, rank, in)},
		Out:     []Operand{plain("w", t, out, in)},
		Forward: func(d *kernels.Device, x Tensors) { d.AddPair(x["w"], x["b"], x["a"], scale) },
		Want: func(x Values) Values {
			w := make([]float64, out*in)
			for i := range w {
				for k := range rank {
					w[i] += scale * x["b"][i/in*rank+k] * x["a"][k*in+i%in]
				}
			}
			return Values{"w": sums(x["w"], w)}
		},
		Kernels: [2][]string{{"add_pair"}},
	}
}

func addPairCases() (cases []*Case) {
	for _, t := range Types {
		for _, s := range [][3]int{{1, 1, 1}, {5, 3, 7}, {72, 16, 64}, {33, 8, 130}, {17, 600, 40}} {
			cases = append(cases, addPairCase(t, s[0], s[1], s[2]))
		}
	}
	return cases
}
