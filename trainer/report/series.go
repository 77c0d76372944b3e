package report

import (
	"math"
	"slices"

	"restyle/internal/plot"
)

// smooth returns the weighted mean around each point, with the weight exp(-|i-j|/tau) for points i and j. Weights on
// both sides keep it from lagging the curve as a running mean does. Gaps stay gaps and have no weight.
func smooth(points []CurvePoint, tau float64) []CurvePoint {
	decay := math.Exp(-1 / tau)
	out := slices.Clone(points)
	sums, weights := make([]float64, len(points)), make([]float64, len(points))
	sweep := func(i int, sum, weight *float64) {
		*sum, *weight = *sum*decay, *weight*decay
		if v := points[i].Y; plot.Shown(v) {
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
		if v := points[i].Y; plot.Shown(v) {
			out[i].Y = (sums[i] + v) / (weights[i] + 1)
		}
	}
	return out
}

// lossRange returns the range of the loss axis. A few spikes, which would flatten everything else, may exceed it.
func lossRange(steps, validation []float64) (low, high float64) {
	low, high, ok := plot.Span(append(slices.Clone(steps), validation...))
	if !ok {
		return 0, 1
	}
	sorted := slices.DeleteFunc(slices.Clone(steps), func(v float64) bool { return !plot.Shown(v) })
	slices.Sort(sorted)
	if n := len(sorted); n >= 20 {
		usual := sorted[n-1-n/100]
		if _, v, ok := plot.Span(validation); ok {
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

// A scale is the range of the loss axis: from its first tick to its last. It is logarithmic if the loss falls by more
// than logFall: on a linear axis most of such a run would be a flat line.
type scale struct {
	at   []float64
	text []string
	log  bool
}

const logFall = 6

func lossScale(steps, validation []float64) (s scale) {
	low, high := lossRange(steps, validation)
	bottom := usualLow(steps, validation)
	if s.log = bottom > 1e-9 && high > logFall*bottom; s.log {
		s.at = logTicks(bottom, high)
		for _, v := range s.at {
			s.text = append(s.text, plot.Significant(v))
		}
		return s
	}
	at, step := plot.Ticks(low, high, 6, 0)
	for _, v := range at {
		s.text = append(s.text, plot.Fixed(v, step))
	}
	s.at = at
	return s
}

// usualLow returns the lowest loss. A few steps may be lower: a single one may have little to learn.
func usualLow(steps, validation []float64) float64 {
	sorted := slices.DeleteFunc(slices.Clone(steps), func(v float64) bool { return !plot.Shown(v) })
	slices.Sort(sorted)
	low, _, _ := plot.Span(validation)
	if n := len(sorted); n > 0 {
		low = min(low, sorted[n/50])
	}
	return low
}

// logTicks returns round numbers that enclose low and high, at most nine.
func logTicks(low, high float64) (at []float64) {
	for _, digits := range [][]float64{{1, 1.5, 2, 3, 4, 5, 6, 8}, {1, 2, 3, 5}, {1, 2, 5}, {1, 3}, {1}} {
		at = at[:0]
		for e := math.Floor(math.Log10(low)); len(at) == 0 || at[len(at)-1] < high; e++ {
			for _, d := range digits {
				v := d * math.Pow(10, e)
				if len(at) > 0 && at[len(at)-1] >= high {
					break
				}
				if v <= low*(1+1e-9) {
					at = at[:0]
				}
				at = append(at, v)
			}
		}
		if len(at) <= 9 {
			break
		}
	}
	return at
}
