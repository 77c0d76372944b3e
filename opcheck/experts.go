package opcheck

import (
	"fmt"
	"math"
	"math/rand/v2"

	"restyle/kernels"
	"restyle/tensor"
)

// expertsCase returns a mixture of experts of one matrix each: the choice of experts, their products and the sum of
// these, and how even the choice is. If balanced, the choice gets a gradient from that: with the counts of experts
// constant, it is linear in the sums of probabilities, and the gradient of these has the place of the counts.
func expertsCase(t tensor.DType, rows, dim, out, experts, k int, normalized, balanced bool) *Case {
	pairs := rows * k
	logits := act("logits", tensor.F32, rows, experts)
	// The logits of a row are far apart, so that differences change no choice. Some experts are never chosen.
	logits.Fill = func(r *rand.Rand, i int) float64 {
		return float64((i/experts*5+i%experts*7919)%experts)/4 - float64(i%experts)/64
	}
	c := &Case{
		Op: "experts", Type: t,
		Name: fmt.Sprintf("%s, %d of %d, normalized %t", label(rows, dim, out), k, experts, normalized),
		In:   []Operand{act("x", t, rows, dim), logits, par("w", t, experts*out, dim)},
		Out: []Operand{act("y", t, rows, out), plain("experts", tensor.I32, rows, k), plain("weights", tensor.F32, rows, k),
			plain("lse", tensor.F32, rows), plain("place", tensor.I32, rows, k), plain("pairs", tensor.I32, pairs),
			plain("offsets", tensor.I32, experts+1), plain("sums", tensor.F32, 3, experts), plain("xs", t, pairs, dim),
			plain("ys", t, pairs, out), plain("dxs", t, pairs, dim), plain("dweights", tensor.F32, pairs)},
	}
	routing := func(x Tensors) kernels.Routing {
		return kernels.Routing{Experts: x["experts"], Weights: x["weights"], LSE: x["lse"], Place: x["place"],
			Rows: x["pairs"], Offsets: x["offsets"]}
	}
	live, times := rows-rows/4, 1
	if balanced {
		times = 2 // adds the same to the sums again
		c.Name += ", balanced"
		c.Out[7].Grad = Overwritten
	}
	c.Forward = func(d *kernels.Device, x Tensors) {
		r := routing(x)
		d.Route(r, x["logits"], normalized)
		d.Zero(x["sums"])
		for range times {
			d.AddBalance(kernels.Balance{Sums: x["sums"].Slice(0, 2), Rows: live}, r, x["logits"])
		}
		d.GatherRows(x["xs"], x["x"], r.Rows)
		d.GroupedLinear(x["ys"], x["xs"], x["w"], r.Offsets, rows)
		d.Combine(x["y"], x["ys"], r, true)
	}
	c.Backward = func(d *kernels.Device, x Tensors) {
		r, dys := routing(x), x["ys"]
		d.GatherRows(dys, x["dy"], r.Rows)
		d.GroupedLinearBackward(x["dxs"], dys, x["w"], r.Offsets, rows)
		d.WeighPairs(x["dweights"], x["dxs"], x["xs"], r)
		d.GroupedLinearGradient(x["dw"], dys, x["xs"], r.Offsets, 0, true)
		d.Combine(x["dx"], x["dxs"], r, false)
		var b kernels.Balance
		if balanced {
			b = kernels.Balance{Sums: x["dsums"].Slice(1, 3), Rows: live, Scale: float32(times)}
		}
		d.RouteBackward(x["dlogits"], x["dweights"], r, x["logits"], normalized, b)
	}
	c.Want = func(x Values) Values {
		v := mixture(x, rows, dim, out, experts, k, live, normalized)
		for i := range v["sums"] {
			v["sums"][i] *= float64(times)
		}
		return v
	}
	c.Tolerance = tolerance(t, 4e-6, 3e-2) // see below
	// What an expert computes is rounded to BF16 or F16. The gradient of logits is the difference of such numbers.
	exact := Limit{0, 0}
	gradient := limit(t, Limit{0x1p-17, 0x1p-14}, Limit{0x1p-4, 0x1p-3})
	c.Elements = map[string]Limit{"y": gradient, "experts": exact, "place": exact, "pairs": exact, "offsets": exact,
		"dx": gradient, "dw": gradient, "dlogits": gradient}
	c.Kernels = [2][]string{{"topk", "route", "add_balance", "gather_rows", "grouped_linear", "combine",
		"grouped_linear_dx", "weigh_pairs", "grouped_linear_dw", "route_backward"}}
	c.ForwardBytes = c.bytes("x", "w", "xs", "xs", "ys", "ys", "y")
	c.BackwardBytes = c.bytes("y", "ys", "ys", "w", "dxs", "dxs", "w", "x")
	return c
}

