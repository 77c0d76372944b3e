package main

import (
	"time"

	"restyle/trainer"
)

// beginning is how long a call takes from when the weights are there to its first step.
type beginning struct {
	loaded time.Time     // when the weights were there, or as much later as evaluations took since
	took   time.Duration // from then to the end of the first step; 0: there was none
}

// saw is told of everything that the run does.
func (b *beginning) saw(event any, now time.Time) {
	switch e := event.(type) {
	case trainer.Evaluation:
		b.loaded = b.loaded.Add(time.Duration(e.Seconds * float64(time.Second)))
	case trainer.Step:
		if b.took == 0 {
			b.took = now.Sub(b.loaded)
		}
	}
}
