package optim

import "math"

// A Schedule is the learning rate of each step, from step 0 on.
type Schedule func(step int) float64

// Cosine rises from 0 to lr over the first warmup steps and falls to 0 along half a cosine until step total: the first
// step's rate is 0 (as transformers' get_cosine_schedule_with_warmup).
//
//	lr(t) = lr · t / warmup                                             t < warmup
//	lr(t) = lr · ½ · (1 + cos(π · (t - warmup) / (total - warmup)))     after
func Cosine(lr float64, warmup, total int) Schedule {
	return func(step int) float64 {
		if step < warmup {
			return lr * float64(step) / float64(warmup)
		}
		done := float64(step-warmup) / math.Max(1, float64(total-warmup))
		return lr * 0.5 * (1 + math.Cos(math.Pi*math.Min(done, 1)))
	}
}
