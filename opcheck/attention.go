package opcheck

import (
	"fmt"
	"math"
	"math/rand/v2"

	"restyle/kernels"
	"restyle/tensor"
)

// Attention computes the formula of attention and its gradients in float64, from x [rows, width] and, unless it is nil,
// dy. Every intermediate goes through round: the identity, or a rounding to a 16-bit type, as in a chain of single
// operations. sizes[i] is the sum of the magnitudes of everything that is added up to dx[i].
func Attention(m kernels.AttentionSpec, x, dy []float64, round func(float64) float64) (y, lse, dx, sizes []float64) {
	rows := len(x) / m.Width()
	w := m.Width()
	n := m.HeadDim
	share := m.Heads / m.KVHeads
	y, lse, dx = make([]float64, rows*m.Heads*n), make([]float64, m.Heads*rows), make([]float64, len(x))
	sizes = make([]float64, len(x))
	scale := 1 / math.Sqrt(float64(n))
	if m.Divisor > 0 {
		scale = 1 / m.Divisor
	}
	p := make([]float64, rows)
	for s, first := range m.CuSeqlens[:len(m.CuSeqlens)-1] {
		begin, end := int(first), int(m.CuSeqlens[s+1])
		for h := range m.Heads {
			kc, vc := (m.Heads+h/share)*n, (m.Heads+m.KVHeads+h/share)*n
			for i := begin; i < end; i++ {
				first, last := begin, i
				if m.Window > 0 {
					first = max(first, i-m.Window+1)
				}
				if m.Bidirectional {
					last = end - 1
				}
				q, out := x[i*w+h*n:][:n], y[(i*m.Heads+h)*n:][:n]
				top, sum := math.Inf(-1), 0.0
				for j := first; j <= last; j++ {
					p[j] = round(round(dot(q, x[j*w+kc:][:n])) * scale)
					top = max(top, p[j])
				}
				for j := first; j <= last; j++ {
					sum += math.Exp(p[j] - top)
				}
				l := top + math.Log(sum)
				lse[h*rows+i] = l
				for j := first; j <= last; j++ {
					p[j] = round(math.Exp(p[j] - l))
					for e, v := range x[j*w+vc:][:n] {
						out[e] += p[j] * v
					}
				}
				for e := range out {
					out[e] = round(out[e])
				}
				if dy == nil {
					continue
				}
				g := dy[(i*m.Heads+h)*n:][:n]
				dq, dqSizes := dx[i*w+h*n:][:n], sizes[i*w+h*n:][:n]
				delta, deltaSize := dot(g, out), 0.0
				for e := range n {
					deltaSize += math.Abs(g[e] * out[e])
				}
				for j := first; j <= last; j++ {
					k, v := x[j*w+kc:][:n], x[j*w+vc:][:n]
					dk, dkSizes := dx[j*w+kc:][:n], sizes[j*w+kc:][:n]
					dv, dvSizes := dx[j*w+vc:][:n], sizes[j*w+vc:][:n]
					dp := round(dot(g, v))
					ds := round(round(p[j]*(dp-delta)) * scale)
					size := p[j] * (math.Abs(dp) + deltaSize) * scale
					for e := range n {
						dq[e] += ds * k[e]
						dk[e] += ds * q[e]
						dv[e] += p[j] * g[e]
						dqSizes[e] += size * math.Abs(k[e])
						dkSizes[e] += size * math.Abs(q[e])
						dvSizes[e] += p[j] * math.Abs(g[e])
					}
				}
			}
		}
	}
	for i := range dx {
		dx[i] = round(dx[i])
	}
	return y, lse, dx, sizes
}

// Exact returns x: it rounds nothing.
func Exact(x float64) float64 { return x }

func dot(a, b []float64) (s float64) {
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}