// quantizedExpertsCase returns the product of experts whose weights are quantized. An expert has up to most rows; some
// have none.
func quantizedExpertsCase(weights, t tensor.DType, pairs, dim, out, experts, most int) *Case {
	at := make([]int, experts+1) // where the rows of each expert start
	for e := range experts {
		at[e+1] = min(pairs, at[e]+e*7919%(most+1))
	}
	at[experts] = pairs
	offsets := plain("offsets", tensor.I32, experts+1)
	offsets.Fill = func(_ *rand.Rand, i int) float64 { return float64(at[i]) }
	c := &Case{
		Op: "linear_quantized", Type: t, Name: fmt.Sprintf("%s %v of %d experts", label(pairs, dim, out), weights, experts),
		In:      []Operand{plain("x", t, pairs, dim), plain("w", weights, experts*out, dim), offsets},
		Out:     []Operand{plain("y", t, pairs, out)},
		Forward: func(d *kernels.Device, x Tensors) { d.GroupedLinear(x["y"], x["x"], x["w"], x["offsets"], most) },
		Want: func(x Values) Values {
			var y []float64
			for e := range experts {
				lo, hi := at[e], at[e+1]
				y = append(y, linear(x["x"][lo*dim:hi*dim], x["w"][e*out*dim:][:out*dim], nil, hi-lo, dim, out)...)
			}
			return Values{"y": y}
		},
		Kernels:  [2][]string{{"grouped_linear"}},
		Elements: map[string]Limit{"y": normProductLimit(t)},
	}
	if t == tensor.F16 || t == tensor.BF16 && most > 8 { // weights may be rounded before
		c.Tolerance = 6e-3
	}
	c.ForwardBytes = c.bytes("x", "w", "y")
	return c
}

// groupedCase returns the products of experts with counts[i] rows for expert i, as product_wgmma*.cu compute them if
// there are some: with SwiGLU after them, which keeps gates and ups or not, and without.
func groupedCase(t, out tensor.DType, counts []int, dim, inner int) *Case {
	at := []int{0} // where the rows of each expert start
	for _, n := range counts {
		at = append(at, at[len(at)-1]+n)
	}
	experts, pairs := len(counts), at[len(counts)]
	offsets := plain("offsets", tensor.I32, experts+1)
	offsets.Fill = func(_ *rand.Rand, i int) float64 { return float64(at[i]) }
	c := &Case{
		Op: "swiglu", Type: t, Name: fmt.Sprintf("experts with %v rows, %dx%d to %v", counts, dim, inner, out),
		In: []Operand{plain("x", t, pairs, dim), plain("w", t, experts*2*inner, dim), offsets},
		Out: []Operand{plain("act", t, pairs, inner), plain("kept", t, pairs, 2*inner), plain("alone", t, pairs, inner),
			plain("gateUp", t, pairs, 2*inner), plain("y", out, pairs, 2*inner)},
		Forward: func(d *kernels.Device, x Tensors) {
			d.GroupedSwiGLU(x["act"], x["kept"], x["x"], x["w"], x["offsets"], pairs, true)
			d.GroupedSwiGLU(x["alone"], x["gateUp"], x["x"], x["w"], x["offsets"], pairs, false)
			d.GroupedLinear(x["y"], x["x"], x["w"], x["offsets"], pairs)
		},
		Want: func(x Values) Values {
			var y []float64
			for e, n := range counts {
				y = append(y, linear(x["x"][at[e]*dim:][:n*dim], x["w"][e*2*inner*dim:][:2*inner*dim], nil, n, dim, 2*inner)...)
			}
			act := gate(y, pairs, inner)
			return Values{"y": y, "kept": y, "act": act, "alone": act}
		},
		Tolerance: tolerance(t, 4e-6, 1e-2),
		Kernels:   [2][]string{{"grouped_linear", "silu", "mul"}, {"grouped_linear", "swiglu"}},
		Elements:  map[string]Limit{},
	}
	for _, name := range []string{"act", "kept", "alone", "y"} {
		c.Elements[name] = normProductLimit(t)
	}
	return c
}

