package optim

import (
	"math"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// TestSchedules compares the rates of a run of ten steps with values computed by hand, and for linear and cosine with
// transformers' values.
func TestSchedules(t *testing.T) {
	const lr = 1e-3
	third, root := lr/3, math.Sqrt2/2
	for _, c := range []struct {
		name string
		s    Schedule
		want map[int]float64
	}{
		{"constant", Constant(lr, 3), map[int]float64{0: 0, 1: third, 2: 2 * third, 3: lr, 9: lr, 10: lr, 500: lr}},
		{"constant at once", Constant(lr, 0), map[int]float64{0: lr, 7: lr}},
		{"linear", Linear(lr, 3, 10), map[int]float64{0: 0, 1: third, 2: 2 * third, 3: lr, 4: lr * 6 / 7, 9: lr / 7, 10: 0,
			50: 0}},
		{"linear at once", Linear(lr, 0, 4), map[int]float64{0: lr, 1: lr * 3 / 4, 3: lr / 4, 4: 0}},
		{"cosine", Cosine(lr, 2, 10), map[int]float64{0: 0, 1: lr / 2, 2: lr, 4: lr * (1 + root) / 2, 6: lr / 2,
			8: lr * (1 - root) / 2, 10: 0, 50: 0}},
		{"cosine at once", Cosine(lr, 0, 4), map[int]float64{0: lr, 1: lr * (1 + root) / 2, 2: lr / 2, 4: 0}},
		{"cosine, all warm-up", Cosine(lr, 5, 5), map[int]float64{0: 0, 4: lr * 4 / 5, 5: lr, 6: 0}},
		{"linear, all warm-up", Linear(lr, 5, 5), map[int]float64{4: lr * 4 / 5, 5: 0}},
		{"wsd", WSD(lr, 2, 4, 10), map[int]float64{0: 0, 1: lr / 2, 2: lr, 6: lr, 7: lr / 2, 8: lr * (1 - root),
			9: lr * (1 - math.Sqrt(3)/2), 10: 0, 50: 0}},
		{"wsd without decay", WSD(lr, 0, 0, 10), map[int]float64{0: lr, 9: lr, 10: lr}},
	} {
		for step, want := range c.want {
			if got := c.s(step); !(math.Abs(got-want) <= 1e-18) {
				t.Errorf("%s: step %d has %g, want %g", c.name, step, got, want)
			}
		}
	}
}

// TestParseSchedule checks that every schedule, for runs of any length, has rates between 0 and lr, and returns the
// same rates again.
func TestParseSchedule(t *testing.T) {
	for _, name := range []string{"constant", "linear", "cosine", "wsd"} {
		for total := range 12 {
			for warmup := range total + 1 {
				s, err := ParseSchedule(name, 2, warmup, total)
				expect.OK(t, err)
				for step := total + 3; step >= 0; step-- {
					if r := s(step); !(r >= 0 && r <= 2) || r != s(step) {
						t.Errorf("%s, %d of %d steps warm-up: step %d has %v", name, warmup, total, step, r)
					}
				}
				if total > warmup && s(warmup) != 2 {
					t.Errorf("%s, %d of %d: after the warm-up it is %v", name, warmup, total, s(warmup))
				}
			}
		}
	}
	// wsd decays over a fifth of the steps, rounded up; at is the step where the decay starts.
	for total, at := range map[int]int{100: 80, 101: 80, 99: 79, 96: 76, 11: 8, 5: 4, 1: 0} {
		if s, _ := ParseSchedule("wsd", 1, 0, total); s(at) != 1 || s(at+1) == 1 {
			t.Errorf("wsd of %d steps does not begin to fall after %d", total, at)
		}
	}
	for _, c := range []struct {
		name          string
		lr            float64
		warmup, total int
		want          string
	}{
		{"sine", 1, 0, 10, `schedule "sine": must be constant, linear, cosine or wsd`},
		{"", 1, 0, 10, `schedule ""`},
		{"cosine", -1, 0, 10, "learning rate -1"},
		{"cosine", math.NaN(), 0, 10, "learning rate NaN"},
		{"cosine", math.Inf(1), 0, 10, "learning rate +Inf"},
		{"cosine", 1, 11, 10, "warmup 11: must be 0 to 10"},
		{"cosine", 1, -1, 10, "warmup -1: must be"},
		{"cosine", 1, 0, -1, "-1 steps: must be at least 0"},
	} {
		if _, err := ParseSchedule(c.name, c.lr, c.warmup, c.total); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
