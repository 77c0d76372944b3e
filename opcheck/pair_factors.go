package opcheck

import (
	"fmt"
	"slices"

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

// pairFactorsCase rounds a factor into columns of a matrix of others and, if it has others, also a whole matrix.
func pairFactorsCase(t tensor.DType, out, rank, n, column int) *Case {
	const scale = 0.75
	c := &Case{
		Op: "pair_factors", Type: t, Name: label(out, rank, n),
		In:  []Operand{plain("w", t, out, n), plain("x", tensor.F32, out, rank)},
		Out: []Operand{plain("w", t, out, n)},
		Forward: func(d *kernels.Device, x Tensors) {
			list := []kernels.Factor{{W: x["w"], X: x["x"], Column: column, Scale: scale}}
			if x["more"].Ok() {
				list = append(list, kernels.Factor{W: x["all"], X: x["more"], Scale: 1})
			}
			size := kernels.FactorListSize(len(list))
			a, err := d.NewArena("list", size)
			if err != nil {
				panic(err)
			}
			defer a.Close()
			d.PairFactors(d.NewFactorList(a.New("list", tensor.U8, size), list))
		},
		Want: func(x Values) Values {
			w := slices.Clone(x["w"])
			for i, v := range x["x"] {
				w[i/rank*n+column+i%rank] = scale * v
			}
			return Values{"w": w, "all": x["more"]}
		},
		Kernels: [2][]string{{"pair_factors"}, {"pair_factors"}},
	}
	if n > rank {
		c.In, c.Out = append(c.In, plain("more", tensor.F32, rank, n)), append(c.Out, plain("all", t, rank, n))
	}
	return c
}

// pairGradientCase computes the gradient of such a factor, or adds to it.
func pairGradientCase(t tensor.DType, rows, out, rank int, add bool) *Case {
	const from, column, scale = 3, 8, 1.5
	all, n := from+out+2, column+rank+1
	return &Case{
		Op: "pair_gradient", Type: t, Name: fmt.Sprintf("%s, add %t", label(rows, out, rank), add),
		In:      []Operand{plain("dw", tensor.F32, out, rank), plain("dy", t, rows, all), plain("x", t, rows, n)},
		Out:     []Operand{plain("dw", tensor.F32, out, rank)},
		Forward: func(d *kernels.Device, x Tensors) { d.PairGradient(x["dw"], x["dy"], x["x"], from, column, scale, add) },
		Want: func(x Values) Values {
			dw := make([]float64, out*rank)
			for i := range dw {
				for r := range rows {
					dw[i] += scale * x["dy"][r*all+from+i/rank] * x["x"][r*n+column+i%rank]
				}
			}
			if add {
				dw = sums(dw, x["dw"])
			}
			return Values{"dw": dw}
		},
		Kernels: [2][]string{{"linear_dw"}, {"linear_dw"}},
	}
}

func addPairCases() (cases []*Case) {
	for _, t := range Types {
		for _, s := range [][4]int{{1, 1, 1, 0}, {5, 3, 9, 4}, {72, 16, 48, 16}, {33, 8, 8, 0}} {
			cases = append(cases, pairFactorsCase(t, s[0], s[1], s[2], s[3]))
		}
		for i, s := range [][3]int{{1, 1, 1}, {7, 5, 3}, {130, 72, 16}, {40, 33, 8}} {
			cases = append(cases, pairGradientCase(t, s[0], s[1], s[2], i%2 == 1))
		}
		for _, s := range [][3]int{{1, 1, 1}, {5, 3, 7}, {72, 16, 64}, {33, 8, 130}, {17, 600, 40}} {
			cases = append(cases, addPairCase(t, s[0], s[1], s[2]))
		}
	}
	return cases
}
