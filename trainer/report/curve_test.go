package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"restyle/internal/expect"
)

var keepCurves = flag.String("curves", "", "a directory to keep the curves that the test draws, to be looked at")

// run returns a curve that looks like that of a run.
func run(steps, evaluations int) Curve {
	r := rand.New(rand.NewPCG(7, 8))
	c := Curve{Title: "starter on passive_aggressive_data.json"}
	for i := 1; i <= steps; i++ {
		f := float64(i) / float64(steps)
		c.Steps = append(c.Steps, CurveStep{float64(i), 0.8 + 1.6*math.Exp(-4*f) + 0.15*r.NormFloat64(),
			3e-4 * min(1, f/0.03) * (0.5 + 0.5*math.Cos(math.Pi*f))})
	}
	for i := 0; i <= evaluations && evaluations > 0; i++ {
		f := float64(i) / float64(evaluations)
		c.Validation = append(c.Validation, CurvePoint{math.Round(f * float64(steps)), 1 + 1.5*math.Exp(-5*f) + 0.3*f*f})
	}
	return c
}

func with(c Curve, change func(*Curve)) Curve {
	change(&c)
	return c
}

var (
	number   = regexp.MustCompile(`-?\d+(?:\.\d+)?`)
	pathData = regexp.MustCompile(`<path class="([\w ]+)" d="([^"]*)"/>`)
)

// draw draws a curve and checks what must hold for every curve: it is valid XML, the same every time, without NaN or
// infinity, and nothing is far outside.
func draw(t *testing.T, c Curve) string {
	t.Helper()
	var svg, again bytes.Buffer
	if err := LossSVG(&svg, c); err != nil {
		t.Fatal(err)
	}
	LossSVG(&again, c)
	if !bytes.Equal(svg.Bytes(), again.Bytes()) {
		t.Error("drawn again, it is another picture")
	}
	text := svg.String()
	for d := xml.NewDecoder(&svg); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err, text)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Contains(text, "%!") {
		t.Errorf("not a number: %s", text)
	}
	for _, m := range pathData.FindAllStringSubmatch(text, -1) {
		for _, s := range number.FindAllString(m[2], -1) {
			if v, err := strconv.ParseFloat(s, 64); err != nil || v < -10 || v > pictureWidth {
				t.Errorf("%s has a coordinate %s", m[1], s)
			}
		}
	}
	return text
}

// points counts the points of the lines of a class.
func points(svg, class string) (n int) {
	for _, m := range pathData.FindAllStringSubmatch(svg, -1) {
		if m[1] == class {
			n += strings.Count(m[2], "M") + strings.Count(m[2], "L")
		}
	}
	return n
}

func TestLossSVG(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		name string
		Curve
		want []string
		not  []string
	}{
		{"usual", run(405, 9), []string{"405 steps", "best validation loss 1.186 at step 225", ">best 1.186<", ">each step<",
			">400<", ">1.5<", "e-4<"}, nil},
		{"one step", run(1, 0), []string{"1 step, training loss", ">training<", `<circle class="point"`},
			[]string{">validation<", "smoothed"}},
		{"three steps", run(3, 3), []string{"3 steps", ">2<", ">3<"}, []string{">0.5</text><text class=\"x\"", "smoothed"}},
		{"long", run(100_000, 50), []string{"100000 steps", ">20k<", "at step 60k"}, nil},
		{"tokens", with(run(300, 3), func(c *Curve) {
			c.XLabel = "tokens"
			for i := range c.Steps {
				c.Steps[i].X *= 27_000
			}
			c.Validation = nil
		}), []string{">tokens<", ">2M<", ">8M<"}, nil},
		{"gaps", with(run(400, 0), func(c *Curve) {
			for i := range c.Steps {
				if i%37 == 0 || i > 200 && i < 220 {
					c.Steps[i].Loss = []float64{math.NaN(), inf, -inf}[i%3]
				}
			}
		}), []string{"without a finite loss"}, nil},
		{"a spike", with(run(1000, 10), func(c *Curve) { c.Steps[333].Loss = 812 }), []string{"spikes up to 812"}, nil},
		{"a huge spike", with(run(1000, 0), func(c *Curve) { c.Steps[333].Loss = 1e29 }), []string{"spikes up to 1e+29"},
			nil},
		{"far from zero", with(run(100, 0), func(c *Curve) {
			for i := range c.Steps {
				c.Steps[i].Loss += 1e6
			}
		}), nil, nil},
		{"constant", Curve{Steps: []CurveStep{{1, 2, 1e-5}, {2, 2, 1e-5}, {3, 2, 1e-5}}}, []string{">1e-5<"}, nil},
		{"zero", Curve{Steps: []CurveStep{{0, 0, 0}, {0, 0, 0}}}, nil, []string{"e0<"}},
		{"negative", Curve{Steps: []CurveStep{{-5, -3, -1}, {-4, -8, -1}}}, nil, nil},
		{"nothing but gaps", Curve{Steps: []CurveStep{{math.NaN(), 1, 1}, {1, math.NaN(), math.NaN()}},
			Validation: []CurvePoint{{1, inf}}}, []string{"nothing to show yet"}, nil},
		{"only validation", Curve{Validation: []CurvePoint{{0, 3}}}, []string{"best validation loss 3 at step 0"},
			[]string{">training"}},
		{"nothing", Curve{Title: "a < b & \"c\" \x00\xff</title><script>"}, []string{"nothing to show yet", "a &lt; b &amp;"},
			[]string{"<script"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			svg := draw(t, c.Curve)
			for _, s := range c.want {
				if !strings.Contains(svg, s) {
					t.Errorf("%q is not in it", s)
				}
			}
			for _, s := range c.not {
				if strings.Contains(svg, s) {
					t.Errorf("%q is in it", s)
				}
			}
			if *keepCurves != "" {
				writeFile(t, filepath.Join(*keepCurves, strings.ReplaceAll(c.name, " ", "_")+".svg"), svg)
			}
		})
	}
}