// AttentionCase returns a case with random values; queries and keys have standard deviation spread.
func AttentionCase(t tensor.DType, m kernels.AttentionSpec, spread float64) *Case {
	rows := int(m.CuSeqlens[len(m.CuSeqlens)-1])
	qkv := act("qkv", t, rows, m.Width())
	qkv.Fill = func(r *rand.Rand, i int) float64 {
		if i%m.Width() < (m.Heads+m.KVHeads)*m.HeadDim {
			return r.NormFloat64() * spread
		}
		return r.NormFloat64()
	}
	offsets := plain("offsets", tensor.I32, len(m.CuSeqlens))
	offsets.Fill = func(_ *rand.Rand, i int) float64 { return float64(m.CuSeqlens[i]) }
	c := &Case{
		Op: "attention", Type: t,
		Name: fmt.Sprintf("%v heads %d/%d x%d window %d spread %g", m.CuSeqlens, m.Heads, m.KVHeads, m.HeadDim, m.Window,
			spread),
		In: []Operand{qkv, offsets}, Out: []Operand{act("y", t, rows, m.Heads*m.HeadDim), plain("lse", tensor.F32, m.Heads,
			rows)},
		Forward: func(d *kernels.Device, x Tensors) { d.Attention(x["y"], x["lse"], x["qkv"], at(m, x)) },
		Backward: func(d *kernels.Device, x Tensors) {
			d.AttentionBackward(x["dqkv"], x["dy"], x["y"], x["lse"], x["qkv"], at(m, x))
		},
		Want: func(x Values) Values {
			y, lse, _, _ := Attention(m, x["qkv"], nil, Exact)
			return Values{"y": y, "lse": lse}
		},
		Gradients: func(x Values) Values {
			_, _, dx, _ := Attention(m, x["qkv"], x["dy"], Exact)
			return Values{"qkv": dx}
		},
		Tolerance: attentionTolerance(t, spread),
		Kernels: [2][]string{{
			"attention_scores", "attention_softmax", "attention_values",
			"attention_weights", "attention_dvalues", "attention_dweights", "attention_delta", "attention_dscores",
			"attention_dqueries", "attention_dkeys", "attention_store",
		}, {"attention", "attention_backward"}},
	}
	if m.Bidirectional {
		c.Name += " unmasked"
	}
	if m.Divisor > 0 {
		c.Name += fmt.Sprintf(" over %g", m.Divisor)
	}
	each := attentionLimit(t, c.Tolerance)
	c.Elements = map[string]Limit{"y": each, "dqkv": {each.Relative, 4 * each.RMS}} // sums of terms that may be larger
	return c
}

// stairs has the powers of 2 by which the weights of a head's keys rise from each 64 keys to the next, or fall: just
// below and above what an online softmax rescales at, what F16 holds, and beyond what F16 and F32 hold.
var stairs = []float64{8.5, 16.5, 80, -16.5, 7.5, 15.5, 24.5, -7.5, -8.5, -15.5, -24.5, -80}

// climbs fills rows of m's queries, keys and values, or only of keys or values if part says so, from row first on.
func climbs(m kernels.AttentionSpec, part string, first int) func(r *rand.Rand, i int) float64 {
	const stair = 8 // of keys; one element of a query makes it the rise of its head
	queries, width := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	begin := map[string]int{"k": queries, "v": queries + width}[part]
	keys := queries + width // and then values
	if part == "qkv" {
		width = m.Width()
	}
	return func(r *rand.Rand, i int) float64 {
		column := begin + i%width
		switch climbing := column%m.HeadDim == 1; {
		case column >= keys:
			return r.NormFloat64()
		case climbing && column < queries:
			return stairs[column/m.HeadDim] * math.Ln2 * math.Sqrt(float64(m.HeadDim)) / stair
		case climbing:
			return stair * float64((first+i/width)/64)
		}
		return r.NormFloat64() / 4
	}
}

// climbing gives a case of attention, whose keys and values may be in caches, scores that climb the stairs. Exponents
// are up to 160·ln 2, which F32 rounds by 2⁻¹⁸; to BF16 and F16, weights of few keys are rounded.
func climbing(c *Case, m kernels.AttentionSpec, first int) *Case {
	c.Name += " stairs"
	c.Limits = true
	for i, o := range c.In {
		switch o.Name {
		case "qkv":
			c.In[i].Fill = climbs(m, o.Name, first)
		case "k", "v":
			c.In[i].Fill = climbs(m, o.Name, 0)
		case "cos": // a rotation would round queries of 16 bits
			c.In[i].Fill = func(*rand.Rand, int) float64 { return 1 }
		case "sin":
			c.In[i].Fill = func(*rand.Rand, int) float64 { return 0 }
		}
	}
	c.Tolerance = tolerance(c.Type, 0x1p-16, 1.2e-2)
	each := Limit{ElementLimits[c.Type].Relative, tolerance(c.Type, 0x1p-13, 0x1p-5)}
	c.Elements = map[string]Limit{"y": each, "dqkv": {each.Relative, 8 * each.RMS}}
	return c
}

