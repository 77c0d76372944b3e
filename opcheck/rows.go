package opcheck

import (
	"math/rand/v2"

	"restyle/kernels"
	"restyle/tensor"
)

func rowsCase(t tensor.DType, rows, dim int, index []int) *Case {
	c := &Case{
		Op: "rows", Type: t, Name: label(len(index), rows, dim),
		In: []Operand{
			act("x", t, rows, dim),
			{Name: "index", Type: tensor.I32, Shape: []int{len(index)},
				Fill: func(_ *rand.Rand, i int) float64 { return float64(index[i]) }},
		},
		Out:      []Operand{act("y", t, len(index), dim)},
		Forward:  func(d *kernels.Device, x Tensors) { d.GatherRows(x["y"], x["x"], x["index"]) },
		Backward: func(d *kernels.Device, x Tensors) { d.ScatterRows(x["dx"], x["dy"], x["index"]) },
		Want: func(x Values) Values {
			var y []float64
			for _, i := range index {
				y = append(y, x["x"][i*dim:(i+1)*dim]...)
			}
			return Values{"y": y}
		},
		Kernels: [2][]string{{"gather_rows", "scatter_rows"}},
	}
	c.ForwardBytes = c.bytes("y", "y")
	c.BackwardBytes = c.bytes("y", "x")
	return c
}

func rowsCases() (cases []*Case) {
	var many []int // all but every seventh, and long stretches without any
	for i := range 2200 {
		if i%7 != 3 && i/512%2 == 0 {
			many = append(many, i)
		}
	}
	for _, t := range Types {
		cases = append(cases,
			rowsCase(t, 2200, 12, many),
			rowsCase(t, 3, 8200, []int{1}), // longer than what a thread block moves at a time
			rowsCase(t, 1, 1, []int{0}),
			rowsCase(t, 5, 3, []int{4}),
			rowsCase(t, 6, 16, []int{0, 1, 2, 3, 4, 5}),
			rowsCase(t, 300, 70, []int{2, 3, 5, 80, 81, 82, 150, 298}))
	}
	return cases
}
