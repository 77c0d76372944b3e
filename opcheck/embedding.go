package opcheck

import (
	"math/rand/v2"

	"restyle/kernels"
	"restyle/tensor"
)

// embeddingCase looks up rows ids, drawn at random from the first ids ids of the table.
func embeddingCase(t tensor.DType, rows, vocab, dim, ids int) *Case {
	c := &Case{
		Op: "embedding", Type: t, Name: label(rows, vocab, dim),
		In: []Operand{
			par("table", t, vocab, dim),
			{Name: "ids", Type: tensor.I32, Shape: []int{rows},
				Fill: func(r *rand.Rand, _ int) float64 { return float64(r.IntN(ids)) }},
		},
		Out:      []Operand{act("y", t, rows, dim)},
		Forward:  func(d *kernels.Device, x Tensors) { d.Embedding(x["y"], x["table"], x["ids"]) },
		Backward: func(d *kernels.Device, x Tensors) { d.EmbeddingBackward(x["dtable"], x["dy"], x["ids"], -1) },
		Want: func(x Values) Values {
			var y []float64
			for _, id := range x["ids"] {
				y = append(y, x["table"][int(id)*dim:(int(id)+1)*dim]...)
			}
			return Values{"y": y}
		},
		Kernels: [2][]string{{"embedding", "embedding_backward"}},
	}
	c.ForwardBytes = c.bytes("y", "y")
	c.BackwardBytes = c.bytes("y") + 8*float64(rows*dim)
	return c
}

func embeddingCases() (cases []*Case) {
	for _, t := range Types {
		// One row thousands of times; columns of several tasks.
		for _, s := range [][4]int{{3, 1, 1, 1}, {20, 50, 33, 50}, {31, 9, 200, 9}, {4000, 3, 5, 1}, {300, 2, 4, 1}} {
			cases = append(cases, embeddingCase(t, s[0], s[1], s[2], s[3]))
		}
	}
	return cases
}
