package report

import (
	"fmt"
	"math"
	"testing"
)

// TestLogTicks compares the ticks with their rule: of the densest list of digits that needs at most nine, the numbers
// from the last one that is at most low to the first one that is at least high.
func TestLogTicks(t *testing.T) {
	lists := [][]float64{{1, 1.5, 2, 3, 4, 5, 6, 8}, {1, 2, 3, 5}, {1, 2, 5}, {1, 3}, {1}}
	for _, low := range []float64{0.01, 0.014, 0.05, 0.099, 0.1, 0.15, 0.3, 0.9, 1, 1.2, 1.5, 2.5, 7, 8, 9.9} {
		for _, times := range []float64{6.1, 8, 10, 15, 30, 50, 100, 400, 1e3, 1e5} {
			high := low * times
			var want []float64
			for _, digits := range lists {
				want = nil
				for e := -4.0; e < 9; e++ {
					for _, d := range digits {
						v := d * math.Pow(10, e)
						if len(want) > 0 && want[len(want)-1] >= high {
							continue
						}
						if v <= low*(1+1e-9) {
							want = nil
						}
						want = append(want, v)
					}
				}
				if len(want) <= 9 {
					break
				}
			}
			if got := logTicks(low, high); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v to %v: %v, want %v", low, high, got, want)
			}
		}
	}
}

// TestLossRange has losses on both sides of each rule: a spike in twenty steps or more, the axis that starts at zero.
func TestLossRange(t *testing.T) {
	steps := func(n int, v float64, more ...float64) []float64 {
		for range n {
			more = append(more, v)
		}
		return more
	}
	nan := math.NaN()
	for i, c := range []struct {
		steps, validation []float64
		low, high         float64
	}{
		{nil, nil, 0, 1}, {[]float64{nan}, []float64{nan}, 0, 1}, {[]float64{2, 5}, nil, 2, 5}, {[]float64{2, 5.1},
			nil, 0, 5.1},
		{[]float64{0, 5}, nil, 0, 5}, {[]float64{-1, 5}, nil, -1, 5}, {[]float64{3}, []float64{9, nan}, 0, 9},
		{steps(17, 2, 1, 100), nil, 0, 100},            // a spike in 19 steps
		{steps(18, 2, 1, 100), nil, 0, 100},            // one of 20 is more than a hundredth
		{steps(98, 2, 1, 100), nil, 1, 2.5},            // one of 100
		{steps(98, 2, 1, 6), nil, 0, 6},                // five times the usual range
		{steps(98, 2, 1, 6.5), nil, 1, 2.5},            // more than that
		{steps(98, 2, 1, 100), []float64{12}, 0, 17.5}, // the validation loss stays
		{steps(98, 2, 1, 100), []float64{nan}, 1, 2.5}, // unless it is not known
		{steps(99, 2, 100), nil, 0, 100},               // without a usual range
		{steps(98, 2, 1, 100, nan, nan), nil, 1, 2.5},  // what is not known does not count
		{steps(197, 2, 1, 100, 90), nil, 1, 2.5},       // two of 200
		{steps(196, 2, 1, 100, 90, 80), nil, 0, 100},   // three of 200
	} {
		low, high := lossRange(c.steps, c.validation)
		if low != c.low || high != c.high {
			t.Errorf("case %d: %v to %v, want %v to %v", i, low, high, c.low, c.high)
		}
	}
}

// TestSummary words runs of every kind.
func TestSummary(t *testing.T) {
	points := func(y ...float64) (all []CurvePoint) {
		for i, v := range y {
			all = append(all, CurvePoint{X: float64(i + 1), Y: v})
		}
		return all
	}
	nan := math.NaN()
	fall := make([]float64, 40)
	for i := range fall {
		fall[i] = float64(40 - i)
	}
	for want, c := range map[string][2][]CurvePoint{
		"nothing to show yet":                                       {nil, nil},
		"1 step, training loss 3":                                   {points(3), nil},
		"1 step, training loss 3, 1 without a finite loss":          {points(nan, 3), nil},
		"2 steps, training loss 3 to 2":                             {points(3, 2), nil},
		"4 steps, training loss 3 to 2, 2 without a finite loss":    {points(3, nan, nan, 2), nil},
		"40 steps, training loss 38.5 to 2.5":                       {points(fall...), nil},
		"best validation loss 1 at step 2":                          {nil, points(2, 1, 1, 3)},
		"1 step, training loss 3; best validation loss 2 at step 1": {points(3), points(2)},
	} {
		if got := summary("step", c[0], c[1]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestCurveCSVOfOddRuns writes losses that are not finite, and evaluations before, at, between and after the steps.
func TestCurveCSVOfOddRuns(t *testing.T) {
	inf := math.Inf(1)
	c := Curve{Steps: []CurveStep{{X: 2, Loss: inf, Rate: 1}, {X: 4, Loss: math.NaN(), Rate: -inf},
		{X: 5, Loss: 0, Rate: 0}},
		Validation: []CurvePoint{{X: 0, Y: 9}, {X: 1, Y: 8}, {X: 2, Y: inf}, {X: 3, Y: 7}, {X: 5, Y: 6}, {X: 6, Y: 5},
			{X: 7, Y: math.NaN()}}}
	const want = "step,train_loss,val_loss,lr\n0,,9,\n1,,8,\n2,,,1\n3,,7,\n4,,,\n5,0,6,0\n6,,5,\n7,,,\n"
	if got := string(c.CSV()); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	if got := string(Curve{Steps: []CurveStep{{X: 1, Loss: 2,
		Rate: 3}}}.CSV()); got != "step,train_loss,val_loss,lr\n1,2,,3\n" {
		t.Errorf("without an evaluation: %q", got)
	}
}