// TestLossSVGLong checks that the drawing of a long run is small, and shows the one step that differs.
func TestLossSVGLong(t *testing.T) {
	c := run(100_000, 1000)
	c.Steps[77_777].Loss = 3.2
	svg := draw(t, c)
	if n := points(svg, "step"); n < 900 || n > 2*columns+1 { // one is in the legend
		t.Errorf("%d points", n)
	}
	if len(svg) > 100<<10 {
		t.Errorf("%d bytes", len(svg))
	}
	losses := make([]CurvePoint, len(c.Steps))
	for i, s := range c.Steps {
		losses[i] = CurvePoint{s.X, s.Loss}
	}
	low, high, _ := span(heights(losses))
	thinLow, thinHigh, _ := span(heights(thin(losses, columns)))
	if low != thinLow || high != thinHigh || high != 3.2 {
		t.Error("an extreme is gone:", low, high, thinLow, thinHigh)
	}
}

// TestSmooth compares the smoothed line with the sum that defines it.
func TestSmooth(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, n := range []int{0, 1, 2, 3, 17, 100} {
		points := make([]CurvePoint, n)
		for i := range points {
			points[i] = CurvePoint{float64(i), r.NormFloat64()}
			if r.IntN(5) == 0 {
				points[i].Loss = math.NaN()
			}
		}
		const tau = 2.5
		got := smooth(points, tau)
		for i := range points {
			var sum, weight float64
			for j, p := range points {
				if shown(p.Loss) {
					w := math.Exp(-math.Abs(float64(i-j)) / tau)
					sum, weight = sum+w*p.Loss, weight+w
				}
			}
			// Both add at most 100 numbers near 1 in 64 bits; their different orders change the sum by some 1e-14.
			if want := sum / weight; shown(points[i].Loss) && !(math.Abs(got[i].Loss-want) < 1e-12) {
				t.Errorf("%d points: point %d is %g, want %g", n, i, got[i].Loss, want)
			}
			if !shown(points[i].Loss) && shown(got[i].Loss) {
				t.Error("a gap is closed")
			}
		}
	}
}

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
		at, step := ticks(c.low, c.high, c.n, c.least)
		var got []string
		for _, v := range at {
			got = append(got, fixed(v, step))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("ticks(%g, %g): %s, want %s", c.low, c.high, got, c.want)
		}
	}
	for _, c := range []struct{ got, want string }{
		{power(0), "0"}, {power(2e-5), "2e-5"}, {power(3e-4 * 0.5), "1.5e-4"}, {power(0.1 + 0.2), "3e-1"}, {power(1), "1e0"},
		{fixed(1.5e6, 2e5), "1.5M"}, {fixed(2e9, 1e9), "2G"}, {fixed(999999, 1), "999999"},
		{short(0), "0"}, {short(250), "250"}, {short(9999), "9999"}, {short(20000), "20k"}, {short(1.5e6), "1.5M"},
		{short(2e9), "2G"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	r := rand.New(rand.NewPCG(11, 12))
	for range 10_000 { // a handful of ascending ticks enclose any range
		low := r.NormFloat64() * math.Pow(10, float64(r.IntN(30)-15))
		high := low + math.Abs(r.NormFloat64())*math.Pow(10, float64(r.IntN(30)-15))
		at, step := ticks(low, high, 6, 0)
		last := at[len(at)-1]
		if len(at) < 2 || len(at) > 25 || at[0] > low+step*1e-6 || last < high-step*1e-6 {
			t.Fatalf("ticks(%g, %g): %v", low, high, at)
		}
	}
}

// TestLine checks that a line breaks at its gaps.
func TestLine(t *testing.T) {
	p := panel{0, 10, 0, 10, 0, 100}
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
		var points []CurvePoint
		for i, v := range c.losses {
			points = append(points, CurvePoint{float64(i), v})
		}
		var d drawing
		d.line("a", p, points)
		if got := d.String(); c.want == "" && got != "" || c.want != "" && got != `<path class="a" d="`+c.want+"\"/>\n" {
			t.Errorf("%v: %s", c.losses, got)
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestLossSVGError(t *testing.T) {
	expect.Error(t, LossSVG(brokenWriter{}, run(3, 3)), "the disk is full")
}

func FuzzLossSVG(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), uint8(2), "title", "step")
	f.Add(bytes.Repeat([]byte{0xff, 0xf0, 0x7f, 0}, 100), uint8(3), "", "\x00")
	f.Fuzz(func(t *testing.T, data []byte, scale uint8, title, label string) {
		c := Curve{Title: title, XLabel: label}
		for i := 0; i+3 <= len(data); i += 3 {
			v := func(b byte) float64 {
				switch b {
				case 255:
					return math.NaN()
				case 254:
					return math.Inf(1)
				}
				return (float64(b) - 100) * math.Pow(10, float64(scale%80)-40)
			}
			c.Steps = append(c.Steps, CurveStep{v(data[i]), v(data[i+1]), v(data[i+2])})
			c.Validation = append(c.Validation, CurvePoint{v(data[i+1]), v(data[i])})
		}
		if strings.Contains(fmt.Sprint(title, label), "NaN") || strings.Contains(title+label, "Inf") ||
			strings.Contains(title+label, "%!") {
			return // draw treats this as a mistake
		}
		draw(t, c)
	})
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}
