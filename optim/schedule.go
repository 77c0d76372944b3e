package optim

import (
	"fmt"
	"math"
)

// A Schedule is the learning rate of each step, from step 0 on. It depends on the step alone, so that a run may go on
// anywhere. Steps beyond the last have the last one's rate.
type Schedule func(step int) float64

// Every schedule begins with a warm-up, from 0 to lr over the first warmup steps, so that the first step's rate is 0 where
// there is one at all:
//
//	lr(t) = lr · t / warmup    t < warmup
func withWarmup(lr float64, warmup int, after func(step int) float64) Schedule {
	return func(step int) float64 {
		if step < warmup {
			return lr * (float64(step) / float64(warmup))
		}
		return after(step)
	}
}

// share is how much of the steps from first to last is behind, from 0 to 1.
func fraction(step, first, last int) float64 {
	return math.Min(1, math.Max(0, float64(step-first)/math.Max(1, float64(last-first))))
}

// Constant is lr after the warm-up, as transformers' get_constant_schedule_with_warmup.
func Constant(lr float64, warmup int) Schedule {
	return withWarmup(lr, warmup, func(int) float64 { return lr })
}

// Linear falls to 0 in a line until step total, as transformers' get_linear_schedule_with_warmup:
//
//	lr(t) = lr · (total - t) / (total - warmup)
func Linear(lr float64, warmup, total int) Schedule {
	return withWarmup(lr, warmup, func(step int) float64 {
		return lr * math.Max(0, float64(total-step)/math.Max(1, float64(total-warmup)))
	})
}

// Cosine falls to 0 along half a cosine until step total, as transformers' get_cosine_schedule_with_warmup (Loshchilov and
// Hutter, arXiv 1608.03983):
//
//	lr(t) = lr · ½ · (1 + cos(π · (t - warmup) / (total - warmup)))
func Cosine(lr float64, warmup, total int) Schedule {
	return withWarmup(lr, warmup, func(step int) float64 {
		return lr * (0.5 * (1 + math.Cos(math.Pi*fraction(step, warmup, total))))
	})
}

// WSD (warm-up, stable, decay) stays at lr until the last decay steps, in which it falls to 0 as one minus a root, the shape
// that Hägele et al. (arXiv 2405.18392) found best:
//
//	lr(t) = lr                                                t < total - decay
//	lr(t) = lr · (1 - √((t - (total - decay)) / decay))       after
func WSD(lr float64, warmup, decay, total int) Schedule {
	return withWarmup(lr, warmup, func(step int) float64 {
		return lr * (1 - math.Sqrt(fraction(step, total-decay, total)))
	})
}

// ParseSchedule is the schedule of that name: constant, linear, cosine or wsd, of which the last decays over a fifth of all
// steps, as in its paper. lr is the highest rate, total the number of steps.
func ParseSchedule(name string, lr float64, warmup, total int) (Schedule, error) {
	switch {
	case !(lr >= 0) || math.IsInf(lr, 0):
		return nil, fmt.Errorf("schedule %s: learning rate %v is not a rate", name, lr)
	case total < 0, warmup < 0, warmup > total:
		return nil, fmt.Errorf("schedule %s: a warm-up of %d steps does not go into %d steps", name, warmup, total)
	}
	switch name {
	case "constant":
		return Constant(lr, warmup), nil
	case "linear":
		return Linear(lr, warmup, total), nil
	case "cosine":
		return Cosine(lr, warmup, total), nil
	case "wsd":
		return WSD(lr, warmup, min((total+4)/5, total-warmup), total), nil
	}
	return nil, fmt.Errorf("schedule %q: it is one of constant, linear, cosine, wsd", name)
}