// mixture computes the formula.
func mixture(x Values, rows, dim, out, experts, k, live int, normalized bool) Values {
	v := Values{"y": make([]float64, rows*out), "sums": make([]float64, 3*experts)}
	members := make([][]int, experts) // the pairs of each expert
	for r := range rows {
		logits := x["logits"][r*experts:][:experts]
		p, all, some := make([]float64, experts), 0.0, 0.0
		for e, l := range logits {
			p[e] = math.Exp(l)
			all += p[e]
		}
		chosen := make([]bool, experts)
		for _, e := range first(logits, k) {
			chosen[e] = true
			some += p[e]
		}
		v["lse"] = append(v["lse"], math.Log(all))
		for e := range experts {
			if r < live {
				v["sums"][experts+e] += p[e] / all
			}
			if !chosen[e] {
				continue
			}
			if r < live {
				v["sums"][e]++
			}
			w := p[e] / all
			if normalized {
				w = p[e] / some
			}
			members[e] = append(members[e], len(v["weights"]))
			v["experts"], v["weights"] = append(v["experts"], float64(e)), append(v["weights"], w)
			one := linear(x["x"][r*dim:][:dim], x["w"][e*out*dim:][:out*dim], nil, 1, dim, out)
			for i := range out {
				v["y"][r*out+i] += w * one[i]
			}
		}
	}
	v["place"], v["offsets"] = make([]float64, rows*k), []float64{0}
	for _, pairs := range members {
		for _, pair := range pairs {
			v["place"][pair] = float64(len(v["pairs"]))
			v["pairs"] = append(v["pairs"], float64(pair/k))
		}
		v["offsets"] = append(v["offsets"], float64(len(v["pairs"])))
	}
	return v
}

func expertCases() (cases []*Case) {
	for _, t := range Types {
		for i, s := range [][5]int{{1, 1, 1, 1, 1}, {7, 5, 3, 4, 2}, {3, 64, 24, 8, 2}, {9, 32, 40, 10, 3},
			{70, 16, 17, 3, 3}, {300, 24, 70, 16, 2}} {
			cases = append(cases, expertsCase(t, s[0], s[1], s[2], s[3], s[4], i%2 == 0, i%3 > 0))
		}
		// Tiles of product_wgmma*.cu that are full, half full and nearly empty, and columns that fill none; all rows at one
		// expert; more experts than rows; and rows that are no whole words.
		cases = append(cases, groupedCase(t, t, []int{70, 0, 129, 1, 64, 3, 0}, 72, 40),
			groupedCase(t, tensor.F32, []int{0, 0, 140, 0}, 64, 96), groupedCase(t, t, []int{0, 40}, 136, 64),
			groupedCase(t, t, []int{0, 1, 0, 0, 2, 0, 1, 1, 0, 0, 0, 3, 0, 1, 0}, 200, 24),
			groupedCase(t, t, []int{9, 0, 5}, 33, 17))
	}
	return cases
}
