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
	"restyle/internal/plot"
)

var keepCurves = flag.String("curves", "", "a directory to keep the curves that the test draws, to be looked at")

// run returns a curve that looks like a run's.
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
		c.Validation = append(c.Validation, CurvePoint{X: math.Round(f * float64(steps)), Y: 1 + 1.5*math.Exp(-5*f) +
			0.3*f*f})
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
	expect.OK(t, LossSVG(&svg, c))
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
			">400<", ">1.5<", "e-4<", "<style>", `<text class="title" x="24" y="38">`, `<rect x="0.5" y="0.5"`, `class="rate"`,
			`class="dot"`, fmt.Sprintf(`<rect x="%d" y="%d" width="%d" height="%d"/></clip`, plotLeft-6, lossTop-6,
				plotRight-plotLeft+12, lossBottom-lossTop+12), fmt.Sprintf(`<text class="y" x="%d"`, plotLeft-10)}, nil},
		{"as few as are smoothed", run(fewSteps, 0), []string{">each step<", "smoothed", `class="step"`},
			[]string{">training<"}},
		{"too few", run(fewSteps-1, 0), []string{">training<", `class="point"`}, []string{">each step<", "smoothed"}},
		{"a resumed run", with(run(50, 0), func(c *Curve) {
			for i := range c.Steps {
				c.Steps[i].X += 1000
			}
		}), []string{">1020<", ">1040<"}, []string{">500<"}},
		{"a run from the first half on", with(run(50, 0), func(c *Curve) {
			for i := range c.Steps {
				c.Steps[i].X += 40
			}
		}), []string{">20<", ">80<"}, nil},
		{"one step far on", with(run(1, 0), func(c *Curve) { c.Steps[0].X = 500 }), []string{">100<", ">500<"}, nil},
		{"one step", run(1, 0), []string{"1 step, training loss", ">training<", `<circle class="point"`},
			[]string{">validation<", "smoothed"}},
		{"far down", with(run(400, 10), func(c *Curve) {
			for i := range c.Steps {
				c.Steps[i].Loss = 10 * math.Pow(0.7, float64(i)/30)
			}
			for i := range c.Validation {
				c.Validation[i].Y = 10 * math.Pow(0.7, c.Validation[i].X/30)
			}
		}), []string{"loss (log)", ">10<", ">1<", ">0.1<"}, []string{">7<", ">0.0<"}},
		{"down to zero", with(run(400, 10), func(c *Curve) {
			for i := range c.Steps {
				c.Steps[i].Loss = 11 * math.Pow(0.7, float64(i)/10)
			}
			c.Steps[399].Loss, c.Validation[10].Y = 0, 0.9
		}), []string{"loss (log)", ">0.001<"}, nil},
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
			Validation: []CurvePoint{{X: 1, Y: inf}}}, []string{"nothing to show yet"}, nil},
		{"only validation", Curve{Validation: []CurvePoint{{X: 0, Y: 3}}}, []string{"best validation loss 3 at step 0"},
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
		losses[i] = CurvePoint{X: s.X, Y: s.Loss}
	}
	low, high, _ := plot.Span(heights(losses))
	thinLow, thinHigh, _ := plot.Span(heights(plot.Thin(losses, columns)))
	if low != thinLow || high != thinHigh || high != 3.2 {
		t.Error("an extreme is gone:", low, high, thinLow, thinHigh)
	}
}

// TestLossSVGLegend checks that a long title has a line to itself, and that the legend's entries keep clear of each
// other.
func TestLossSVGLegend(t *testing.T) {
	c := run(100, 3)
	c.Title = strings.Repeat("long ", 12)
	texts := map[string]float64{}
	for _, m := range regexp.MustCompile(`<text[^>]* x="(\d+)" y="(38|92)">([^<]*)`).FindAllStringSubmatch(draw(t, c),
		-1) {
		if m[2] == "38" && m[3] != c.Title {
			t.Errorf("%q is beside the title", m[3])
		}
		texts[m[3]], _ = strconv.ParseFloat(m[1], 64)
	}
	end := 0.0
	for _, name := range []string{"loss", "each step", "training, smoothed", "validation"} {
		x, ok := texts[name]
		if !ok || x < end {
			t.Errorf("%q begins at %g, and the text to its left ends at %g", name, x, end)
		}
		end = x + plot.TextWidth(name) + 24 // the line of the next one
	}
}

