package opcheck

import (
	"fmt"
	"math"

	"restyle/kernels"
	"restyle/tensor"
)

// timedServing returns what is timed of a step of a server: attention to a pool for tokens of many sequences and for a
// prompt, and the products of Llama-3.2-1B's layers for as many rows, as they are and with SetRowsAlone.
func timedServing() (all []*Timing) {
	for _, tokens := range []int{256, 2048} {
		for _, n := range []int{1, 8, 32, 128, 256} {
			runs := make([]run, n)
			for i := range runs {
				runs[i] = run{tokens - 1, 1}
			}
			all = append(all, timedPaged(tensor.BF16, runs, kernels.AttentionSpec{Heads: 32, KVHeads: 8, HeadDim: 64}))
		}
	}
	all = append(all, timedPaged(tensor.BF16, []run{{0, 2048}}, kernels.AttentionSpec{Heads: 32, KVHeads: 8, HeadDim: 64}),
		timedPaged(tensor.BF16, []run{{0, 2048}}, kernels.AttentionSpec{Heads: 32, KVHeads: 8, HeadDim: 128}))
	for _, w := range [][2]int{{2048, 3072}, {2048, 2048}, {2048, 16384}, {8192, 2048}} {
		for _, rows := range []int{1, 8, 32, 128, 256, 2048} {
			all = append(all, timedAlone(rows, w[0], w[1]))
		}
	}
	return all
}

// timedAlone returns a linear layer as it is, and with SetRowsAlone.
func timedAlone(rows, in, out int) *Timing {
	c, few := LinearCase(tensor.BF16, rows, in, out, false), LinearCase(tensor.BF16, 1, in, fewOutputs, false)
	return one(llama1B, "linear rows", c, few, 2*float64(rows)*float64(in)*float64(out),
		Form{Name: c.Type.String(), run: c.Forward},
		Form{Name: "alone", run: func(d *kernels.Device, x Tensors) {
			d.SetRowsAlone(true)
			c.Forward(d, x)
			d.SetRowsAlone(false)
		}})
}

// timedPaged returns AttentionPaged for runs that are alike.
func timedPaged(t tensor.DType, runs []run, m kernels.AttentionSpec) *Timing {
	p, first := poolOf(runs), runs[0]
	p.tables[0], p.rows = nil, p.rows+p.maxBlocks*kernels.PagedBlock // the first sequence's blocks are the first ones
	for i := range p.maxBlocks {
		p.tables[0] = append(p.tables[0], i)
	}
	for _, table := range p.tables[1:] {
		for i := range table {
			table[i] += p.maxBlocks
		}
	}
	c := pagedCase(t, p, m)
	c.Name = fmt.Sprintf("%dx%d of %d, %d/%d heads of %d", len(runs), first.tokens, first.position+first.tokens, m.Heads,
		m.KVHeads, m.HeadDim)
	rows, seen, width := len(runs)*first.tokens, first.position+first.tokens, m.KVHeads*m.HeadDim
	pairs := float64(len(runs)) * float64(first.tokens) * (float64(first.position) + float64(first.tokens+1)/2)
	timing := &Timing{Source: llama1B, Op: "paged", Pass: "forward", Shape: c.Name, Type: t, c: c,
		Bytes: float64(t.Size()) * float64(2*len(runs)*seen*width+2*rows*m.Heads*m.HeadDim),
		FLOPs: 4 * pairs * float64(m.Heads*m.HeadDim),
		Forms: []Form{{Name: "only", run: func(d *kernels.Device, x Tensors) {
			d.AttentionPaged(x["y"], x["qkv"], x["k"], x["v"], x["tables"], x["places"], p.maxBlocks*kernels.PagedBlock, m)
		}}}}
	timing.reference = reference{
		inputs: map[string]int{"qkv": first.tokens * m.Width(), "k": seen * width, "v": seen * width},
		want:   func(x Values) map[string]sample { return pagedQueries(x, first, m) },
	}
	return timing
}

// pagedQueries computes the first and the last row of a run, whose keys and values are what k and v start with.
func pagedQueries(x Values, r run, m kernels.AttentionSpec) map[string]sample {
	var s sample
	n, width, queries := m.HeadDim, m.KVHeads*m.HeadDim, m.Heads*m.HeadDim
	for _, row := range []int{0, r.tokens - 1}[:min(2, r.tokens)] {
		for h := range m.Heads {
			q := x["qkv"][row*m.Width()+h*n:][:n]
			at := h / (m.Heads / m.KVHeads) * n
			y, top, sum, p := make([]float64, n), math.Inf(-1), 0.0, make([]float64, r.position+row+1)
			for j := range p {
				p[j] = dot(q, x["k"][j*width+at:][:n]) / math.Sqrt(float64(n))
				top = max(top, p[j])
			}
			for j := range p {
				p[j] = math.Exp(p[j] - top)
				sum += p[j]
			}
			for j := range p {
				addTo(y, p[j]/sum, x["v"][j*width+at:][:n])
			}
			for e, v := range y {
				s.at, s.values = append(s.at, row*queries+h*n+e), append(s.values, v)
			}
		}
	}
	return map[string]sample{"y": s}
}
