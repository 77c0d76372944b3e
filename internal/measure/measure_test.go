package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"restyle/internal/expect"
)

func near(a, b float64) bool {
	return math.Abs(a-b) <= 1e-12*math.Abs(b) || math.IsNaN(a) && math.IsNaN(b)
}

func TestSample(t *testing.T) {
	nan := math.NaN()
	var hundred []float64
	for i := range 101 {
		hundred = append(hundred, float64(100+(i*37)%101)) // 100 to 200, mixed
	}
	for _, c := range []struct {
		seconds                  []float64
		median, low, high, noise float64
	}{
		{nil, nan, nan, nan, nan},
		{[]float64{3}, 3, 3, 3, nan},
		{[]float64{3, 1}, 2, 1.5, 2.5, 0.5},
		{[]float64{4, 1, 2}, 2, 1.5, 3, 0.75},
		{[]float64{5, 1, 2, 3, 4}, 3, 2, 4, 2.0 / 3},
		{hundred, 150, 125, 175, 10.0 / 150}, // 1.96 standard deviations of 5 are 9.85 ranks
	} {
		s := Sample{slices.Clone(c.seconds)}
		low, high := s.Quartiles()
		if !near(s.Median(), c.median) || !near(low, c.low) || !near(high, c.high) || !near(s.Noise(), c.noise) {
			t.Errorf("%v: median %v, %v to %v, noise %v", c.seconds, s.Median(), low, high, s.Noise())
		}
		if !slices.Equal(s.Seconds, c.seconds) {
			t.Error("the times were put in another order")
		}
	}
}

func TestRatio(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		before, beforeNoise, now, nowNoise float64
		want                               string
		clear                              bool
	}{
		{1.43, 0.012, 1, 0.016, "1.43 times as fast, ±2%", true},
		{1, 0.003, 2, 0.004, "0.5 times as fast, ±0.5%", true},
		{1, 0.03, 1.02, 0.04, "the same within ±5%", false},
		{1, 0, 1, 0, "the same within ±0.0%", false},
		{3, 0.2, 1, 0.2, "3 times as fast, ±28%", true},
		{3, 0.3, 1, 0.2, "too noisy to compare, ±36%", true},
		{1, 0.34, 1, 0, "too noisy to compare, ±34%", false},
		{3, nan, 1, 0.01, "3 times as fast, noise unknown", false},
		{nan, 0.1, 1, 0.1, "no comparison", false},
		{1, 0.1, 0, 0.1, "no comparison", true},
	} {
		r := RatioOf(c.before, c.beforeNoise, c.now, c.nowNoise)
		if r.String() != c.want || r.Clear() != c.clear {
			t.Errorf("%+v: %q, clear %v", c, r, r.Clear())
		}
	}
	slow, fast := Sample{[]float64{2, 2, 2}}, Sample{[]float64{1, 1, 1}}
	if r := fast.Faster(slow); r.Times != 2 || r.Noise != 0 {
		t.Errorf("%+v", r)
	}
}

func TestCeiling(t *testing.T) {
	c := Ceiling{Bytes: 100, FLOPs: 1000}
	for _, x := range []struct{ bytes, flops, seconds, share float64 }{
		{200, 1000, 4, 0.5}, {50, 1000, 4, 0.25}, {200, 0, 1, 2},
	} {
		if got := c.Share(x.bytes, x.flops, x.seconds); got != x.share {
			t.Errorf("%+v: %v", x, got)
		}
	}
}

// TestTurns_EachFirstAsOften checks that forms take turns, each first as often as the other, after their warm-up.
func TestTurns_EachFirstAsOften(t *testing.T) {
	var order string
	form := func(name string) Work {
		return func(times int) error {
			order += strings.Repeat(name, times) + "."
			return nil
		}
	}
	samples, err := Turns(t.Context(), Options{Warmup: 2, Iterations: 3}, form("a"), form("b"))
	if err != nil || order != "a.a.b.b.a.b.b.a.a.b." {
		t.Errorf("%q, %v", order, err)
	}
	for _, s := range samples {
		if len(s.Seconds) != 3 || slices.Min(s.Seconds) < 0 {
			t.Errorf("%+v", s)
		}
	}
	order = ""
	if s, err := Run(t.Context(), Options{}, form("a")); err != nil || order != "a." || len(s.Seconds) != 1 {
		t.Errorf("%q, %v, %v", order, s, err)
	}
}

// ticking makes the package's clock stand still, and returns a function that advances it.
func ticking(t *testing.T) func(time.Duration) {
	at := time.Now()
	now = func() time.Time { return at }
	t.Cleanup(func() { now = time.Now })
	return func(d time.Duration) { at = at.Add(d) }
}

