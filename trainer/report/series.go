package report

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// tooLarge is the magnitude from which values are not shown.
const tooLarge = 1e30

func shown(v float64) bool { return math.Abs(v) < tooLarge } // false for NaN too

// smooth returns the weighted mean around each point, with the weight exp(-|i-j|/tau) for points i and j. Weights on
// both sides keep it from lagging the curve as a running mean does. Gaps stay gaps and have no weight.
func smooth(points []CurvePoint, tau float64) []CurvePoint {
	decay := math.Exp(-1 / tau)
	out := slices.Clone(points)
	sums, weights := make([]float64, len(points)), make([]float64, len(points))
	sweep := func(i int, sum, weight *float64) {
		*sum, *weight = *sum*decay, *weight*decay
		if v := points[i].Loss; shown(v) {
			// The point itself is not in sums[i]: it is added once, below.
			sums[i], weights[i] = sums[i]+*sum, weights[i]+*weight
			*sum, *weight = *sum+v, *weight+1
		}
	}
	var sum, weight float64
	for i := range points {
		sweep(i, &sum, &weight)
	}
	sum, weight = 0, 0
	for i := len(points) - 1; i >= 0; i-- {
		sweep(i, &sum, &weight)
		if v := points[i].Loss; shown(v) {
			out[i].Loss = (sums[i] + v) / (weights[i] + 1)
		}
	}
	return out
}

// thin reduces a long series to about 2n points: the lowest and the highest of each of n parts, so that no spike is
// lost.
func thin(points []CurvePoint, n int) []CurvePoint {
	if len(points) <= 2*n {
		return points
	}
	out := make([]CurvePoint, 0, 2*n)
	for b := range n {
		part := points[b*len(points)/n : (b+1)*len(points)/n]
		low, high := -1, -1
		for i, p := range part {
			if !shown(p.Loss) {
				continue
			}
			if low < 0 || p.Loss < part[low].Loss {
				low = i
			}
			if high < 0 || p.Loss > part[high].Loss {
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

// span returns the range of the values that are shown; ok is false if there are none.
func span(values []float64) (low, high float64, ok bool) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if shown(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	return low, high, low <= high
}

// lossRange returns the range of the loss axis. A few spikes, which would flatten everything else, may exceed it.
func lossRange(steps, validation []float64) (low, high float64) {
	low, high, ok := span(append(slices.Clone(steps), validation...))
	if !ok {
		return 0, 1
	}
	sorted := slices.DeleteFunc(slices.Clone(steps), func(v float64) bool { return !shown(v) })
	slices.Sort(sorted)
	if n := len(sorted); n >= 20 {
		usual := sorted[n-1-n/100]
		if _, v, ok := span(validation); ok {
			usual = max(usual, v)
		}
		if high-low > 5*(usual-low) && usual > low {
			high = low + 1.5*(usual-low)
		}
	}
	if low >= 0 && low < 0.4*high {
		low = 0
	}
	return low, high
}

// ticks returns about n round numbers (1, 2 or 5 times a power of ten apart, and at least least) that enclose low and
// high, and their distance.
func ticks(low, high float64, n int, least float64) (at []float64, step float64) {
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

// fixed formats a number with enough decimals to tell it from the next one, which is step away.
func fixed(v, step float64) string {
	if math.Abs(v) >= 1e6 && step >= math.Abs(v)/1e4 { // too wide for the margin, and short tells it from the next one
		return short(v)
	}
	return strconv.FormatFloat(v, 'f', min(9, max(0, int(math.Ceil(-math.Log10(step)-1e-9)))), 64)
}

// short formats a count: 250, 20k, 1.5M.
func short(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= unit.size && v >= 1e4 {
			return significant(v/unit.size) + unit.name
		}
	}
	return significant(v)
}

func significant(v float64) string { return strconv.FormatFloat(v, 'g', 5, 64) }

// power formats a learning rate as people write it: 2e-5.
func power(v float64) string {
	if v == 0 {
		return "0"
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64) // without the rounding error of a product
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', -1, 64), "e")
	n, _ := strconv.Atoi(exponent)
	return mantissa + "e" + strconv.Itoa(n)
}
