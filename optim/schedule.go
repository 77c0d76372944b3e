package optim

import (
	"fmt"
	"math"
)

// A Schedule returns the learning rate of a step, counted from 0. It depends on nothing else, so a run can resume
// anywhere. Steps after the last have the last one's rate.
type Schedule func(step int) float64

// withWarmup puts a warmup before a schedule, from 0 to lr over the first warmup steps. So the rate of the first step
// is 0, unless warmup is 0:
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

// fraction returns how much of the steps from first to last is done at step, from 0 to 1.
func fraction(step, first, last int) float64 {
	return math.Min(1, math.Max(0, float64(step-first)/math.Max(1, float64(last-first))))
}

// Constant stays at lr after the warmup, as in transformers' get_constant_schedule_with_warmup.
func Constant(lr float64, warmup int) Schedule {
	return withWarmup(lr, warmup, func(int) float64 { return lr })
}

// Linear decays linearly to 0 at step total, as in transformers' get_linear_schedule_with_warmup:
//
//	lr(t) = lr · (total - t) / (total - warmup)
func Linear(lr float64, warmup, total int) Schedule {
	return withWarmup(lr, warmup, func(step int) float64 {
		return lr * math.Max(0, float64(total-step)/math.Max(1, float64(total-warmup)))
	})
}

// Cosine decays to 0 at step total along half a cosine, as in transformers' get_cosine_schedule_with_warmup (Loshchilov
// and Hutter, arXiv 1608.03983):
//
//	lr(t) = lr · ½ · (1 + cos(π · (t - warmup) / (total - warmup)))
func Cosine(lr float64, warmup, total int) Schedule {
	return withWarmup(lr, warmup, func(step int) float64 {
		return lr * (0.5 * (1 + math.Cos(math.Pi*fraction(step, warmup, total))))
	})
}

// WSD (warmup, stable, decay) stays at lr until the last decay steps, in which it decays to 0 as one minus a square
// root. Hägele et al. (arXiv 2405.18392) found that shape best:
//
//	lr(t) = lr                                                t < total - decay
//	lr(t) = lr · (1 - √((t - (total - decay)) / decay))       after
func WSD(lr float64, warmup, decay, total int) Schedule {
	return withWarmup(lr, warmup, func(step int) float64 {
		return lr * (1 - math.Sqrt(fraction(step, total-decay, total)))
	})
}

// ParseSchedule returns the schedule with that name: constant, linear, cosine or wsd. wsd decays over the last fifth
// of all steps, as in its paper. lr is the peak learning rate, total the number of steps.
func ParseSchedule(name string, lr float64, warmup, total int) (Schedule, error) {
	switch {
	case !(lr >= 0) || math.IsInf(lr, 0):
		return nil, fmt.Errorf("schedule %s: learning rate %v: must be a finite number, at least 0", name, lr)
	case total < 0:
		return nil, fmt.Errorf("schedule %s: %d steps: must be at least 0", name, total)
	case warmup < 0, warmup > total:
		return nil, fmt.Errorf("schedule %s: warmup %d: must be 0 to %d, the number of steps", name, warmup, total)
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
	return nil, fmt.Errorf("schedule %q: must be constant, linear, cosine or wsd", name)
}
