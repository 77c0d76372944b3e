package plot

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		n         int
		least     float64
		want      string
	}{
		{0, 1, 6, 0, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{0, 3, 8, 1, "0 1 2 3"},
		{0.31, 2.4, 6, 0, "0.0 0.5 1.0 1.5 2.0 2.5"},
		{0, 405, 8, 1, "0 100 200 300 400 500"},
		{2, 2, 6, 0, "1.90 1.95 2.00 2.05 2.10"},
		{-8, -3, 6, 0, "-8 -7 -6 -5 -4 -3"},
		{1e6, 1e6 + 1, 6, 0, "1000000.0 1000000.2 1000000.4 1000000.6 1000000.8 1000001.0"},
	} {
		at, step := Ticks(c.low, c.high, c.n, c.least)
		var got []string
		for _, v := range at {
			got = append(got, Fixed(v, step))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("Ticks(%g, %g): %s, want %s", c.low, c.high, got, c.want)
		}
	}
	for _, c := range []struct{ got, want string }{
		{Power(0), "0"}, {Power(2e-5), "2e-5"}, {Power(3e-4 * 0.5), "1.5e-4"}, {Power(0.1 + 0.2), "3e-1"}, {Power(1), "1e0"},
		{Fixed(1.5e6, 2e5), "1.5M"}, {Fixed(2e9, 1e9), "2G"}, {Fixed(999999, 1), "999999"},
		{Short(0), "0"}, {Short(250), "250"}, {Short(9999), "9999"}, {Short(20000), "20k"}, {Short(1.5e6), "1.5M"},
		{Short(2e9), "2G"},
		{Digits(0.12345, 3), "0.123"}, {Digits(12, 3), "12"}, {Digits(999.7, 3), "1000"}, {Digits(4278.6, 3), "4279"},
		{Digits(-120.4, 2), "-120"}, {Digits(1e-7, 3), "1e-07"}, {Digits(1e20, 3), "1e+20"}, {Digits(math.NaN(), 3), "NaN"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	r := rand.New(rand.NewPCG(11, 12))
	for range 10_000 { // a handful of ascending ticks enclose any range
		low := r.NormFloat64() * math.Pow(10, float64(r.IntN(30)-15))
		high := low + math.Abs(r.NormFloat64())*math.Pow(10, float64(r.IntN(30)-15))
		at, step := Ticks(low, high, 6, 0)
		last := at[len(at)-1]
		if len(at) < 2 || len(at) > 25 || at[0] > low+step*1e-6 || last < high-step*1e-6 {
			t.Fatalf("Ticks(%g, %g): %v", low, high, at)
		}
	}
}

// TestLine checks that a line breaks at its gaps.
func TestLine(t *testing.T) {
	p := Panel{Left: 72, Right: 932, Bottom: 100, XHigh: 10, YHigh: 10}
	nan := math.NaN()
	for _, c := range []struct {
		losses []float64
		want   string
	}{
		{[]float64{0, 10}, "M72.0 100.0L158.0 0.0"},
		{[]float64{0, nan, 10}, "M72.0 100.0h0M244.0 0.0h0"},
		{[]float64{nan, 0, 10, math.Inf(1), nan, 0, 10, nan}, "M158.0 100.0L244.0 0.0M502.0 100.0L588.0 0.0"},
		{[]float64{nan}, ""},
		{nil, ""},
	} {
		var points []Point
		for i, v := range c.losses {
			points = append(points, Point{float64(i), v})
		}
		var d Drawing
		d.Line("a", p, points)
		if got := d.String(); c.want == "" && got != "" || c.want != "" && got != `<path class="a" d="`+c.want+"\"/>\n" {
			t.Errorf("%v: %s", c.losses, got)
		}
	}
}

// TestShortSeriesKeepsItsGaps checks that a series that is short enough is not thinned.
func TestShortSeriesKeepsItsGaps(t *testing.T) {
	points := []Point{{Y: 1}, {Y: math.NaN()}, {Y: 2}, {Y: 3}}
	if got := Thin(points, 2); len(got) != 4 {
		t.Error(got)
	}
	if got := Thin(points, 1); len(got) != 2 {
		t.Error(got)
	}
}
