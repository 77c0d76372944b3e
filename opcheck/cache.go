package opcheck

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"restyle/kernels"
	"restyle/tensor"
)

// cachedAttentionCase appends the keys and values of rows to caches that have room for three more, and lets the rows
// attend to all of them.
func cachedAttentionCase(t tensor.DType, start, rows int, m kernels.AttentionSpec) *Case {
	width, capacity := m.KVHeads*m.HeadDim, start+rows+3
	k, v := plain("k", t, capacity, width), plain("v", t, capacity, width)
	tolerance := attentionTolerance(t, 1)
	return &Case{
		Op: "cached", Type: t,
		Name: fmt.Sprintf("%d+%d heads %d/%d x%d window %d", start, rows, m.Heads, m.KVHeads, m.HeadDim, m.Window),
		In:   []Operand{plain("qkv", t, rows, m.Width()), k, v},
		Out:  []Operand{plain("y", t, rows, m.Heads*m.HeadDim), k, v},
		Forward: func(d *kernels.Device, x Tensors) {
			d.AppendKV(x["k"], x["v"], x["qkv"], m.Heads, m.KVHeads, start)
			d.AttentionCached(x["y"], x["qkv"], x["k"], x["v"], start, m)
		},
		Want:      func(x Values) Values { return cachedAttention(x, start, rows, capacity, m) },
		Tolerance: tolerance,
		Elements:  map[string]Limit{"y": attentionLimit(t, tolerance)},
		Kernels:   [2][]string{{"append_kv", "attention_cached"}},
	}
}

// cachedAttention computes the formula: attention of all rows so far, the last of which come from qkv. The caches have
// capacity rows.
func cachedAttention(x Values, start, rows, capacity int, m kernels.AttentionSpec) Values {
	width := m.KVHeads * m.HeadDim
	k, v := slices.Clone(x["k"]), slices.Clone(x["v"])
	all := make([]float64, start*m.Width(), capacity*m.Width())
	all = append(all, x["qkv"]...)
	for r := range start + rows {
		row := all[r*m.Width():][m.Heads*m.HeadDim : m.Width()]
		if r < start {
			copy(row, k[r*width:][:width])
			copy(row[width:], v[r*width:][:width])
		} else {
			copy(k[r*width:][:width], row)
			copy(v[r*width:][:width], row[width:])
		}
	}
	m.CuSeqlens = []int32{0, int32(start + rows)}
	y, _, _, _ := Attention(m, all, nil, Exact)
	return Values{"y": y[start*m.Heads*m.HeadDim:], "k": k, "v": v}
}

func cachedAttentionCases() (cases []*Case) {
	for _, t := range Types {
		for _, rows := range []int{1, 2, 19} { // a single token has a kernel of its own
			for _, start := range []int{0, 7, 300} { // from 257 keys on, several chunks
				cases = append(cases,
					cachedAttentionCase(t, start, rows, kernels.AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 16}),
					cachedAttentionCase(t, start, rows, kernels.AttentionSpec{Heads: 3, KVHeads: 1, HeadDim: 10, Window: 5}),
					cachedAttentionCase(t, start, rows, kernels.AttentionSpec{Heads: 2, KVHeads: 2, HeadDim: 11, Divisor: 5}))
			}
		}
	}
	for _, t := range Types {
		for _, rows := range []int{1, 5} {
			for _, dim := range []int{32, 16} { // with tensor cores and without
				m := kernels.AttentionSpec{Heads: len(stairs), KVHeads: 2, HeadDim: dim}
				cases = append(cases, climbing(cachedAttentionCase(t, 150-rows, rows, m), m, 150-rows))
			}
		}
	}
	// more cached keys than thread blocks that have 64 each
	cases = append(cases,
		cachedAttentionCase(tensor.F32, 4160, 1, kernels.AttentionSpec{Heads: 2, KVHeads: 1, HeadDim: 8}))
	// On tensor cores. In the second case, scores of later tiles are so much larger that earlier sums have to be scaled
	// down.
	for _, t := range []tensor.DType{tensor.BF16, tensor.F16} {
		cases = append(cases,
			cachedAttentionCase(t, 50, 70, kernels.AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 64}),
			cachedAttentionCase(t, 130, 130, kernels.AttentionSpec{Heads: 2, KVHeads: 1, HeadDim: 32, Window: 70}))
		cases[len(cases)-1].In[0].Fill = func(r *rand.Rand, _ int) float64 { return 4 * r.NormFloat64() }
	}
	return cases
}
