package plot

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var keep = flag.String("pictures", "", "a directory to keep the pictures that the tests draw, to be looked at")

var coordinate = regexp.MustCompile(`(?: x| y|cx|cy|width|height)="([^"]*)"`)

// picture checks what must hold for every picture: it is valid XML, the same every time, without NaN or infinity, and
// everything is inside.
func picture(t *testing.T, name string, draw func() []byte) string {
	t.Helper()
	svg := draw()
	if !bytes.Equal(svg, draw()) {
		t.Error("drawn again, it is another picture")
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v: %s", err, svg)
		}
	}
	text := string(svg)
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Contains(text, "%!") {
		t.Errorf("not a number: %s", text)
	}
	for _, m := range coordinate.FindAllStringSubmatch(text, -1) {
		if v, err := strconv.ParseFloat(m[1], 64); err != nil || v < 0 || v > 4000 {
			t.Errorf("%s in the picture", m[0])
		}
	}
	if *keep != "" {
		if err := os.WriteFile(filepath.Join(*keep, name+".svg"), svg, 0o644); err != nil {
			t.Error(err)
		}
	}
	return text
}

func TestChart(t *testing.T) {
	nan := math.NaN()
	powers := Series{Name: "with the cache", Points: []Point{{32, 900}, {128, 880}, {512, 800}, {4096, 300}}}
	for _, c := range []struct {
		name string
		Chart
		want, not []string
	}{
		{"cache", Chart{Title: "Tokens a second", Subtitle: "on a made-up machine", X: Axis{Label: "tokens", Log: true},
			Y: Axis{Label: "tokens per second", Zero: true}, Series: []Series{powers,
				{Name: "without", Dashed: true, Points: []Point{{32, 700}, {128, 200}, {512, 60}}}}},
			[]string{">32<", ">4096<", ">1000<", ">0<", ">with the cache<", `class="line s1 dashed"`, ">tokens per second<"},
			[]string{">5000<"}},
		{"roofline", Chart{Title: "Roofline", X: Axis{Label: "FLOP per byte", Log: true},
			Y: Axis{Label: "TFLOP/s", Log: true},
			Series: []Series{{Name: "ceiling", Plain: true, Points: []Point{{0.1, 0.001}, {10, 0.1}, {1000, 0.1}}},
				{Name: "fused", Dots: true, Labels: []string{"softmax", "linear", "<b>"},
					Points: []Point{{0.5, 0.004}, {500, 0.09}, {900, 0.08}}}}},
			[]string{">softmax<", ">linear<", "&lt;b&gt;", `class="limit"`, `class="f0"`, ">0.1<", ">100<"}, []string{`"f1"`}},
		{"gaps", Chart{X: Axis{Log: true}, Y: Axis{Log: true}, Series: []Series{
			{Points: []Point{{1, 1}, {0, 5}, {-1, 2}, {2, 0}, {nan, 3}, {3, math.Inf(1)}, {4, 2}}}}}, nil, nil},
		{"nothing", Chart{Title: "a < b \x00</title><script>"}, []string{"a &lt; b"}, []string{"<script"}},
		{"nothing, logarithmic", Chart{X: Axis{Log: true}, Y: Axis{Log: true}}, nil, nil},
		{"one point", Chart{Series: []Series{{Name: "one", Points: []Point{{3, 3}}}}}, []string{`r="4"`}, nil},
		{"one point, logarithmic", Chart{X: Axis{Log: true}, Y: Axis{Log: true},
			Series: []Series{{Name: "one", Points: []Point{{1e-12, 3e20}}}}}, []string{`r="4"`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			svg := picture(t, c.name, c.Chart.SVG)
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
		})
	}
}

// TestLabels checks that labels keep clear of each other, of the dots and of the edges.
func TestLabels(t *testing.T) {
	var s Series
	for i := range 200 {
		s.Points = append(s.Points, Point{float64(i % 17), float64(i % 13)})
		s.Labels = append(s.Labels, fmt.Sprint("label ", i))
	}
	s.Dots = true
	c := Chart{Title: "Crowded", Series: []Series{s}}
	svg := picture(t, "crowded", c.SVG)
	var boxes []box
	for _, m := range regexp.MustCompile(`class="small" x="([\d.]+)" y="([\d.]+)">([^<]*)`).FindAllStringSubmatch(svg,
		-1) {
		x, _ := strconv.ParseFloat(m[1], 64)
		y, _ := strconv.ParseFloat(m[2], 64)
		b := box{x, y - 9, x + 6.3*float64(len(m[3])), y + 1}
		for _, o := range boxes {
			if b.meets(o) {
				t.Errorf("%s is in the way of another label", m[3])
			}
		}
		if b.left < chartLeft || b.right > chartRight {
			t.Errorf("%s leaves the picture", m[3])
		}
		boxes = append(boxes, b)
	}
	if len(boxes) < 10 {
		t.Errorf("%d labels", len(boxes))
	}
}

