package trainer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"restyle/dataset/training"
	"restyle/internal/expect"
)

// examplesOf returns examples of equal length.
func examplesOf(n, tokens int) []training.Example {
	list := make([]training.Example, n)
	for i := range list {
		list[i].IDs, list[i].Labels = make([]int32, tokens), make([]int32, tokens)
	}
	return list
}

// TestCadence_Evaluations checks after which steps validations and samples come by default.
func TestCadence_Evaluations(t *testing.T) {
	const tenth = "10 20 30 40 50 60 70 80 90 100"
	for _, c := range []struct {
		name             string
		epochs, steps    int // steps of an epoch
		held, weights    int // tokens held out, bytes of the model
		change           func(*Config)
		evaluated, asked string
	}{
		{name: "cheap", epochs: 2, steps: 50, held: 100, evaluated: tenth, asked: "50 100"},
		{name: "a third of the tokens", epochs: 2, steps: 50, held: 300, evaluated: tenth, asked: "50 100"},
		{name: "for seven", epochs: 2, steps: 35, held: 300, evaluated: "10 20 30 35 40 50 60 70", asked: "35 70"},
		{name: "too much", epochs: 2, steps: 50, held: 3000, evaluated: "50 100", asked: "50 100"},
		{name: "large weights", epochs: 2, steps: 50, held: 3, weights: smallWeights + 600*bytesPerToken,
			evaluated: "50 100", asked: "50 100"},
		{name: "weights that count less", epochs: 2, steps: 50, held: 3, weights: smallWeights + 99*bytesPerToken,
			evaluated: tenth, asked: "50 100"},
		{name: "nothing held out", epochs: 2, steps: 50, evaluated: "50 100", asked: "50 100"},
		{name: "patience", epochs: 2, steps: 50, held: 3, change: func(c *Config) { c.Patience = 1 },
			evaluated: "50 100", asked: "50 100"},
		{name: "by steps", epochs: 2, steps: 50, held: 3, change: func(c *Config) { c.EvalEvery = 40 },
			evaluated: "40 80 100", asked: "40 80 100"},
		{name: "few steps", epochs: 1, steps: 3, held: 3, evaluated: "1 2 3", asked: "3"},
		{name: "an end within", epochs: 0, steps: 50, held: 3, change: func(c *Config) { c.MaxSteps = 60 },
			evaluated: "6 12 18 24 30 36 42 48 50 54 60", asked: "50 60"},
		{name: "many epochs", epochs: 20, steps: 2, held: 3,
			evaluated: "2 4 6 8 10 12 14 16 18 20 22 24 26 28 30 32 34 36 38 40", asked: "4 8 12 16 20 24 28 32 36 40"},
	} {
		s := tinySettings()
		s.Epochs, s.EvalEvery, s.Batch, s.Accumulate = c.epochs, 0, 1, 1
		if c.change != nil {
			c.change(&s)
		}
		var held []training.Example
		if c.held > 0 {
			held = examplesOf(1, c.held)
		}
		p, err := NewPlan(s, examplesOf(c.steps, 100), held)
		expect.OK(t, err)
		p.space(c.weights)
		var evaluated, asked []string
		for step := 1; step <= p.Steps; step++ {
			if p.evaluates(step) {
				evaluated = append(evaluated, fmt.Sprint(step))
				if p.samples(step) {
					asked = append(asked, fmt.Sprint(step))
				}
			}
		}
		if got := strings.Join(evaluated, " "); got != c.evaluated {
			t.Errorf("%s: validations after %s, want %s", c.name, got, c.evaluated)
		}
		if got := strings.Join(asked, " "); got != c.asked {
			t.Errorf("%s: samples after %s, want %s", c.name, got, c.asked)
		}
		for step := range p.Steps + 1 {
			left := slices.DeleteFunc(slices.Clone(evaluated), func(s string) bool {
				at := 0
				fmt.Sscan(s, &at)
				return at <= step
			})
			if got := p.EvaluationsLeft(step); got != len(left) {
				t.Errorf("%s: %d validations left after step %d, want %d", c.name, got, step, len(left))
			}
		}
	}
}

// TestCadence_Saving checks that checkpoints take at most a tenth of the time, and that there are as many as that
// allows.
func TestCadence_Saving(t *testing.T) {
	for _, c := range []struct {
		name        string
		epoch, save time.Duration
		epochs      int
		bytes       int
		want        int
	}{
		{"short epochs", 250 * time.Millisecond, 100 * time.Millisecond, 60, 3e7, 16},
		{"cheap checkpoints", time.Minute, time.Second, 5, 3e7, 5},
		{"a first one that would take too long", 7 * time.Second, 7 * time.Second, 3, 6e9, 0},
		{"long epochs", 2 * time.Hour, time.Minute, 2, 6e9, 24},
	} {
		now := time.Now()
		s := newSaving(now, c.bytes)
		saved, steps := 0, 100
		for epoch := range c.epochs {
			for step := range steps {
				now = now.Add(c.epoch / time.Duration(steps))
				if s.due(now, step == steps-1) {
					s.took(now, now.Add(c.save))
					now = now.Add(c.save)
					saved++
				}
			}
			if took := time.Duration(saved) * c.save; took > now.Sub(s.began)/savingShare {
				t.Errorf("%s: after epoch %d, checkpoints took %v of %v", c.name, epoch, took, now.Sub(s.began))
			}
		}
		if saved != c.want {
			t.Errorf("%s: %d checkpoints, want %d", c.name, saved, c.want)
		}
	}
}
