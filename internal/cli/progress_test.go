package cli

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress checks the line of two tasks, each with a clock of its own.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, line := newScreen(t, 80)
		p := Progress{Line: line}
		for _, c := range []struct {
			task, what string
			share      float64
			want       string
		}{
			{"loading x", "", 0, "loading x: 0%"},
			{"loading x", "", 0.05, "loading x: 5%"},
			{"loading x", "", 0.5, "loading x: 50%, 20s left"},
			{"GPTQ", "layer 1 of 4", 0, "GPTQ: layer 1 of 4, 0%"},
			{"GPTQ", "layer 2 of 4", 0.25, "GPTQ: layer 2 of 4, 25%, 30s left"},
			{"GPTQ", "layer 4 of 4", 1, "GPTQ: layer 4 of 4, 100%, 0s left"},
		} {
			p.Draw(c.task, c.what, c.share)
			if got := s.lines()[0]; got != c.want {
				t.Errorf("%q: want %q", got, c.want)
			}
			time.Sleep(10 * time.Second)
		}
	})
}
