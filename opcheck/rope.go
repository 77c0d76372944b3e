package opcheck

import (
	"fmt"
	"math"
	"math/rand/v2"

	"restyle/kernels"
	"restyle/tensor"
)

const ropeTheta = 10000

// RoPEAngle returns the angle of a pair of elements of a head at a position, without any scaling.
func RoPEAngle(position, pair, headDim int) float64 {
	return float64(position) * math.Pow(ropeTheta, -2*float64(pair)/float64(headDim))
}

// rope computes the formula, with the angles as they are stored.
func rope(qkv, positions, cos, sin []float64, heads, kvHeads, headDim int) []float64 {
	width, half := (heads+2*kvHeads)*headDim, headDim/2
	y := append([]float64(nil), qkv...)
	for r, p := range positions {
		for h := range heads + kvHeads {
			for i := range half {
				a := r*width + h*headDim + i
				c, s := cos[int(p)*half+i], sin[int(p)*half+i]
				y[a] = qkv[a]*c - qkv[a+half]*s
				y[a+half] = qkv[a+half]*c + qkv[a]*s
			}
		}
	}
	return y
}

func ropeCase(t tensor.DType, rows, heads, kvHeads, headDim int) *Case {
	width, half := (heads+2*kvHeads)*headDim, headDim/2
	const most = 50
	table := func(name string, f func(float64) float64) Operand {
		return Operand{Name: name, Type: tensor.F32, Shape: []int{most, half}, Fill: func(_ *rand.Rand, i int) float64 {
			return f(RoPEAngle(i/half, i%half, headDim))
		}}
	}
	positions := Operand{Name: "positions", Type: tensor.I32, Shape: []int{rows}, Fill: func(_ *rand.Rand, i int) float64 {
		return float64(i * 7 % most)
	}}
	c := &Case{
		Op: "rope", Type: t, Name: label(rows, width) + fmt.Sprintf(" %d/%d heads", heads, kvHeads),
		In:  []Operand{act("qkv", t, rows, width), positions, table("cos", math.Cos), table("sin", math.Sin)},
		Out: []Operand{act("qkv", t, rows, width)},
		Forward: func(d *kernels.Device, x Tensors) {
			d.RoPE(x["qkv"], x["positions"], x["cos"], x["sin"], heads, kvHeads)
		},
		Backward: func(d *kernels.Device, x Tensors) {
			d.RoPEBackward(x["dqkv"], x["positions"], x["cos"], x["sin"], heads, kvHeads)
		},
		Want: func(x Values) Values {
			return Values{"qkv": rope(x["qkv"], x["positions"], x["cos"], x["sin"], heads, kvHeads, headDim)}
		},
		Kernels: [2][]string{{"rope", "rope_backward"}},
	}
	c.ForwardBytes = c.bytes("qkv", "qkv") * float64(heads+kvHeads) / float64(heads+2*kvHeads)
	c.BackwardBytes = c.ForwardBytes
	return c
}

func ropeCases() (cases []*Case) {
	for _, t := range Types {
		for _, s := range [][4]int{{1, 1, 1, 2}, {5, 4, 2, 16}, {3, 3, 1, 24}, {40, 2, 2, 32}, {2, 8, 2, 128}} {
			cases = append(cases, ropeCase(t, s[0], s[1], s[2], s[3]))
		}
	}
	return cases
}