// at returns m with the offsets that a run has on its device.
func at(m kernels.AttentionSpec, x Tensors) kernels.AttentionSpec {
	m.Offsets = x["offsets"]
	return m
}

// attentionLimit returns how far an element of y or of a gradient may be off: more than the average over all. In BF16
// and F16 it is rounded, and so are the weights and score gradients that it is a sum of.
func attentionLimit(t tensor.DType, off float64) Limit {
	return Limit{ElementLimits[t].Relative, tolerance(t, 4*off, 0x1p-6)}
}

// attentionTolerance returns the limit for y and the gradients. In F32 the exponents matter: scores of size s have an
// ulp of s·2⁻²³, which is the relative error of their exponentials; 3e-6 for a spread of 1, four roundings of scores up
// to 60 for a spread of 4. In BF16 the weights and the score gradients are rounded to 2⁻⁹ each, and a gradient also
// depends on dy·y of the rounded y: twice the error of one rounding. In F16 all that is an eighth.
func attentionTolerance(t tensor.DType, spread float64) float64 {
	if spread > 1 {
		return tolerance(t, 1.5e-5, 1.2e-2)
	}
	return tolerance(t, 3e-6, 1.2e-2)
}

func attentionCases() (cases []*Case) {
	for _, t := range Types {
		for _, m := range []kernels.AttentionSpec{
			{CuSeqlens: []int32{0, 1}, Heads: 1, KVHeads: 1, HeadDim: 8},
			{CuSeqlens: []int32{0, 17}, Heads: 2, KVHeads: 1, HeadDim: 16},
			{CuSeqlens: []int32{0, 3, 3, 4, 13}, Heads: 3, KVHeads: 3, HeadDim: 10, Window: 4},
			{CuSeqlens: []int32{0, 20, 41}, Heads: 6, KVHeads: 2, HeadDim: 24},
			{CuSeqlens: []int32{0, 3, 3, 4, 21}, Heads: 4, KVHeads: 2, HeadDim: 10, Bidirectional: true},
			{CuSeqlens: []int32{0, 3, 3, 21}, Heads: 3, KVHeads: 3, HeadDim: 11, Divisor: 7},
		} {
			cases = append(cases, AttentionCase(t, m, 1))
		}
	}
	// More than one tile of keys, most of head dimensions with tensor-core kernels.
	for _, m := range []kernels.AttentionSpec{
		{CuSeqlens: []int32{0, 130}, Heads: 2, KVHeads: 1, HeadDim: 64},
		{CuSeqlens: []int32{0, 1, 64, 64, 127, 192}, Heads: 2, KVHeads: 2, HeadDim: 32},
		{CuSeqlens: []int32{0, 150, 151}, Heads: 2, KVHeads: 1, HeadDim: 96, Window: 66},
		{CuSeqlens: []int32{0, 63, 200}, Heads: 1, KVHeads: 1, HeadDim: 128},
		{CuSeqlens: []int32{0, 60, 290}, Heads: 2, KVHeads: 1, HeadDim: 64, Window: 90},
		{CuSeqlens: []int32{0, 70, 72}, Heads: 1, KVHeads: 1, HeadDim: 64, Bidirectional: true},
		{CuSeqlens: []int32{0, 40}, Heads: 2, KVHeads: 2, HeadDim: 32, Divisor: 12},
		{CuSeqlens: []int32{0, 70, 140}, Heads: 2, KVHeads: 1, HeadDim: 80, Window: 30},
		{CuSeqlens: []int32{0, 90, 91, 170}, Heads: 4, KVHeads: 2, HeadDim: 64, Window: 50},
		{CuSeqlens: []int32{0, 67}, Heads: 1, KVHeads: 1, HeadDim: 264},
	} {
		for _, t := range Types {
			cases = append(cases, AttentionCase(t, m, 1))
		}
	}
	for _, t := range Types {
		m := kernels.AttentionSpec{CuSeqlens: []int32{0, 135}, Heads: 4, KVHeads: 1, HeadDim: 32}
		cases = append(cases, climbing(AttentionCase(t, m, 1), m, 0))
		m = kernels.AttentionSpec{CuSeqlens: []int32{0, 190}, Heads: 4, KVHeads: 1, HeadDim: 64}
		cases = append(cases, climbing(AttentionCase(t, m, 1), m, 0))
	}
	return cases
}