// TestTurnsOfAnySpeed times forms of different speed, from one that runs once in a timing to one that runs a thousand
// times, in every order: each gets the time of one of its own runs.
func TestTurnsOfAnySpeed(t *testing.T) {
	advance := ticking(t)
	took := []time.Duration{time.Second, 7 * time.Microsecond, 30 * time.Millisecond, time.Microsecond}
	for n := range 24 {
		var forms []Work
		var want []time.Duration
		for left := slices.Clone(took); len(left) > 0; {
			at := n % len(left)
			n /= len(left)
			each := left[at]
			left, want = slices.Delete(left, at, at+1), append(want, each)
			forms = append(forms, func(times int) error { advance(time.Duration(times) * each); return nil })
		}
		samples, err := Turns(t.Context(), Options{Warmup: 1, Iterations: 5, Shortest: time.Millisecond}, forms...)
		expect.OK(t, err)
		for i, s := range samples {
			once := want[i].Seconds()
			if len(s.Seconds) != 5 || !near(slices.Min(s.Seconds), once) || !near(slices.Max(s.Seconds), once) {
				t.Errorf("a run of %v took %v s", want[i], s.Seconds)
			}
		}
	}
}

// TestBudget checks that an exceeded budget ends the warm-up, and the timings after the least number.
func TestBudget(t *testing.T) {
	advance := ticking(t)
	n := 0
	work := func(int) error { n++; advance(time.Second); return nil }
	for _, c := range []struct {
		Options
		timings, runs int
	}{
		{Options{Warmup: 9, Iterations: 50, Budget: 8 * time.Second}, 8, 10},
		{Options{Warmup: 9, Iterations: 50, Budget: 8 * time.Second, Least: 20}, 20, 22},
		{Options{Warmup: 9, Iterations: 5, Budget: 1, Least: 20}, 5, 6},
		{Options{Warmup: 1, Iterations: 50}, 50, 51},
	} {
		n = 0
		s, err := Run(t.Context(), c.Options, work)
		if err != nil || len(s.Seconds) != c.timings || n != c.runs {
			t.Errorf("%+v: %d timings, %d runs, %v", c, len(s.Seconds), n, err)
		}
	}
}

// TestShortWork_RunsSeveralTimes checks that fast work runs several times in a timing, and that its time is the time of
// one run.
func TestShortWork_RunsSeveralTimes(t *testing.T) {
	advance := ticking(t)
	for _, each := range []time.Duration{10 * time.Microsecond, time.Nanosecond, time.Second, 0} {
		var all []int
		s, err := Run(t.Context(), Options{Iterations: 2, Shortest: time.Millisecond}, func(times int) error {
			all = append(all, times)
			advance(time.Duration(times) * each)
			return nil
		})
		last := all[len(all)-1]
		enough := time.Duration(last)*each >= time.Millisecond || last == 1<<16
		tooMany := last > 1 && last < 1<<16 && time.Duration(last)*each > 2*time.Millisecond
		if err != nil || all[0] != 1 || !enough || tooMany || all[len(all)-2] != last || !near(s.Seconds[1], each.Seconds()) {
			t.Errorf("%v: %v, %v, %v", each, all, s, err)
		}
	}
}

func TestTurnsError(t *testing.T) {
	broken := errors.New("broken")
	if _, err := Run(t.Context(), Options{Warmup: 1}, func(int) error { return broken }); err != broken {
		t.Error(err)
	}
	n := 0
	_, err := Turns(t.Context(), Options{Iterations: 5}, func(int) error { n++; return nil }, func(int) error {
		if n == 3 {
			return broken
		}
		return nil
	})
	if err != broken || n != 3 {
		t.Errorf("%d runs, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Run(ctx, Options{Iterations: 5}, func(int) error { cancel(); return nil }); err != context.Canceled {
		t.Error(err)
	}
}

// The work is to sort numbers, in two forms.
func ExampleTurns() {
	numbers := rand.New(rand.NewPCG(1, 2)).Perm(10_000)
	by := func(sort func([]int)) Work {
		return func(times int) error {
			for range times {
				sort(slices.Clone(numbers))
			}
			return nil
		}
	}
	o := Options{Warmup: 2, Iterations: 20, Shortest: time.Millisecond}
	s, err := Turns(context.Background(), o, by(func(x []int) { slices.SortFunc(x, cmp.Compare) }), by(slices.Sort))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(s[0].Seconds), "timings of each,", s[1].Faster(s[0]).Times > 0)
	// Output: 20 timings of each, true
}
