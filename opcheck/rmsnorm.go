package opcheck

import (
	"math"
	"math/rand/v2"

	"restyle/kernels"
	"restyle/tensor"
)

// RMSNorm computes the formula of RMSNorm, row by row.
func RMSNorm(x, w []float64, eps float64) (y, rstd []float64) {
	dim := len(w)
	y = make([]float64, len(x))
	for r := 0; r < len(x); r += dim {
		sum := 0.0
		for _, v := range x[r : r+dim] {
			sum += v * v
		}
		s := 1 / math.Sqrt(sum/float64(dim)+eps)
		rstd = append(rstd, s)
		for i := range w {
			y[r+i] = x[r+i] * s * w[i]
		}
	}
	return y, rstd
}

// normEps returns a large eps for rows of one or two elements: their gradient is what eps leaves of it, and with a
// small eps that is only rounding.
func normEps(dim int) float32 {
	if dim < 3 {
		return 0.5
	}
	return 1e-5
}

func rmsNormCase(t tensor.DType, rows, dim int) *Case {
	eps := normEps(dim)
	c := &Case{
		Op: "rmsnorm", Type: t, Name: label(rows, dim),
		In:      []Operand{act("x", t, rows, dim), par("w", t, dim)},
		Out:     []Operand{act("y", t, rows, dim), plain("rstd", tensor.F32, rows)},
		Forward: func(d *kernels.Device, x Tensors) { d.RMSNorm(x["y"], x["rstd"], x["x"], x["w"], eps) },
		Backward: func(d *kernels.Device, x Tensors) {
			d.RMSNormBackward(x["dx"], x["dw"], x["dy"], x["x"], x["w"], x["rstd"])
		},
		Want: func(x Values) Values {
			y, rstd := RMSNorm(x["x"], x["w"], float64(eps))
			return Values{"y": y, "rstd": rstd}
		},
		Kernels: [2][]string{{"rmsnorm", "rmsnorm_backward"}, {"rmsnorm", "rmsnorm_backward"}},
	}
	c.ForwardBytes = c.bytes("x", "y")
	c.BackwardBytes = c.bytes("x", "y", "x")
	return c
}

// addends returns the operands of the addition before a norm. In BF16 and F16 their sum is one too, because a norm's
// formula does not round it. TestRMSNormInPlace and TestLayerNormInPlace have sums that are rounded.
func addends(t tensor.DType, rows, dim int) (h, b Operand) {
	h, b = act("h", t, rows, dim), plain("b", t, rows, dim)
	if t != tensor.F32 {
		sixteenths := func(r *rand.Rand, _ int) float64 { return min(max(math.Round(16*r.NormFloat64())/16, -7), 7) }
		h.Fill, b.Fill = sixteenths, sixteenths
	}
	return h, b
}

func addRMSNormCase(t tensor.DType, rows, dim int) *Case {
	eps := normEps(dim)
	h, b := addends(t, rows, dim)
	c := &Case{
		Op: "rmsnorm", Type: t, Name: label(rows, dim) + " and add",
		In:  []Operand{h, b, par("w", t, dim)},
		Out: []Operand{h, act("y", t, rows, dim), plain("rstd", tensor.F32, rows)},
		Forward: func(d *kernels.Device, x Tensors) {
			d.AddRMSNorm(x["y"], x["rstd"], x["h"], x["h"], x["b"], x["w"], eps)
		},
		Backward: func(d *kernels.Device, x Tensors) {
			d.AddRMSNormBackward(x["dh"], x["dw"], x["dy"], x["h"], x["w"], x["rstd"])
		},
		Want: func(x Values) Values {
			h := sums(x["h"], x["b"])
			y, rstd := RMSNorm(h, x["w"], float64(eps))
			return Values{"h": h, "y": y, "rstd": rstd}
		},
		Kernels: [2][]string{
			{"add", "rmsnorm", "rmsnorm_backward"},
			{"add_rmsnorm", "add_rmsnorm_backward"},
		},
	}
	if t != tensor.F32 {
		// Unfused, the norm's gradient is rounded before it is added: in BF16 by 2⁻⁸ of up to four times the root mean
		// square.
		c.Elements = map[string]Limit{"dh": limit(t, Limit{}, Limit{0x1p-8, 0x1p-6})}
	}
	c.ForwardBytes = c.bytes("h", "b", "h", "y")
	c.BackwardBytes = c.bytes("h", "h", "h", "y")
	return c
}

func rmsNormCases() (cases []*Case) {
	for _, t := range Types {
		// Shorter than a vector, between vectors, across the partials of dw, more than a vector per thread of a GPU.
		for _, s := range [][2]int{{1, 1}, {3, 7}, {1, 16}, {2, 63}, {5, 64}, {2, 257}, {300, 24}, {2, 2048},
			{7, 4104}} {
			cases = append(cases, rmsNormCase(t, s[0], s[1]), addRMSNormCase(t, s[0], s[1]))
		}
		cases = append(cases, rmsNormCase(t, 5, 64).without("dw"), addRMSNormCase(t, 2, 63).without("dw"))
	}
	return append(cases, addRMSNormCase(tensor.BF16, 2, 8200)) // a GPU reads so long a row twice
}
