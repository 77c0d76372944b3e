package opcheck

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"

	"restyle/kernels"
	"restyle/tensor"
)

// normProductLimit leaves room for rounding the factors: each term is off by up to 2⁻⁹, or 2⁻¹² in F16, as often up as
// down.
func normProductLimit(t tensor.DType) Limit {
	return limit(t, Limit{0x1p-20, 0x1p-16}, Limit{0x1.2p-7, 0x1p-6})
}

const normLinearEps = 0.25 // large enough to show

// normLinearCase returns a layer after a norm, gated or not.
func normLinearCase(t tensor.DType, rows, in, out int, bias, gated bool) *Case {
	const eps = normLinearEps
	w := out
	if gated {
		w = 2 * out
	}
	c := &Case{
		Op: "decode", Type: t, Name: fmt.Sprintf("%s norm, bias %t, gated %t", label(rows, in, out), bias, gated),
		In:  []Operand{plain("x", t, rows, in), plain("norm", t, in), plain("w", t, w, in)},
		Out: []Operand{plain("y", t, rows, out)},
		Forward: func(d *kernels.Device, x Tensors) {
			f := d.NormLinear
			if gated {
				f = d.NormSwiGLU
			}
			f(x["y"], x["x"], x["norm"], x["w"], x["bias"], eps, pairOf(x)...)
		},
		Want: func(x Values) Values {
			normed, _ := RMSNorm(x["x"], x["norm"], eps)
			y := linearOf(x, normed, rows, in, w)
			if gated {
				y = gate(y, rows, out)
			}
			return Values{"y": y}
		},
		Tolerance: tolerance(t, 4e-6, 1e-2),
		Elements:  map[string]Limit{"y": normProductLimit(t)},
	}
	if t == tensor.F16 {
		c.Tolerance = 2e-3 // of a few elements, of which one or two are most of the norm
		if gated {         // what is off in an up is multiplied by a gate, up to three times its RMS
			c.Elements = map[string]Limit{"y": {normProductLimit(t).Relative, 2 * normProductLimit(t).RMS}}
		}
	}
	if bias {
		c.In = append(c.In, plain("bias", t, w))
	}
	return c
}

// gate computes SwiGLU of rows of gates followed by as many ups.
func gate(gateUp []float64, rows, inner int) []float64 {
	y := make([]float64, rows*inner)
	for i := range y {
		at := i/inner*2*inner + i%inner
		y[i] = gateUp[at] / (1 + math.Exp(-gateUp[at])) * gateUp[at+inner]
	}
	return y
}

func linearAddCase(t tensor.DType, rows, in, out int, bias bool) *Case {
	c := &Case{
		Op: "decode", Type: t, Name: fmt.Sprintf("%s onto the stream, bias %t", label(rows, in, out), bias),
		In:  []Operand{plain("h", t, rows, out), plain("x", t, rows, in), plain("w", t, out, in)},
		Out: []Operand{plain("h", t, rows, out)},
		Forward: func(d *kernels.Device, x Tensors) {
			if bias {
				d.LinearAddBefore(x["w"], x["h"], x["x"], x["w"], x["bias"], pairOf(x)...)
				return
			}
			d.LinearAdd(x["h"], x["x"], x["w"], tensor.Tensor{}, pairOf(x)...)
		},
		Want: func(x Values) Values {
			return Values{"h": sums(x["h"], linearOf(x, x["x"], rows, in, out))}
		},
		Kernels: [2][]string{{"linear_add"}, {"linear_add"}},
	}
	if rows > 16 && t.Half() { // cuBLASLt rounds the layer's output, up to 4 of its RMS, before the sum may cancel it
		c.Elements = map[string]Limit{"h": limit(t, Limit{}, Limit{0x1p-8 + 0x1p-14, 4 * 0x1p-9})}
	}
	if bias {
		c.In = append(c.In, plain("bias", t, out))
	}
	return c
}

