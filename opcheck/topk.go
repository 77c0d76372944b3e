package opcheck

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"restyle/kernels"
	"restyle/tensor"
)

// first returns the indices of the k first elements of a row without NaN in the order of TopK.
func first(row []float64, k int) []int {
	all := make([]int, len(row))
	for i := range all {
		all[i] = i
	}
	slices.SortStableFunc(all, func(i, j int) int {
		switch {
		case row[i] > row[j]:
			return -1
		case row[i] < row[j]:
			return 1
		}
		return 0
	})
	return all[:k]
}

// topKCase returns a case of elements that are whole numbers if tied: many are equal. The others are so far apart that
// differences in the gradient change no order. If crowded, the largest are those that few threads of a GPU read.
func topKCase(t tensor.DType, rows, n, k int, tied, crowded bool) *Case {
	x := act("x", t, rows, n)
	x.Fill = func(r *rand.Rand, i int) float64 {
		if tied {
			return float64(r.IntN(5) - 2)
		}
		if crowded && i%256 < 16 {
			return float64(n + i)
		}
		return float64(i%n*7919%n)/64 - 1 // each value once, if 7919 does not divide n
	}
	c := &Case{
		Op: "topk", Type: t, Name: fmt.Sprintf("%s of %s, tied %t, crowded %t", label(k), label(rows, n), tied, crowded),
		In:       []Operand{x},
		Out:      []Operand{act("values", t, rows, k), plain("indices", tensor.I32, rows, k)},
		Forward:  func(d *kernels.Device, x Tensors) { d.TopK(x["values"], x["indices"], x["x"], k) },
		Backward: func(d *kernels.Device, x Tensors) { d.TopKBackward(x["dx"], x["dvalues"], x["indices"]) },
		Want: func(x Values) Values {
			var values, indices []float64
			for r := range rows {
				row := x["x"][r*n : (r+1)*n]
				for _, i := range first(row, k) {
					values, indices = append(values, row[i]), append(indices, float64(i))
				}
			}
			return Values{"values": values, "indices": indices}
		},
		Kernels:  [2][]string{{"topk", "topk_backward"}},
		Elements: map[string]Limit{"indices": {0, 0}},
	}
	if tied { // a difference would change the order
		c.In[0].Grad, c.Out[0].Grad = NoGradient, NoGradient
		c.Backward, c.Kernels = nil, [2][]string{{"topk"}}
	}
	c.ForwardBytes = c.bytes("x", "values", "indices")
	if c.Backward != nil {
		c.BackwardBytes = c.ForwardBytes
	}
	return c
}

func topKCases() (cases []*Case) {
	for _, t := range Types {
		for _, s := range [][3]int{
			{1, 1, 1}, {3, 7, 3}, {2, 16, 16}, {64, 8, 2}, {5, 63, 4}, {2, 1024, 5}, {2, 2050, 6}, {1, 2060, 200},
			{1, 1040, 300},
		} {
			for _, tied := range []bool{false, true} {
				if t == tensor.F32 || tied || s[1] < 256 { // BF16 has too few values that are far apart
					cases = append(cases, topKCase(t, s[0], s[1], s[2], tied, false))
				}
			}
		}
	}
	return append(cases, topKCase(tensor.F32, 2, 1024, 2, false, true))
}
