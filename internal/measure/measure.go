// Package measure times work and reports how reliable the times are.
//
// [Turns] interleaves several forms of the same work, so that other load on the machine affects all of them alike. A
// [Sample] has the time of every run, its median, its spread, and the noise of its median. A [Ceiling] tells how fast a
// machine could have done the work.
package measure

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// Work does the same work a number of times, one after the other, and returns when its results are ready.
type Work func(times int) error

// Options say how often work is timed. The zero value times it once.
type Options struct {
	// Warmup is the number of runs before those that are timed. Default 0.
	Warmup int
	// Iterations is the number of timings of each form. Default 1.
	Iterations int
	// Shortest is the minimum duration of a timing: work that is faster runs several times in one, because a clock, and
	// waiting for a GPU, have costs of their own. Default 0: a timing is one run.
	Shortest time.Duration
	// Budget ends the timings of all forms together after this time, but not before each form has Least. Default 0: no
	// limit.
	Budget time.Duration
	// Least is the minimum number of timings of each form, whatever the budget. Default 1.
	Least int
}

// Run times one form of work; see Turns.
func Run(ctx context.Context, o Options, work Work) (Sample, error) {
	s, err := Turns(ctx, o, work)
	if err != nil {
		return Sample{}, err
	}
	return s[0], nil
}

// Turns times forms of work alternately: a timing of each, then the next timing of each, starting with another form
// each time. It returns a sample of each form, in the order of the forms. It stops with the first error of a form, or
// with the context's error when the context is canceled.
func Turns(ctx context.Context, o Options, forms ...Work) ([]Sample, error) {
	samples, times := make([]Sample, len(forms)), make([]int, len(forms))
	for i, f := range forms {
		var err error
		if times[i], err = o.warmUp(ctx, f); err != nil {
			return nil, err
		}
	}
	least := min(max(o.Least, 1), max(o.Iterations, 1))
	start := now()
	for n := range max(o.Iterations, 1) {
		if n >= least && o.Budget > 0 && now().Sub(start) >= o.Budget {
			break
		}
		for k := range forms {
			i := (n + k) % len(forms)
			took, err := timed(ctx, forms[i], times[i])
			if err != nil {
				return nil, err
			}
			samples[i].Seconds = append(samples[i].Seconds, took.Seconds()/float64(times[i]))
		}
	}
	return samples, nil
}

// warmUp runs a form, at most as long as the budget, and returns how many runs a timing must have.
func (o Options) warmUp(ctx context.Context, work Work) (times int, err error) {
	times = 1
	for start, n := now(), 0; n < o.Warmup && (n == 0 || o.Budget == 0 || now().Sub(start) < o.Budget/4); n++ {
		if _, err := timed(ctx, work, 1); err != nil {
			return 0, err
		}
	}
	const most = 1 << 16
	for o.Shortest > 0 && times < most {
		took, err := timed(ctx, work, times)
		if err != nil {
			return 0, err
		}
		if took >= o.Shortest {
			break
		}
		// Toward the goal, but at most tenfold: a short timing says little.
		times = min(most, max(times+1, int(float64(times)*min(10, 1.2*float64(o.Shortest)/float64(max(took, 1))))))
	}
	return times, nil
}

// now is the clock. Tests replace it.
var now = time.Now

func timed(ctx context.Context, work Work, times int) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	start := now()
	err := work(times)
	return now().Sub(start), err
}

// A Sample holds the times of one form of work.
type Sample struct {
	Seconds []float64 // per run, in the order in which they were taken
}

// Median returns the median of the times in seconds, or NaN if there are none.
func (s Sample) Median() float64 { return s.quantile(0.5) }

// Quartiles returns the times that a quarter and three quarters of the timings stay below: the spread.
func (s Sample) Quartiles() (low, high float64) { return s.quantile(0.25), s.quantile(0.75) }

func (s Sample) quantile(q float64) float64 {
	sorted := slices.Sorted(slices.Values(s.Seconds))
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Noise returns how far the median may be off, as a share of it: half the width of its 95% confidence interval, whose
// ends are two of the times (the binomial distribution says which, whatever the times are distributed like). For fewer
// than six timings it is half the whole range, and for one it is NaN: nothing is known.
func (s Sample) Noise() float64 {
	sorted := slices.Sorted(slices.Values(s.Seconds))
	n := len(sorted)
	if n < 2 {
		return math.NaN()
	}
	far := 0.98 * math.Sqrt(float64(n)) // 1.96 standard deviations of the number of times below the median
	low, high := int(math.Floor(float64(n-1)/2-far)), int(math.Ceil(float64(n-1)/2+far))
	return (sorted[min(high, n-1)] - sorted[max(low, 0)]) / 2 / s.Median()
}

// A Ratio is how many times as fast one thing is as another, with its noise.
type Ratio struct {
	Times float64 // of speed: 2 is twice as fast
	Noise float64 // how far Times may be off, as a share of it; NaN: unknown
}

// Faster returns how many times as fast s is as other.
func (s Sample) Faster(other Sample) Ratio {
	return RatioOf(other.Median(), other.Noise(), s.Median(), s.Noise())
}

// RatioOf returns how many times as fast something is that takes now as what takes before, in any one unit. The noises
// are shares, which are independent of each other.
func RatioOf(before, beforeNoise, now, nowNoise float64) Ratio {
	return Ratio{before / now, math.Hypot(beforeNoise, nowNoise)}
}

// MaxNoise is the noise above which a result says nothing: a third of it.
const MaxNoise = 1.0 / 3

// Clear reports whether the ratio is not 1 by more than its noise. An unknown noise is never clear.
func (r Ratio) Clear() bool { return math.Abs(math.Log(r.Times)) > math.Log1p(r.Noise) }

// String returns the ratio in words, such as "1.43 times as fast, ±2%", or "the same within ±3%". With more noise than
// MaxNoise it has no ratio.
func (r Ratio) String() string {
	switch {
	case r.Noise > MaxNoise:
		return "too noisy to compare, ±" + percent(r.Noise)
	case math.IsNaN(r.Times) || math.IsInf(r.Times, 0):
		return "no comparison"
	case math.IsNaN(r.Noise):
		return fmt.Sprintf("%.3g times as fast, noise unknown", r.Times)
	case !r.Clear():
		return "the same within ±" + percent(r.Noise)
	}
	return fmt.Sprintf("%.3g times as fast, ±%s", r.Times, percent(r.Noise))
}

// percent returns a share with one decimal if it is below 1%, and with none otherwise.
func percent(share float64) string {
	if share < 0.0095 {
		return fmt.Sprintf("%.1f%%", 100*share)
	}
	return fmt.Sprintf("%.0f%%", 100*share)
}

// A Ceiling is what a machine reaches at best, measured in the same run as what is compared with it.
type Ceiling struct {
	Bytes float64 // per second, of a copy within memory
	FLOPs float64 // per second, of a product of large matrices
}

// Seconds returns the time that work takes at least, if it has to move bytes and compute flops, and the machine does
// both at the same time.
func (c Ceiling) Seconds(bytes, flops float64) float64 { return max(bytes/c.Bytes, flops/c.FLOPs) }

// Share returns the share of the ceiling that was reached by work that took some seconds. It may be more than 1: what
// is in a cache is not limited by memory.
func (c Ceiling) Share(bytes, flops, seconds float64) float64 {
	return c.Seconds(bytes, flops) / seconds
}