// TestLossSVGSpike checks that it does not matter to the smoothed line how far a spike leaves the picture.
func TestLossSVGSpike(t *testing.T) {
	lines := map[string]bool{}
	for _, spike := range []float64{60, 812, 1e29} {
		c := run(1000, 0)
		c.Steps[333].Loss = spike
		for _, m := range pathData.FindAllStringSubmatch(draw(t, c), -1) {
			if m[1] == "smooth" && strings.Contains(m[2], "L") {
				lines[m[2]] = true
			}
		}
	}
	if len(lines) != 1 {
		t.Errorf("%d different lines", len(lines))
	}
}

// TestSmooth_AgainstSum compares the smoothed line with the sum that defines it.
func TestSmooth_AgainstSum(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, n := range []int{0, 1, 2, 3, 17, 100} {
		points := make([]CurvePoint, n)
		for i := range points {
			points[i] = CurvePoint{X: float64(i), Y: r.NormFloat64()}
			if r.IntN(5) == 0 {
				points[i].Y = math.NaN()
			}
		}
		const tau = 2.5
		got := smooth(points, tau)
		for i := range points {
			var sum, weight float64
			for j, p := range points {
				if plot.Shown(p.Y) {
					w := math.Exp(-math.Abs(float64(i-j)) / tau)
					sum, weight = sum+w*p.Y, weight+w
				}
			}
			// Both add at most 100 numbers near 1 in 64 bits; their different orders change the sum by some 1e-14.
			if want := sum / weight; plot.Shown(points[i].Y) && !(math.Abs(got[i].Y-want) < 1e-12) {
				t.Errorf("%d points: point %d is %g, want %g", n, i, got[i].Y, want)
			}
			if !plot.Shown(points[i].Y) && plot.Shown(got[i].Y) {
				t.Error("a gap is closed")
			}
		}
	}
}

func TestCurveCSV(t *testing.T) {
	nan := math.NaN()
	c := Curve{Steps: []CurveStep{{1, 2.5, 1e-5}, {2, nan, 2e-5}, {3, 2, 0}},
		Validation: []CurvePoint{{X: 0, Y: 3}, {X: 2, Y: 2.25}, {X: 3, Y: nan}, {X: 9, Y: 1}}}
	const want = "step,train_loss,val_loss,lr\n0,,3,\n1,2.5,,1e-05\n2,,2.25,2e-05\n3,2,,0\n9,,1,\n"
	if got := string(c.CSV()); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := string(Curve{}.CSV()); got != want[:strings.Index(want, "\n")+1] {
		t.Errorf("%q", got)
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
			c.Validation = append(c.Validation, CurvePoint{X: v(data[i+1]), Y: v(data[i])})
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

// TestLossSVG_ZeroOnALogarithm draws a loss that falls so far that its axis is logarithmic, with a step whose loss is
// 0: the step is a gap, like a step whose loss is not a number.
func TestLossSVG_ZeroOnALogarithm(t *testing.T) {
	for _, loss := range []float64{0, -1, math.NaN()} {
		c := run(200, 0)
		for i := range c.Steps {
			c.Steps[i].Loss = 100 * math.Exp(-float64(i)/20)
		}
		whole := strings.Count(draw(t, c), "M")
		c.Steps[100].Loss = loss
		svg := draw(t, c)
		if strings.Contains(svg, "Inf") || strings.Contains(svg, "NaN") || strings.Count(svg, "M") <= whole {
			t.Errorf("a loss of %v is no gap", loss)
		}
	}
}
