package opcheck

import (
	"math"
	"math/rand/v2"

	"restyle/kernels"
	"restyle/tensor"
)

// LayerNorm computes the formula of LayerNorm, row by row. b may be nil.
func LayerNorm(x, w, b []float64, eps float64) (y, mean, rstd []float64) {
	dim := len(w)
	y = make([]float64, len(x))
	for r := 0; r < len(x); r += dim {
		center, squares := 0.0, 0.0
		for _, v := range x[r : r+dim] {
			center += v / float64(dim)
		}
		for _, v := range x[r : r+dim] {
			squares += (v - center) * (v - center)
		}
		s := 1 / math.Sqrt(squares/float64(dim)+eps)
		mean, rstd = append(mean, center), append(rstd, s)
		for i := range w {
			y[r+i] = (x[r+i] - center) * s * w[i]
			if b != nil {
				y[r+i] += b[i]
			}
		}
	}
	return y, mean, rstd
}

// aroundOne returns an input whose mean is not near 0, so that the mean has few rounding errors compared with itself.
func aroundOne(name string, t tensor.DType, shape ...int) Operand {
	x := act(name, t, shape...)
	x.Fill = func(r *rand.Rand, _ int) float64 { return 1 + r.NormFloat64() }
	return x
}

// layerNormCase returns a case with or without a bias.
func layerNormCase(t tensor.DType, rows, dim int, biased bool) *Case {
	eps := normEps(dim)
	c := &Case{
		Op: "layernorm", Type: t, Name: label(rows, dim) + biasName(biased),
		In:  append([]Operand{aroundOne("x", t, rows, dim)}, layerNormParams(t, dim, biased)...),
		Out: []Operand{act("y", t, rows, dim), plain("mean", tensor.F32, rows), plain("rstd", tensor.F32, rows)},
		Forward: func(d *kernels.Device, x Tensors) {
			d.LayerNorm(x["y"], x["mean"], x["rstd"], x["x"], x["w"], x["bias"], eps)
		},
		Backward: func(d *kernels.Device, x Tensors) {
			d.LayerNormBackward(x["dx"], x["dw"], x["dbias"], x["dy"], x["x"], x["w"], x["mean"], x["rstd"])
		},
		Want: func(x Values) Values {
			y, mean, rstd := LayerNorm(x["x"], x["w"], x["bias"], float64(eps))
			return Values{"y": y, "mean": mean, "rstd": rstd}
		},
		Kernels: [2][]string{{"layernorm", "layernorm_backward"}, {"layernorm", "layernorm_backward"}},
	}
	c.ForwardBytes = c.bytes("x", "y")
	c.BackwardBytes = c.bytes("x", "y", "x")
	return c
}

// addLayerNormCase returns a case with BF16 addends whose sum is a BF16 too, like addRMSNormCase. The second is around
// 1: see aroundOne.
func addLayerNormCase(t tensor.DType, rows, dim int, biased bool) *Case {
	eps := normEps(dim)
	h, b := addends(t, rows, dim)
	b.Fill = func(r *rand.Rand, _ int) float64 { return min(max(1+math.Round(16*r.NormFloat64())/16, -7), 7) }
	c := &Case{
		Op: "layernorm", Type: t, Name: label(rows, dim) + biasName(biased) + " and add",
		In:  append([]Operand{h, b}, layerNormParams(t, dim, biased)...),
		Out: []Operand{h, act("y", t, rows, dim), plain("mean", tensor.F32, rows), plain("rstd", tensor.F32, rows)},
		Forward: func(d *kernels.Device, x Tensors) {
			d.AddLayerNorm(x["y"], x["mean"], x["rstd"], x["h"], x["h"], x["b"], x["w"], x["bias"], eps)
		},
		Backward: func(d *kernels.Device, x Tensors) {
			d.AddLayerNormBackward(x["dh"], x["dw"], x["dbias"], x["dy"], x["h"], x["w"], x["mean"], x["rstd"])
		},
		Want: func(x Values) Values {
			h := sums(x["h"], x["b"])
			y, mean, rstd := LayerNorm(h, x["w"], x["bias"], float64(eps))
			return Values{"h": h, "y": y, "mean": mean, "rstd": rstd}
		},
		Kernels: [2][]string{
			{"add", "layernorm", "layernorm_backward"},
			{"add_layernorm", "add_layernorm_backward"},
		},
	}
	if t != tensor.F32 {
		// As in addRMSNormCase; without the mean, the gradient may be twice as far from the sum's.
		c.Elements = map[string]Limit{"dh": limit(t, Limit{}, Limit{0x1p-8, 0x1p-6})}
	}
	c.ForwardBytes = c.bytes("h", "b", "h", "y")
	c.BackwardBytes = c.bytes("h", "h", "h", "y")
	return c
}

func biasName(biased bool) string {
	if biased {
		return " bias"
	}
	return ""
}

func layerNormParams(t tensor.DType, dim int, biased bool) []Operand {
	list := []Operand{par("w", t, dim)}
	if biased {
		list = append(list, par("bias", t, dim))
	}
	return list
}

func layerNormCases() (cases []*Case) {
	far := layerNormCase(tensor.F32, 2, 2048, true)
	far.Elements = map[string]Limit{}
	far.Name += " far from 0"
	far.Tolerance = 0x1p-13 // the mean is rounded by as much; the sum of a row, by several times that
	for _, name := range []string{"y", "dx", "dw"} {
		far.Elements[name] = Limit{0x1p-21, 0x1p-11}
	}
	far.In[0].Fill = func(r *rand.Rand, _ int) float64 { return 3000 + r.NormFloat64() }
	cases = append(cases, far)
	for _, t := range Types {
		// Shorter than a vector, between vectors, across the partials of dw, more than a vector per thread of a GPU. The
		// gradient of a row of one element is exactly 0.
		for i, s := range [][2]int{{5, 1}, {1, 2}, {3, 7}, {1, 16}, {2, 63}, {5, 64}, {2, 257}, {300, 24}, {2, 2048},
			{7, 4104}} {
			cases = append(cases, layerNormCase(t, s[0], s[1], true), addLayerNormCase(t, s[0], s[1], i%2 > 0))
		}
		cases = append(cases, layerNormCase(t, 5, 64, false), layerNormCase(t, 300, 24, false),
			layerNormCase(t, 5, 64, true).without("dw"), addLayerNormCase(t, 2, 63, true).without("dbias"),
			addLayerNormCase(t, 5, 64, true).without("dw", "dbias"))
	}
	return append(cases, layerNormCase(tensor.F32, 2, 8200, true)) // a GPU reads so long a row twice
}
