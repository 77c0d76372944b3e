package optim_test

import (
	"math"
	"slices"
	"testing"

	"restyle/optim"
)

// TestScaler compares scales with those that PyTorch's GradScaler finds.
func TestScaler(t *testing.T) {
	half := math.Ldexp(1, 126)
	for _, c := range []struct {
		name     string
		from     optim.Scaler
		overflow []bool
		scales   []float32
		good     []int
	}{
		{"halved", *optim.NewScaler(), []bool{true, true, false, false, true, false},
			[]float32{32768, 16384, 16384, 16384, 8192, 8192}, []int{0, 0, 1, 2, 0, 1}},
		{"just before it grows", optim.Scaler{Scale: 1024, Growth: 2, Backoff: 0.5, Interval: 3},
			[]bool{false, false, true, false, false, true, false, false, false, true},
			[]float32{1024, 1024, 512, 512, 512, 256, 256, 256, 512, 256}, []int{1, 2, 0, 1, 2, 0, 1, 2, 0, 0}},
		{"never infinite", optim.Scaler{Scale: float32(half), Growth: 2, Backoff: 0.5, Interval: 1},
			[]bool{false, false, false, true}, []float32{float32(2 * half), float32(2 * half), float32(2 * half), float32(half)},
			[]int{0, 0, 0, 0}},
		{"rounded once", optim.Scaler{Scale: 1000, Growth: 1.7, Backoff: 0.3, Interval: 1}, []bool{false, false, true},
			[]float32{1700, 2890, 867}, []int{0, 0, 0}},
		{"down to nothing", optim.Scaler{Scale: 0x1p-126, Growth: 2, Backoff: 0x1p-10, Interval: 3},
			[]bool{true, true, true, false}, []float32{0x1p-136, 0x1p-146, 0, 0}, []int{0, 0, 0, 1}},
	} {
		s := c.from
		var scales []float32
		var good []int
		for _, overflow := range c.overflow {
			s.Update(overflow)
			scales, good = append(scales, s.Scale), append(good, s.Good)
		}
		if !slices.Equal(scales, c.scales) || !slices.Equal(good, c.good) {
			t.Errorf("%s: %v, %v, want %v, %v", c.name, scales, good, c.scales, c.good)
		}
	}
	s := optim.NewScaler()
	for range 2000 {
		s.Update(false)
	}
	if s.Scale != 131072 || s.Good != 0 {
		t.Errorf("after 2,000 good steps %+v", s)
	}
}
