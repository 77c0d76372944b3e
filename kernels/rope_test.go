package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"restyle/tensor"
)

const ropeTheta = 10000

// angle is that of a pair at a position, without any scaling.
func angle(position, pair, headDim int) float64 {
	return float64(position) * math.Pow(ropeTheta, -2*float64(pair)/float64(headDim))
}

// rope is the formula with the angles as they are stored.
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

func ropeCase(t tensor.DType, rows, heads, kvHeads, headDim int) opCase {
	width, half := (heads+2*kvHeads)*headDim, headDim/2
	const most = 50
	table := func(name string, f func(float64) float64) operand {
		return operand{name: name, t: tensor.F32, shape: []int{most, half}, fill: func(_ *rand.Rand, i int) float64 {
			return f(angle(i/half, i%half, headDim))
		}}
	}
	positions := operand{name: "positions", t: tensor.I32, shape: []int{rows}, fill: func(_ *rand.Rand, i int) float64 {
		return float64(i * 7 % most)
	}}
	c := opCase{
		op: "rope", name: label(t, rows, width) + fmt.Sprintf(" %d/%d heads", heads, kvHeads),
		in:      []operand{act("qkv", t, rows, width), positions, table("cos", math.Cos), table("sin", math.Sin)},
		out:     []operand{act("qkv", t, rows, width)},
		forward: func(d *Device, x tensors) { d.RoPE(x["qkv"], x["positions"], x["cos"], x["sin"], heads, kvHeads) },
		backward: func(d *Device, x tensors) {
			d.RoPEBackward(x["dqkv"], x["positions"], x["cos"], x["sin"], heads, kvHeads)
		},
		want: func(x values) values {
			return values{"qkv": rope(x["qkv"], x["positions"], x["cos"], x["sin"], heads, kvHeads, headDim)}
		},
		kernels: [2][]string{{"rope", "rope_backward"}},
	}
	c.forwardBytes = c.bytes("qkv", "qkv") * float64(heads+kvHeads) / float64(heads+2*kvHeads)
	c.backwardBytes = c.forwardBytes
	return c
}

func TestRoPE(t *testing.T) {
	var cases []opCase
	for _, t := range both {
		for _, s := range [][4]int{{1, 1, 1, 2}, {5, 4, 2, 16}, {3, 3, 1, 24}, {40, 2, 2, 32}, {2, 8, 2, 128}} {
			cases = append(cases, ropeCase(t, s[0], s[1], s[2], s[3]))
		}
	}
	testOps(t, cases)
}

// TestRoPEFar turns by the largest position of Llama 3, whose angles are the table's and not computed in float32, and back.
func TestRoPEFar(t *testing.T) {
	const most, heads, kvHeads, headDim = 131072, 2, 1, 20
	const width, half = (heads + 2*kvHeads) * headDim, headDim / 2
	eachDevice(t, func(t *testing.T, d *Device) {
		a := arena(t, d, 2*most*half*4+1<<16)
		cos, sin := a.New("cos", tensor.F32, most, half), a.New("sin", tensor.F32, most, half)
		last := func(x tensor.Tensor, f func(float64) float64) {
			d.Upload(x.Slice(most-1, most), filled(half, func(i int) float64 { return f(angle(most-1, i, headDim)) }))
		}
		last(cos, math.Cos)
		last(sin, math.Sin)
		x, p := a.New("x", tensor.F32, 1, width), a.New("p", tensor.I32, 1)
		d.UploadI32(p, []int32{most - 1})
		before := filled(width, func(i int) float64 { return math.Sin(float64(i)) })
		d.Upload(x, before)
		at := floats(t, d, x)

		d.RoPE(x, p, cos, sin, heads, kvHeads)
		want := append([]float64(nil), at...)
		for h := range heads + kvHeads {
			for i := range half {
				c, s := math.Cos(angle(most-1, i, headDim)), math.Sin(angle(most-1, i, headDim))
				k := h*headDim + i
				want[k], want[k+half] = at[k]*c-at[k+half]*s, at[k+half]*c+at[k]*s
			}
		}
		if e := distance(floats(t, d, x), want); e > 2e-7 { // two products and a sum, each to 2⁻²⁴
			t.Errorf("turned: off by %.3g", e)
		}
		d.RoPEBackward(x, p, cos, sin, heads, kvHeads)
		if e := distance(floats(t, d, x), at); e > 4e-7 {
			t.Errorf("turned back: off by %.3g", e)
		}
		mustPanic(t, "a position beyond the table", "RoPE: positions[0] is 131072", func() {
			d.UploadI32(p, []int32{most})
			d.RoPE(x, p, cos, sin, heads, kvHeads)
		})
	})
}
