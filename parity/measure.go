package parity

import "math"

// float is the type of reference values: float32 from tensors, float64 from JSON.
type float interface{ float32 | float64 }

// norm returns ‖x‖, summed in float64.
func norm[F float](x []F) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}

// apart returns ‖x - truth‖, or +Inf if their lengths differ or they are empty.
func apart[F, G float](x []F, truth []G) float64 {
	if len(x) != len(truth) || len(x) == 0 {
		return math.Inf(1)
	}
	var sum float64
	for i, v := range x {
		d := float64(v) - float64(truth[i])
		sum += d * d
	}
	return math.Sqrt(sum)
}

// byNorm returns ‖x - truth‖ / ‖truth‖.
func byNorm[F, G float](x []F, truth []G) float64 { return over(apart(x, truth), norm(truth)) }

// besideWhole returns the error of a gradient of a model whose gradients have the norm whole. A gradient of less than a
// thousandth of that, such as the gradient of a router whose only weight is always 1, is a sum that cancels to
// rounding, and is measured relative to the thousandth. A gradient that is exactly 0 in truth has to be 0.
func besideWhole[F, G float](x []F, truth []G, whole float64) float64 {
	if length := norm(truth); length > 0 {
		return apart(x, truth) / max(length, whole/1000)
	}
	return byNorm(x, truth)
}

// farthest returns the largest |x - truth|, or +Inf if their lengths differ or they are empty.
func farthest[F, G float](x []F, truth []G) float64 {
	if len(x) != len(truth) || len(x) == 0 {
		return math.Inf(1)
	}
	var worst float64
	for i, v := range x {
		d := math.Abs(float64(v) - float64(truth[i]))
		if math.IsNaN(d) {
			return d
		}
		worst = max(worst, d)
	}
	return worst
}

// byRMS returns the largest |x - truth| divided by the rms of truth.
func byRMS[F, G float](x []F, truth []G) float64 { return over(farthest(x, truth), rms(truth)) }

func rms[F float](x []F) float64 { return norm(x) / math.Sqrt(float64(len(x))) }

// relative returns |x / truth - 1|.
func relative(x, truth float64) float64 { return over(math.Abs(x-truth), math.Abs(truth)) }

// relatives returns the largest relative error, or +Inf if the lengths differ or are zero.
func relatives(x, truth []float64) float64 {
	if len(x) != len(truth) || len(x) == 0 {
		return math.Inf(1)
	}
	var worst float64
	for i := range x {
		d := relative(x[i], truth[i])
		if math.IsNaN(d) {
			return d
		}
		worst = max(worst, d)
	}
	return worst
}

// over returns a / b, or 0 if both are 0: no difference from zero is no error.
func over(a, b float64) float64 {
	if a == 0 && b == 0 {
		return 0
	}
	return a / b
}

// differ returns 0 if equal, otherwise 1.
func differ(equal bool) float64 {
	if equal {
		return 0
	}
	return 1
}
