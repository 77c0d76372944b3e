package opcheck

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"restyle/kernels"
	"restyle/tensor"
)

// A run is some consecutive tokens of a sequence, from a position on. A sequence has one run.
type run struct{ position, tokens int }

// A pool is the memory of the keys and values of runs' sequences: which blocks each has, and where a token is.
type pool struct {
	runs      []run
	tables    [][]int // blocks of each sequence
	maxBlocks int
	rows      int // of the pool
}

// poolOf spreads the blocks of sequences over a pool that has two more.
func poolOf(runs []run) (p pool) {
	p.runs = runs
	r, all := rand.New(rand.NewPCG(7, 11)), 0
	for _, x := range runs {
		n := (x.position + x.tokens + kernels.PagedBlock - 1) / kernels.PagedBlock
		p.maxBlocks = max(p.maxBlocks, n)
		all += n
	}
	ids := r.Perm(all + 2)
	p.rows = len(ids) * kernels.PagedBlock
	for _, x := range runs {
		n := (x.position + x.tokens + kernels.PagedBlock - 1) / kernels.PagedBlock
		p.tables, ids = append(p.tables, ids[:n]), ids[n:]
	}
	return p
}

// slot returns the row of a sequence's token.
func (p pool) slot(sequence, position int) int {
	return p.tables[sequence][position/kernels.PagedBlock]*kernels.PagedBlock + position%kernels.PagedBlock
}

// operands returns tables, places and slots.
func (p pool) operands() (tables, places, slots Operand) {
	var at, to []float64
	for s, x := range p.runs {
		for i := range x.tokens {
			at, to = append(at, float64(s), float64(x.position+i)), append(to, float64(p.slot(s, x.position+i)))
		}
	}
	these := func(name string, values []float64, shape ...int) Operand {
		return Operand{Name: name, Type: tensor.I32, Shape: shape,
			Fill: func(_ *rand.Rand, i int) float64 { return values[i] }}
	}
	var ids []float64
	for _, table := range p.tables {
		for i := range p.maxBlocks {
			id := p.rows // nothing may read it
			if i < len(table) {
				id = table[i]
			}
			ids = append(ids, float64(id))
		}
	}
	return these("tables", ids, len(p.runs), p.maxBlocks), these("places", at, len(to), 2), these("slots", to, len(to))
}

// reaching gives the tables of a pool's sequences room for a number of tokens.
func (p pool) reaching(tokens int) pool {
	p.maxBlocks = tokens / kernels.PagedBlock
	return p
}

// pagedCase appends the keys and values of runs to a pool, and lets the rows attend to their sequences.
func pagedCase(t tensor.DType, p pool, m kernels.AttentionSpec) *Case {
	tables, places, slots := p.operands()
	rows, width := slots.Shape[0], m.KVHeads*m.HeadDim
	k, v := plain("k", t, p.rows, width), plain("v", t, p.rows, width)
	tolerance := attentionTolerance(t, 1)
	return &Case{
		Op: "paged", Type: t,
		Name: fmt.Sprintf("%v of %d heads %d/%d x%d window %d", p.runs, p.maxBlocks, m.Heads, m.KVHeads, m.HeadDim, m.Window),
		In:   []Operand{plain("qkv", t, rows, m.Width()), k, v, tables, places, slots},
		Out:  []Operand{plain("y", t, rows, m.Heads*m.HeadDim), k, v},
		Forward: func(d *kernels.Device, x Tensors) {
			d.AppendPaged(x["k"], x["v"], x["qkv"], x["slots"], m.Heads, m.KVHeads)
			d.AttentionPaged(x["y"], x["qkv"], x["k"], x["v"], x["tables"], x["places"], p.maxBlocks*kernels.PagedBlock, m)
		},
		Want:      func(x Values) Values { return pagedAttention(x, p, m) },
		Tolerance: tolerance,
		Elements:  map[string]Limit{"y": attentionLimit(t, tolerance)},
		Kernels:   [2][]string{{"append_paged", "attention_paged"}},
	}
}

// pagedAttention computes the formula: attention of each sequence, whose last rows come from qkv.
func pagedAttention(x Values, p pool, m kernels.AttentionSpec) Values {
	width, queries := m.KVHeads*m.HeadDim, m.Heads*m.HeadDim
	k, v, y := slices.Clone(x["k"]), slices.Clone(x["v"]), []float64{}
	qkv := x["qkv"]
	for s, x := range p.runs {
		n := x.position + x.tokens
		all := make([]float64, n*m.Width())
		copy(all[x.position*m.Width():], qkv)
		for i := range n {
			row, at := all[i*m.Width():][queries:m.Width()], p.slot(s, i)*width
			if i < x.position {
				copy(row, k[at:][:width])
				copy(row[width:], v[at:][:width])
			} else {
				copy(k[at:][:width], row)
				copy(v[at:][:width], row[width:])
			}
		}
		m.CuSeqlens = []int32{0, int32(n)}
		out, _, _, _ := Attention(m, all, nil, Exact)
		y = append(y, out[x.position*queries:]...)
		qkv = qkv[x.tokens*m.Width():]
	}
	return Values{"y": y, "k": k, "v": v}
}

func pagedCases() (cases []*Case) {
	// Tokens of many sequences, and pieces of prompts, which begin and end anywhere in a block and in a span of keys.
	several := poolOf([]run{{0, 1}, {15, 1}, {16, 1}, {255, 1}, {256, 1}, {250, 11}, {290, 9}})
	two, long, longer := poolOf([]run{{40, 1}, {1, 5}}), poolOf([]run{{0, 50}, {300, 9}}), poolOf([]run{{290, 61}})
	for _, t := range Types {
		cases = append(cases,
			pagedCase(t, several, kernels.AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 64}),
			pagedCase(t, several, kernels.AttentionSpec{Heads: 3, KVHeads: 1, HeadDim: 64, Window: 37}),
			pagedCase(t, poolOf([]run{{0, 40}}), kernels.AttentionSpec{Heads: 2, KVHeads: 2, HeadDim: 32, Divisor: 5}),
			pagedCase(t, poolOf([]run{{530, 1}, {12, 3}}), kernels.AttentionSpec{Heads: 16, KVHeads: 1, HeadDim: 32,
				Window: 300}),
			pagedCase(t, two, kernels.AttentionSpec{Heads: 5, KVHeads: 1, HeadDim: 96}),
			pagedCase(t, two, kernels.AttentionSpec{Heads: 7, KVHeads: 1, HeadDim: 128}),
			// without tensor cores
			pagedCase(t, several, kernels.AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 10}),
			pagedCase(t, two, kernels.AttentionSpec{Heads: 17, KVHeads: 1, HeadDim: 64, Window: 20, Divisor: 7}),
			// of which a GPU computes one span of keys after the other, as there could be many
			pagedCase(t, long.reaching(1<<18), kernels.AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 64}),
			pagedCase(t, longer.reaching(1<<19), kernels.AttentionSpec{Heads: 5, KVHeads: 1, HeadDim: 64, Divisor: 5,
				Window: 1 << 18}))
	}
	return cases
}
