package opcheck

import (
	"math"

	"restyle/tensor"
)

// Tolerances has the default tolerance by the type of the stored result. F32: sums of a few thousand terms lose a few
// units of 2⁻²⁴. BF16: one rounding is off by at most 2⁻⁸, by about 2⁻⁸/√6 on average, and gradients go through two or
// three. F16: the same with 2⁻¹¹.
var Tolerances = map[tensor.DType]float64{tensor.F32: 2e-6, tensor.BF16: 6e-3, tensor.F16: 6e-3 * finer}

// finer is the error of rounding to F16 as a fraction of the error of rounding to BF16, which has three bits less.
const finer = 0x1p-3

// tolerance returns a limit by the type of the result, if what limits BF16 is rounding.
func tolerance(t tensor.DType, f32, bf16 float64) float64 {
	return map[tensor.DType]float64{tensor.F32: f32, tensor.BF16: bf16, tensor.F16: bf16 * finer}[t]
}

// limit does what tolerance does, for each element.
func limit(t tensor.DType, f32, bf16 Limit) Limit {
	return Limit{tolerance(t, f32.Relative, bf16.Relative), tolerance(t, f32.RMS, bf16.RMS)}
}

// A Limit is how far an element may be off: relative to itself, and relative to the root mean square of its tensor.
type Limit struct{ Relative, RMS float64 }

// ElementLimits has the default limit by the type of the stored result. F32: a few products are rounded by 2⁻²⁴ each. A
// sum of n terms with standard deviation 1 has the root mean square √n. It is rounded n times by up to 2⁻²⁴ of the sum
// so far, as often up as down, so by √n · 2⁻²⁴ of √n in total, which for 4,096 terms is 2⁻¹⁸; 2⁻¹⁷ leaves room for the
// worst of many elements. BF16 and F16: the same in float32, plus one rounding of 2⁻⁸ or 2⁻¹¹. Results that are rounded
// more often, or sums of rounded values, have limits of their own.
var ElementLimits = map[tensor.DType]Limit{
	tensor.F32: {0x1p-21, 0x1p-17}, tensor.BF16: {0x1p-8 + 0x1p-14, 0x1p-17}, tensor.F16: {0x1p-11 + 0x1p-14, 0x1p-17},
}

// roundedBelow is how far rounding to the type takes numbers that are too small to be normal: to the next multiple of
// the smallest F16, 2⁻²⁴. Numbers below BF16's and F32's smallest normal one, 2⁻¹²⁶, do not occur.
var roundedBelow = map[tensor.DType]float64{tensor.F16: 0x1p-25}

// farthest returns the index of the element with the largest error, and that error as a multiple of the limit, to which
// below is added.
func (l Limit) farthest(got, want []float64, below float64) (at int, times float64) {
	sum := 0.0
	for _, w := range want {
		sum += w * w
	}
	rms := math.Sqrt(sum / float64(len(want)))
	for i, w := range want {
		off := math.Abs(got[i] - w)
		if n := off / (l.Relative*math.Abs(w) + l.RMS*rms + below); n > times || math.IsNaN(off) {
			at, times = i, n
		}
	}
	return at, times
}

// Distance returns ‖got − want‖ / ‖want‖, or infinity if one of the values is NaN or infinite. If want is all zero, it
// returns ‖got‖.
func Distance(got, want []float64) float64 {
	var diff, norm float64
	for i, w := range want {
		diff += (got[i] - w) * (got[i] - w)
		norm += w * w
	}
	if norm > 0 {
		diff /= norm
	}
	if math.IsNaN(diff) {
		return math.Inf(1)
	}
	return math.Sqrt(diff)
}

// compare checks the values of an output or a gradient of type t against the formula's: all together, and each of them.
func (c *Case) compare(p *Pass, name string, t tensor.DType, got, want []float64) {
	tolerance := c.Tolerance
	if tolerance == 0 {
		tolerance = Tolerances[t]
	}
	e := Distance(got, want)
	if e != 0 { // integers have no tolerance
		p.Worst = max(p.Worst, e/tolerance)
	}
	if !(e <= tolerance) {
		p.fault("%s is off by %.3g, limit %.1g", name, e, tolerance)
	}
	c.CompareEach(p, name, t, got, want)
}

// CompareEach checks each of the values of an output or a gradient of type t against the formula's.
func (c *Case) CompareEach(p *Pass, name string, t tensor.DType, got, want []float64) {
	l, own := c.Elements[name]
	if !own {
		l = ElementLimits[t]
	}
	i, n := l.farthest(got, want, roundedBelow[t])
	p.Worst = max(p.Worst, n)
	if !(n <= 1) {
		p.fault("%s[%d] is %g, want %g, %.3g times as far off as it may be", name, i, got[i], want[i], n)
	}
}
