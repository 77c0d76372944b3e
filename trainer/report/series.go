package report

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// tooLarge is where a value, finite or not, stops being one that a picture can show.
const tooLarge = 1e30

func shown(v float64) bool { return math.Abs(v) < tooLarge } // false for NaN too

// smooth is the mean of every point's surroundings, weighted with exp(-|i-j|/tau) for points i and j: what falls off to both
// sides does not lag behind the curve as a running mean does. Gaps stay gaps and count nothing.
func smooth(points []CurvePoint, tau float64) []CurvePoint {
	decay := math.Exp(-1 / tau)
	out := slices.Clone(points)
	sums, weights := make([]float64, len(points)), make([]float64, len(points))
	sweep := func(i int, sum, weight *float64) {
		*sum, *weight = *sum*decay, *weight*decay
		if v := points[i].Loss; shown(v) {
			// From the other side the point itself is left out: it is in the first sweep's sum already.
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

// thin leaves about 2n points of a long series: the lowest and the highest of each of n stretches, so that no spike is lost.
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
			out = append(out, part[0]) // all of it is a gap
		case low == high:
			out = append(out, part[low])
		default:
			out = append(out, part[min(low, high)], part[max(low, high)])
		}
	}
	return out
}

// span is the range of the values that are shown; ok is false where there are none.
func span(values []float64) (low, high float64, ok bool) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if shown(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	return low, high, low <= high
}

// lossRange is the range for the axis of losses. A few spikes, which would press all else flat, may lie above it.
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
	if high-low <= 1e-9*max(math.Abs(low), math.Abs(high)) { // what a step could not be told from rounding in
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

// fixed writes a number with as many decimals as tell it from the next one, step away.
func fixed(v, step float64) string {
	if math.Abs(v) >= 1e6 && step >= math.Abs(v)/1e4 { // too wide for the margin, and short tells it from the next one
		return short(v)
	}
	return strconv.FormatFloat(v, 'f', min(9, max(0, int(math.Ceil(-math.Log10(step)-1e-9)))), 64)
}

// short writes a count: 250, 20k, 1.5M.
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

// power writes a learning rate as people give it: 2e-5.
func power(v float64) string {
	if v == 0 {
		return "0"
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64) // without what a product of floats adds
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', -1, 64), "e")
	n, _ := strconv.Atoi(exponent)
	return mantissa + "e" + strconv.Itoa(n)
}
