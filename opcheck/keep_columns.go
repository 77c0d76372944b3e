package opcheck

import (
	"fmt"
	"math/rand/v2"

	"restyle/kernels"
	"restyle/tensor"
)

// keepColumnsCase keeps the columns of each row that a list of pairs, one after the other, says.
func keepColumnsCase(t tensor.DType, rows, parts, n int, columns ...[2]int) *Case {
	of := func(r int) [2]int { return columns[r%len(columns)] }
	return &Case{
		Op: "keep_columns", Type: t, Name: fmt.Sprintf("%s, %d parts", label(rows, parts*n), parts),
		In: []Operand{
			act("x", t, rows, parts*n),
			{Name: "columns", Type: tensor.I32, Shape: []int{rows, 2},
				Fill: func(_ *rand.Rand, i int) float64 { return float64(of(i / 2)[i%2]) }},
		},
		Out: []Operand{{Name: "y", Type: t, Shape: []int{rows, parts * n}}},
		Forward: func(d *kernels.Device, x Tensors) {
			d.KeepColumns(x["y"], x["x"], x["columns"], n)
			d.KeepColumns(x["y"], x["y"], x["columns"], n) // in place, which changes nothing
		},
		Want: func(x Values) Values {
			y := make([]float64, rows*parts*n)
			for i := range y {
				if at, c := i%n, of(i/(parts*n)); c[0] <= at && at < c[1] {
					y[i] = x["x"][i]
				}
			}
			return Values{"y": y}
		},
		Kernels: [2][]string{{"keep_columns"}, {"keep_columns"}},
	}
}

func keepColumnsCases() (cases []*Case) {
	for _, t := range Types {
		cases = append(cases,
			keepColumnsCase(t, 1, 1, 1, [2]int{0, 1}),
			keepColumnsCase(t, 5, 3, 7, [2]int{0, 0}, [2]int{2, 5}, [2]int{0, 7}, [2]int{7, 7}),
			keepColumnsCase(t, 33, 2, 64, [2]int{16, 48}, [2]int{0, 16}, [2]int{48, 64}))
	}
	return cases
}
