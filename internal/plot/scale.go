package plot

import (
	"math"
	"strconv"
	"strings"
)

// A Point is a point of a line. One whose values are not shown is a gap.
type Point struct{ X, Y float64 }

// tooLarge is the magnitude from which values are not shown.
const tooLarge = 1e30

// Shown reports whether a value can be drawn: it is a number, and not huge.
func Shown(v float64) bool { return math.Abs(v) < tooLarge } // false for NaN too

// Thin reduces a long series to about 2n points: the lowest and the highest of each of n parts, so that no spike is
// lost.
func Thin(points []Point, n int) []Point {
	if len(points) <= 2*n {
		return points
	}
	out := make([]Point, 0, 2*n)
	for b := range n {
		part := points[b*len(points)/n : (b+1)*len(points)/n]
		low, high := -1, -1
		for i, p := range part {
			if !Shown(p.Y) {
				continue
			}
			if low < 0 || p.Y < part[low].Y {
				low = i
			}
			if high < 0 || p.Y > part[high].Y {
				high = i
			}
		}
		switch {
		case low < 0:
			out = append(out, part[0]) // the whole part is a gap
		case low == high:
			out = append(out, part[low])
		default:
			out = append(out, part[min(low, high)], part[max(low, high)])
		}
	}
	return out
}

// Span returns the range of the values that are shown; ok is false if there are none.
func Span(values []float64) (low, high float64, ok bool) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if Shown(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	return low, high, low <= high
}

// Ticks returns about n round numbers (1, 2 or 5 times a power of ten apart, and at least least) that enclose low and
// high, and their distance.
func Ticks(low, high float64, n int, least float64) (at []float64, step float64) {
	if high-low <= 1e-9*max(math.Abs(low), math.Abs(high)) { // smaller than what rounding leaves of a step
		d := max(math.Abs(low)*0.05, least, 1e-12)
		low, high = low-d, high+d
	}
	rough := max((high-low)/float64(n), least)
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	step = 10 * power
	for _, m := range []float64{1, 2, 5} {
		if m*power >= rough*(1-1e-9) {
			step = m * power
			break
		}
	}
	first, last := math.Floor(low/step+1e-9), math.Ceil(high/step-1e-9)
	for i := range min(int(last-first), 4*n) + 1 {
		at = append(at, (first+float64(i))*step)
	}
	return at, step
}

// Fixed formats a number with enough decimals to tell it from the next one, which is step away.
func Fixed(v, step float64) string {
	if math.Abs(v) >= 1e6 && step >= math.Abs(v)/1e4 { // too wide for the margin, and short tells it from the next one
		return Short(v)
	}
	return strconv.FormatFloat(v, 'f', min(9, max(0, int(math.Ceil(-math.Log10(step)-1e-9)))), 64)
}

// Short formats a count: 250, 20k, 1.5M.
func Short(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= unit.size && v >= 1e4 {
			return Significant(v/unit.size) + unit.name
		}
	}
	return Significant(v)
}

// Significant formats a number with at most five significant digits.
func Significant(v float64) string { return strconv.FormatFloat(v, 'g', 5, 64) }

// Digits formats a number with at most n significant digits, but a large one as an integer, not with an exponent.
func Digits(v float64, n int) string {
	s := strconv.FormatFloat(v, 'g', n, 64)
	if math.Abs(v) < 1e15 && strings.Contains(s, "e+") {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return s
}

// Power formats a learning rate as people write it: 2e-5.
func Power(v float64) string {
	if v == 0 {
		return "0"
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64) // without the rounding error of a product
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', -1, 64), "e")
	n, _ := strconv.Atoi(exponent)
	return mantissa + "e" + strconv.Itoa(n)
}
