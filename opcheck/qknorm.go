package opcheck

import (
	"fmt"

	"restyle/kernels"
	"restyle/tensor"
)

func qkNormCase(t tensor.DType, rows, heads, kvHeads, headDim int) *Case {
	eps := 1e-6 * float32(rows)
	width := (heads + 2*kvHeads) * headDim
	c := &Case{
		Op: "qknorm", Type: t, Name: label(rows, width) + fmt.Sprintf(" %d/%d heads", heads, kvHeads),
		In:  []Operand{act("qkv", t, rows, width), par("wq", t, headDim), par("wk", t, headDim)},
		Out: []Operand{act("y", t, rows, width), plain("rstd", tensor.F32, rows, heads+kvHeads)},
		Forward: func(d *kernels.Device, x Tensors) {
			d.QKNorm(x["y"], x["rstd"], x["qkv"], x["wq"], x["wk"], heads, kvHeads, eps)
		},
		Backward: func(d *kernels.Device, x Tensors) {
			d.QKNormBackward(x["dqkv"], x["dwq"], x["dwk"], x["dy"], x["qkv"], x["wq"], x["wk"], x["rstd"], heads, kvHeads)
		},
		Want: func(x Values) Values {
			var y, rstd []float64
			for at := 0; at < len(x["qkv"]); at += headDim {
				head, w := x["qkv"][at:at+headDim], x["wq"]
				switch h := at % width / headDim; {
				case h >= heads+kvHeads:
					y = append(y, head...)
					continue
				case h >= heads:
					w = x["wk"]
				}
				n, r := RMSNorm(head, w, float64(eps))
				y, rstd = append(y, n...), append(rstd, r...)
			}
			return Values{"y": y, "rstd": rstd}
		},
		Kernels: [2][]string{{"qknorm", "qknorm_backward"}},
	}
	c.ForwardBytes = c.bytes("qkv", "y")
	c.BackwardBytes = c.bytes("qkv", "qkv", "y")
	return c
}

func qkNormCases() (cases []*Case) {
	for _, t := range Types {
		for _, s := range [][4]int{{1, 1, 1, 2}, {3, 4, 2, 16}, {2, 3, 3, 24}, {150, 6, 2, 8}, {2, 5, 1, 128}} {
			cases = append(cases, qkNormCase(t, s[0], s[1], s[2], s[3]))
		}
		cases = append(cases, qkNormCase(t, 150, 6, 2, 8).without("dwq"), qkNormCase(t, 3, 4, 2, 16).without("dwk"),
			qkNormCase(t, 3, 4, 2, 16).without("dwq", "dwk"))
	}
	return cases
}
