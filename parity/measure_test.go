package parity

import (
	"math"
	"testing"
)

func TestBesideWhole(t *testing.T) {
	for _, c := range []struct {
		name        string
		x, truth    []float32
		whole, want float64
	}{
		{"of its own size", []float32{3.03, 4}, []float32{3, 4}, 10, 0.006},
		{"rounding beside a gradient a thousand times as large", []float32{0, 0}, []float32{3e-9, 4e-9}, 5, 1e-6},
		{"nothing where there is something", []float32{0, 0}, []float32{0.03, 0.04}, 5, 1},
		{"something where there is nothing", []float32{0, 1e-9}, []float32{0, 0}, 5, math.Inf(1)},
		{"nothing", []float32{0, 0}, []float32{0, 0}, 5, 0},
		{"another length", []float32{3}, []float32{3, 4}, 5, math.Inf(1)},
	} {
		if got := besideWhole(c.x, c.truth, c.whole); !(math.Abs(got-c.want) <= 1e-5*c.want) && got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
