package opcheck

import (
	"fmt"

	"restyle/kernels"
	"restyle/tensor"
)

// randomBits returns the 32 bits that decide about element i: two rounds of a multiplicative hash, with half of key
// each.
func randomBits(i int, key uint64) uint32 {
	x := uint32(i)
	for _, k := range []uint32{uint32(key), uint32(key >> 32)} {
		x ^= k
		x = (x ^ x>>16) * 0x7FEB352D
		x = (x ^ x>>15) * 0x846CA68B
		x ^= x >> 16
	}
	return x
}

func dropoutCase(t tensor.DType, rows, dim int, rate float64, key uint64) *Case {
	kept := func(x []float64) []float64 {
		y := make([]float64, len(x))
		for i := range y {
			if float64(randomBits(i, key)) >= rate*(1<<32) {
				y[i] = x[i] / (1 - rate)
			}
		}
		return y
	}
	return &Case{
		Op: "dropout", Type: t, Name: fmt.Sprintf("%s, rate %v", label(rows, dim), rate),
		In:       []Operand{act("x", t, rows, dim)},
		Out:      []Operand{act("y", t, rows, dim)},
		Forward:  func(d *kernels.Device, x Tensors) { d.Dropout(x["y"], x["x"], rate, key) },
		Backward: func(d *kernels.Device, x Tensors) { d.Dropout(x["dx"], x["dy"], rate, key) },
		Want:     func(x Values) Values { return Values{"y": kept(x["x"])} },
		Kernels:  [2][]string{{"dropout"}, {"dropout"}},
	}
}

func dropoutCases() (cases []*Case) {
	for _, t := range Types {
		cases = append(cases, dropoutCase(t, 1, 1, 0.5, 3), dropoutCase(t, 7, 33, 0.05, 1<<40+7),
			dropoutCase(t, 16, 64, 0.9, 0xFFFFFFFF00000001), dropoutCase(t, 5, 40, 0, 9))
	}
	return cases
}
