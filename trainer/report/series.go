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
