package kernels

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"restyle/tensor"
)

// qkNormCase has a gradient of each weight but those that are frozen.
func qkNormCase(t tensor.DType, rows, heads, kvHeads, headDim int, frozen ...string) opCase {
	const eps = 1e-6
	width := (heads + 2*kvHeads) * headDim
	c := opCase{
		op: "qknorm", name: label(t, rows, width) + fmt.Sprintf(" %d/%d heads", heads, kvHeads),
		in:  []operand{act("qkv", t, rows, width), par("wq", t, headDim), par("wk", t, headDim)},
		out: []operand{act("y", t, rows, width), plain("rstd", tensor.F32, rows, heads+kvHeads)},
		forward: func(d *Device, x tensors) {
			d.QKNorm(x["y"], x["rstd"], x["qkv"], x["wq"], x["wk"], heads, kvHeads, eps)
		},
		backward: func(d *Device, x tensors) {
			d.QKNormBackward(x["dqkv"], x["dwq"], x["dwk"], x["dy"], x["qkv"], x["wq"], x["wk"], x["rstd"], heads, kvHeads)
		},
		want: func(x values) values {
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
				n, r := rmsNorm(head, w, eps)
				y, rstd = append(y, n...), append(rstd, r...)
			}
			return values{"y": y, "rstd": rstd}
		},
		kernels: [2][]string{{"qknorm", "qknorm_backward"}},
	}
	for i, o := range c.in {
		if slices.Contains(frozen, o.name) {
			c.in[i].grad = none
			c.name += " without d" + o.name
		}
	}
	c.forwardBytes = c.bytes("qkv", "y")
	c.backwardBytes = c.bytes("qkv", "qkv", "y")
	return c
}

func TestQKNorm(t *testing.T) {
	var cases []opCase
	for _, t := range both {
		for _, s := range [][4]int{{1, 1, 1, 2}, {3, 4, 2, 16}, {2, 3, 3, 24}, {150, 6, 2, 8}, {2, 5, 1, 128}} {
			cases = append(cases, qkNormCase(t, s[0], s[1], s[2], s[3]))
		}
		cases = append(cases, qkNormCase(t, 150, 6, 2, 8, "wq"), qkNormCase(t, 3, 4, 2, 16, "wk"), qkNormCase(t, 3, 4, 2, 16, "wq", "wk"))
	}
	testOps(t, cases)
}

// TestQKNormInPlace wants the same bits where y lies in qkv, and dqkv in dy.
func TestQKNormInPlace(t *testing.T) {
	const rows, heads, kvHeads, headDim, eps = 3, 5, 2, 24, 1e-6
	const width = (heads + 2*kvHeads) * headDim
	eachDevice(t, func(t *testing.T, d *Device) {
		for _, typ := range both {
			a := arena(t, d, 1<<16)
			var x [6]tensor.Tensor // qkv, dy, y, dqkv, and the first two again
			for i := range x {
				x[i] = a.New("x", typ, rows, width)
				d.Upload(x[i], filled(x[i].Len(), func(i int) float64 { return math.Sin(float64(7 * i)) }))
			}
			wq, wk, none := a.New("wq", typ, headDim), a.New("wk", typ, headDim), tensor.Tensor{}
			d.Upload(wq, filled(headDim, func(i int) float64 { return float64(i) }))
			d.Upload(wk, filled(headDim, func(i int) float64 { return float64(-i) }))
			rstd := a.New("rstd", tensor.F32, rows, heads+kvHeads)
			d.QKNorm(x[2], rstd, x[0], wq, wk, heads, kvHeads, eps)
			d.QKNormBackward(x[3], none, none, x[1], x[0], wq, wk, rstd, heads, kvHeads)
			d.QKNormBackward(x[5], none, none, x[5], x[4], wq, wk, rstd, heads, kvHeads)
			d.QKNorm(x[4], rstd, x[4], wq, wk, heads, kvHeads, eps)
			for i, name := range []string{"y", "dqkv"} {
				if !bytes.Equal(bytesOf(t, d, x[2+i]), bytesOf(t, d, x[4+i])) {
					t.Errorf("%v: %s is another in place", typ, name)
				}
			}
		}
	})
}