// attentionNextCase lets a token at a position attend to caches with room for reach tokens.
func attentionNextCase(t tensor.DType, position, reach int, m kernels.AttentionSpec) *Case {
	width, half := m.KVHeads*m.HeadDim, m.HeadDim/2
	k, v := plain("k", t, reach, width), plain("v", t, reach, width)
	table := func(name string, f func(float64) float64) Operand {
		return Operand{Name: name, Type: tensor.F32, Shape: []int{reach, half}, Fill: func(_ *rand.Rand, i int) float64 {
			return f(RoPEAngle(i/half, i%half, m.HeadDim))
		}}
	}
	tolerance := attentionTolerance(t, 1)
	if t != tensor.F32 {
		tolerance *= 2 // queries and keys are rounded once more after the rotation
	}
	at := Operand{Name: "position", Type: tensor.I32, Shape: []int{1},
		Fill: func(*rand.Rand, int) float64 { return float64(position) }}
	parts := Operand{Name: "parts", Type: tensor.F32, Shape: m.NextParts(reach)}
	counters := Operand{Name: "counters", Type: tensor.I32, Shape: []int{m.Heads},
		Fill: func(*rand.Rand, int) float64 { return 0 }}
	return &Case{
		Op: "decode", Type: t,
		Name: fmt.Sprintf("attention at %d of %d heads %d/%d x%d window %d", position, reach, m.Heads, m.KVHeads, m.HeadDim,
			m.Window),
		In: []Operand{plain("qkv", t, 1, m.Width()), k, v, at, table("cos", math.Cos), table("sin", math.Sin), parts,
			counters},
		Out: []Operand{plain("y", t, 1, m.Heads*m.HeadDim), k, v},
		Forward: func(d *kernels.Device, x Tensors) {
			d.AttentionNext(x["y"], x["qkv"], x["k"], x["v"], x["position"], x["cos"], x["sin"], x["parts"], x["counters"],
				reach, m)
		},
		Want: func(x Values) Values {
			x = maps.Clone(x)
			x["qkv"] = rope(x["qkv"], x["position"], x["cos"], x["sin"], m.Heads, m.KVHeads, m.HeadDim)
			return cachedAttention(x, position, 1, reach, m)
		},
		Tolerance: tolerance,
		Elements:  map[string]Limit{"y": attentionLimit(t, tolerance)},
	}
}

// chooseNextCase returns a case with logits whose maximum, at one index or several, is not at the last.
func chooseNextCase(n int, odd map[int]float64, want int) *Case {
	return &Case{
		Op: "decode", Type: tensor.F32, Name: fmt.Sprintf("the choice of %d, %v", n, odd),
		In: []Operand{
			{Name: "next", Type: tensor.I32, Shape: []int{3}, Fill: func(*rand.Rand, int) float64 { return 5 }},
			{Name: "logits", Type: tensor.F32, Shape: []int{n}, Fill: func(r *rand.Rand, i int) float64 {
				if x, ok := odd[i]; ok {
					return x
				}
				return -1 - r.Float64()
			}},
			{Name: "scratch", Type: tensor.I32, Shape: []int{kernels.ChooseScratch},
				Fill: func(*rand.Rand, int) float64 { return 0 }},
		},
		Out:     []Operand{{Name: "next", Type: tensor.I32, Shape: []int{3}}},
		Forward: func(d *kernels.Device, x Tensors) { d.ChooseNext(x["next"], x["logits"], x["scratch"]) },
		Want:    func(Values) Values { return Values{"next": {max(float64(want), 0), 6, float64(want)}} },
		Kernels: [2][]string{{"choose_next"}, {"choose_next"}},
	}
}

func decodeCases() (cases []*Case) {
	for _, t := range Types {
		for i, size := range [][3]int{{1, 64, 40}, {1, 200, 24}, {1, 8, 3}, {1, 4104, 17}, {1, 33, 7}, {3, 64, 16}} {
			bias := i%2 == 1
			cases = append(cases, inParts(normLinearCase(t, size[0], size[1], size[2], !bias, false)),
				normLinearCase(t, size[0], size[1], size[2], bias, false), normLinearCase(t, size[0], size[1], size[2], bias, true),
				linearAddCase(t, size[0], size[1], size[2], bias))
		}
		for _, at := range [][2]int{{0, 1}, {7, 20}, {127, 300}, {128, 300}, {299, 300}} {
			cases = append(cases,
				attentionNextCase(t, at[0], at[1], kernels.AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 16}),
				attentionNextCase(t, at[0], at[1], kernels.AttentionSpec{Heads: 3, KVHeads: 1, HeadDim: 10, Window: 130}))
		}
		m := kernels.AttentionSpec{Heads: len(stairs), KVHeads: 2, HeadDim: 32}
		cases = append(cases, climbing(attentionNextCase(t, 149, 150, m), m, 149),
			// two thread blocks have the token's key
			attentionNextCase(t, 140, 150, kernels.AttentionSpec{Heads: 10, KVHeads: 1, HeadDim: 64}),
			// a thread has several vectors of a key
			attentionNextCase(t, 150, 151, kernels.AttentionSpec{Heads: 2, KVHeads: 2, HeadDim: 264}),
			// a thread block has two tiles
			attentionNextCase(t, 4160, 4200, kernels.AttentionSpec{Heads: 2, KVHeads: 1, HeadDim: 8}))
	}
	inf := math.Inf(1)
	return append(cases,
		chooseNextCase(1, nil, 0), chooseNextCase(5000, map[int]float64{4099: 3, 1030: 3, 1029: 2}, 1030),
		chooseNextCase(2000, map[int]float64{1999: -0.5}, 1999), chooseNextCase(40, map[int]float64{1: math.NaN(), 2: 1}, -1),
		chooseNextCase(3000, map[int]float64{2999: inf, 2: 1}, -1), chooseNextCase(40, map[int]float64{3: -inf, 20: 0}, 20),
		chooseNextCase(2, map[int]float64{0: -inf, 1: -inf}, -1),
		chooseNextCase(1100, map[int]float64{0: math.NaN(), 1024: 3}, -1))
}
