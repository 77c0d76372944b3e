package opcheck

import (
	"math"
	"math/rand/v2"

	"restyle/kernels"
	"restyle/tensor"
)

// softmax computes the formula: it stores the softmax of a row in y, and returns the logarithm of its sum.
func softmax(y, x []float64) (lse float64) {
	top, total := math.Inf(-1), 0.0
	for _, v := range x {
		top = max(top, v)
	}
	for i, v := range x {
		y[i] = math.Exp(v - top)
		total += y[i]
	}
	for i := range y {
		y[i] /= total
	}
	return top + math.Log(total)
}

// softmaxCase returns a case of elements with a standard deviation of 3, some of which are -1e30, or -6e4 in F16, if
// masked: differences of −∞ are NaN.
func softmaxCase(t tensor.DType, rows, dim int, masked bool) *Case {
	x, far := act("x", t, rows, dim), -1e30
	if t == tensor.F16 {
		far = -6e4
	}
	x.Fill = func(r *rand.Rand, i int) float64 {
		v := 3 * r.NormFloat64()
		if masked && i%dim%3 == 1 {
			return far
		}
		return v
	}
	c := &Case{
		Op: "softmax", Type: t, Name: label(rows, dim),
		In:       []Operand{x},
		Out:      []Operand{act("y", t, rows, dim), plain("lse", tensor.F32, rows)},
		Forward:  func(d *kernels.Device, x Tensors) { d.Softmax(x["y"], x["lse"], x["x"]) },
		Backward: func(d *kernels.Device, x Tensors) { d.SoftmaxBackward(x["dx"], x["dy"], x["y"]) },
		Want: func(x Values) Values {
			y, lse := make([]float64, rows*dim), make([]float64, rows)
			for r := range rows {
				lse[r] = softmax(y[r*dim:(r+1)*dim], x["x"][r*dim:(r+1)*dim])
			}
			return Values{"y": y, "lse": lse}
		},
		Kernels: [2][]string{{"softmax", "softmax_backward"}},
	}
	// The exponent, up to 20, is rounded to 2⁻²⁴ of itself. A gradient cancels: it is the gradient of the result as
	// stored.
	c.Elements = map[string]Limit{
		"y":  limit(t, Limit{0x1p-20, 0x1p-22}, Limit{0x1.1p-8, 0}),
		"dx": limit(t, Limit{0x1p-20, 0x1p-18}, Limit{0x1p-6, 0x1p-6}),
	}
	if t != tensor.F32 {
		c.Tolerance = tolerance(t, 0, 1e-2)
	}
	if t == tensor.F32 && dim == 2 { // one of the two is often almost 1, and the rounding of Σ dy·y must not show
		c.Elements["dx"] = Limit{0x1p-20, 0x1p-24}
	}
	if t == tensor.F16 { // Σ dy·y is off by 2⁻¹¹ of each of the few elements that have most of the row's sum
		c.Elements["dx"] = Limit{0x1p-9, 0x1p-8}
	}
	if masked {
		c.Name += " masked"
	}
	c.ForwardBytes = c.bytes("x", "y")
	c.BackwardBytes = c.bytes("x", "y", "y")
	return c
}

func softmaxCases() (cases []*Case) {
	for _, t := range Types {
		for _, s := range [][2]int{{1, 1}, {4, 1}, {64, 2}, {3, 7}, {2, 16}, {5, 63}, {130, 24}, {2, 688}, {3, 4097}} {
			cases = append(cases, softmaxCase(t, s[0], s[1], false))
		}
		cases = append(cases, softmaxCase(t, 5, 63, false).without("lse"))
		for _, s := range [][2]int{{5, 33}, {2, 8200}, {2, 8201}} { // a GPU reads the last twice
			cases = append(cases, softmaxCase(t, s[0], s[1], true))
		}
	}
	return cases
}
