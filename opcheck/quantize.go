package opcheck

import (
	"fmt"
	"math"
	"math/rand/v2"

	"restyle/kernels"
	"restyle/quant"
	"restyle/tensor"
)

// quantizeCase codes n numbers in 8 bits and decodes them. If it is unsigned, no number is negative.
func quantizeCase(n int, signed bool) *Case {
	x := plain("x", tensor.F32, n)
	if !signed {
		x.Fill = func(r *rand.Rand, _ int) float64 { return math.Abs(r.NormFloat64()) }
	}
	blocks, numbers := kernels.QuantBlocks(n), quant.DynamicMap(signed)
	return &Case{
		Op: "quantize", Type: tensor.F32, Name: label(n) + fmt.Sprint(" signed ", signed),
		In:  []Operand{x},
		Out: []Operand{plain("codes", tensor.U8, n), plain("scale", tensor.F32, blocks), plain("back", tensor.F32, n)},
		Forward: func(d *kernels.Device, x Tensors) {
			d.Quantize(x["codes"], x["scale"], x["x"], signed)
			d.Dequantize(x["back"], x["codes"], x["scale"], signed)
		},
		Want: func(x Values) Values {
			scale, back := make([]float64, blocks), make([]float64, n)
			for i, v := range x["x"] {
				b := i / kernels.QuantBlockSize
				scale[b] = max(scale[b], math.Abs(v))
			}
			for i, v := range x["x"] {
				s, off := scale[i/kernels.QuantBlockSize], math.Inf(1)
				for _, number := range numbers {
					if y := float64(number) * s; math.Abs(y-v) < off {
						back[i], off = y, math.Abs(y-v)
					}
				}
			}
			return Values{"scale": scale, "back": back}
		},
		Kernels: [2][]string{{"quantize", "dequantize"}},
	}
}

func quantizeCases() (cases []*Case) {
	for _, n := range []int{1, 255, 256, 257, 5003} {
		cases = append(cases, quantizeCase(n, true), quantizeCase(n, false))
	}
	return cases
}
