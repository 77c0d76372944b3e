package main

import (
	"time"

	"restyle/trainer"
)

// A beginning measures the time of a call from when the weights are read to the end of its first step, without
// evaluations.
type beginning struct {
	loaded time.Time     // when the weights were read, plus the time of evaluations since
	took   time.Duration // 0: there was no step
}

func (b *beginning) evaluation(e trainer.Evaluation) {
	b.loaded = b.loaded.Add(time.Duration(e.Seconds * float64(time.Second)))
}

func (b *beginning) step(now time.Time) {
	if b.took == 0 {
		b.took = now.Sub(b.loaded)
	}
}
