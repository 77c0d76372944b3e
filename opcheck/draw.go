package opcheck

import (
	"math/rand/v2"

	"restyle/kernels"
	"restyle/tensor"
)

// drawCase takes the highest of many equal logits. What is drawn at other temperatures, which a CPU leaves to its
// caller, is compared with the sampler in package infer.
func drawCase(rows, vocab int) *Case {
	logits := plain("logits", tensor.F32, rows, vocab)
	logits.Fill = func(r *rand.Rand, _ int) float64 { return float64(r.IntN(9) - 4) }
	draws := plain("draws", tensor.I32, rows, kernels.DrawWords)
	draws.Fill = func(*rand.Rand, int) float64 { return 0 }
	return &Case{
		Op: "draw", Type: tensor.F32, Name: label(rows, vocab), In: []Operand{logits, draws},
		Out:     []Operand{plain("ids", tensor.I32, rows)},
		Forward: func(d *kernels.Device, x Tensors) { d.Draw(x["ids"], x["logits"], x["draws"]) },
		Want: func(x Values) Values {
			var ids []float64
			for r := range rows {
				ids = append(ids, float64(first(x["logits"][r*vocab:][:vocab], 1)[0]))
			}
			return Values{"ids": ids}
		},
		Kernels:  [2][]string{{"draw"}},
		Elements: map[string]Limit{"ids": {0, 0}},
	}
}

func drawCases() []*Case {
	return []*Case{drawCase(1, 1), drawCase(3, 63), drawCase(2, 1040), drawCase(5, 2050)}
}