// TestManySeries checks that each of 24 lines looks different, in the picture and in the legend.
func TestManySeries(t *testing.T) {
	c := Chart{Title: "Crowded", Series: []Series{{Name: "limit", Plain: true, Points: []Point{{1, 1}, {2, 1}}}}}
	for i := range 24 {
		c.Series = append(c.Series, Series{Name: fmt.Sprint("line ", i), Points: []Point{{1, float64(i)}, {2, 3}}})
	}
	svg := picture(t, "many", c.SVG)
	seen := map[[2]int]bool{}
	for i := range c.Series[1:] {
		color, form := c.look(1 + i)
		seen[[2]int{color, form}] = true
	}
	if len(seen) != 24 {
		t.Errorf("24 lines have only %d looks", len(seen))
	}
	for form, want := range map[string]int{`<circle class="f0"`: 2, `h8v8h-8z"/>`: 8 * 3,
		`l5.5 5.5l-5.5 5.5l-5.5-5.5z"/>`: 8 * 3} {
		if got := strings.Count(svg, form); got != want {
			t.Errorf("%d times %s, want %d: two points of each line, and the legend", got, form, want)
		}
	}
}

// TestLogTicks checks that the numbers of a logarithmic axis enclose the values, and are few.
func TestLogTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{32, 4096, "32 64 128 256 512 1024 2048 4096"},
		{128, 128, "128 256 512"},
		{8000, 131072, "4096 8192 16384 32768 65536 131072"},
		{20000, 1 << 21, "20k 50k 100k 200k 500k 1M 2M 5M"},
		{1, 1, "1 2"},
		{0.8, 2.3, "0.5 1 2 5"},
		{1, 1000, "1 2 5 10 20 50 100 200 500 1000"},
		{0.003, 40000, "0.001 0.01 0.1 1 10 100 1000 10k 100k"},
	} {
		at, text := Axis{Log: true}.ticks([]float64{c.low, c.high}, 6)
		if got := strings.Join(text, " "); got != c.want {
			t.Errorf("%g to %g: %s, want %s", c.low, c.high, got, c.want)
		}
		if at[0] > c.low || at[len(at)-1] < c.high {
			t.Errorf("%g to %g: %v", c.low, c.high, at)
		}
	}
}

func TestBars(t *testing.T) {
	b := Bars{Title: "How many times as fast", Subtitle: "fused next to standard", Label: "times as fast", Bars: []Bar{
		{"attention forward", 2.31, 0.02, 0}, {"a norm <w>", 0.8, 0.1, 1}, {"the same", 1, 0.005, 0},
		{"nothing", math.NaN(), 0, 0}, {"huge", 31, math.NaN(), 0},
	}}
	svg := picture(t, "bars", b.SVG)
	for _, s := range []string{">2.31× ±2%<", ">0.8× ±10%<", ">1× ±0.5%<", ">not measured<", ">31×<", "a norm &lt;w&gt;",
		">times as fast<"} {
		if !strings.Contains(svg, s) {
			t.Errorf("%q is not in it", s)
		}
	}
	var rects [][2]float64 // left, width
	for _, m := range regexp.MustCompile(`class="f\d" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"`).FindAllStringSubmatch(svg,
		-1) {
		x, _ := strconv.ParseFloat(m[1], 64)
		w, _ := strconv.ParseFloat(m[2], 64)
		rects = append(rects, [2]float64{x, w})
	}
	// The slow one ends where the fast ones begin.
	if len(rects) != 4 || !(math.Abs(rects[1][0]+rects[1][1]-rects[0][0]) <= 0.11) || rects[3][1] < rects[0][1] {
		t.Errorf("%v", rects)
	}
	picture(t, "no bars", (&Bars{}).SVG)
}

func FuzzChart(f *testing.F) {
	f.Add("a", 1.0, 2.0, 3.0, 4.0, true, false)
	f.Add("<\x00", 1e-300, -1.0, 1e29, 0.0, true, true)
	f.Fuzz(func(t *testing.T, name string, a, b, c, d float64, xLog, yLog bool) {
		if strings.Contains(name, "NaN") || strings.Contains(name, "Inf") || strings.Contains(name, "%!") {
			return // picture treats this as a mistake
		}
		chart := Chart{Title: name, X: Axis{Label: name, Log: xLog}, Y: Axis{Label: name, Log: yLog},
			Series: []Series{{Name: name, Points: []Point{{a, b}, {c, d}}, Labels: []string{name, name}}}}
		picture(t, "fuzz", chart.SVG)
		bars := Bars{Title: name, Bars: []Bar{{name, a, b, 0}, {name, c, d, 1}}}
		_ = bars.SVG()
	})
}
