package main

import (
	"time"

	"restyle/trainer"
)

// A beginning measures the time from when a call has read the weights to the end of its first step, without
// evaluations.
type beginning struct {
	loaded time.Time     // when the weights were read, plus the time of evaluations since
	took   time.Duration // 0: no step
}

func (b *beginning) evaluation(e trainer.Evaluation) {
	b.loaded = b.loaded.Add(time.Duration(e.Seconds * float64(time.Second)))
}

func (b *beginning) step(now time.Time) {
	if b.took == 0 {
		b.took = now.Sub(b.loaded)
	}
}
