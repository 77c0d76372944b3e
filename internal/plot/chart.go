package plot

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// A Chart has lines or dots over a common pair of axes.
type Chart struct {
	Title, Subtitle string
	X, Y            Axis
	Series          []Series
}

// An Axis has a label with its unit, and is logarithmic if Log is set: then values that are not positive are not shown.
type Axis struct {
	Label string
	Log   bool
	Zero  bool // the axis starts at zero; not for Log
}

// A Series is a line through points, or only the points.
type Series struct {
	Name   string
	Points []Point
	Labels []string // of points, if not nil; a label that has no room is left out
	Dots   bool     // points without a line between them
	Dashed bool
	Plain  bool // a limit: gray, without points
}

// Sizes in pixels.
const (
	width        = 960
	chartLeft    = 84
	chartRight   = width - 28
	chartHeight  = 360  // of the panel
	em           = 7.7  // roughly the width of a character, in a wide font
	lineHeight   = 22.0 // of the legend
	headBaseline = 38.0
)

// colors of series: on white, and on black.
var colors = [][2]string{
	{"#1864ab", "#74b3f0"}, {"#d9480f", "#ff9b6b"}, {"#2b8a3e", "#69c97f"}, {"#862e9c", "#d08be3"},
	{"#0b7285", "#5fc8d9"}, {"#a61e4d", "#f48fb1"}, {"#5f3dc4", "#a594f9"}, {"#846100", "#e3c04d"},
}

// style returns the style sheet that all pictures of Chart and Bars have: several in one page do not disturb each
// other.
func style() string {
	s := `.plot text{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#57606a}
.plot .title{font-size:19px;font-weight:600;fill:#1f2328}.plot .name{font-weight:600;fill:#424a53}
.plot .x{text-anchor:middle}.plot .end{text-anchor:end}.plot .small{font-size:11.5px}
.plot .frame{fill:#fff;stroke:#d0d7de}.plot .grid{stroke:#e4e7eb;fill:none}.plot .axis{stroke:#8c959f;fill:none}
.plot .limit{stroke:#8c959f;stroke-width:2;fill:none;stroke-dasharray:2 4}.plot .noise{stroke:#1f2328;stroke-width:1.5}
.plot .line{fill:none;stroke-width:2.25;stroke-linejoin:round;stroke-linecap:round}.plot .dashed{stroke-dasharray:7 5}
`
	dark := `.plot text{fill:#9198a1}.plot .title{fill:#f0f6fc}.plot .name{fill:#c9d1d9}
.plot .frame{fill:#0d1117;stroke:#30363d}
.plot .grid{stroke:#21262d}.plot .axis,.plot .limit{stroke:#6e7681}.plot .noise{stroke:#f0f6fc}
`
	for i, c := range colors {
		s += fmt.Sprintf(".plot .s%d{stroke:%s}.plot .f%[1]d{fill:%[2]s}\n", i, c[0])
		dark += fmt.Sprintf(".plot .s%d{stroke:%s}.plot .f%[1]d{fill:%[2]s}\n", i, c[1])
	}
	return s + "@media (prefers-color-scheme:dark){" + dark + "}"
}

// TextWidth returns about how wide a text is in the size of names and numbers, in pixels. Browsers have other fonts on
// every system, so it is the width in a wide one.
func TextWidth(text string) float64 { return em * float64(utf8.RuneCountInString(text)) }

// begin opens a picture with its title.
func (d *Drawing) begin(height float64, title, subtitle string) {
	d.Add(`<svg class="plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" width="%[1]d" height="%.0[2]f" `+
		`role="img">`, width, height)
	d.Add("<title>%s</title>", Escape(title))
	d.Add("<style>%s</style>", style())
	d.Add(`<rect class="frame" x="0.5" y="0.5" width="%d" height="%.0f" rx="8"/>`, width-1, height-1)
	d.Add(`<text class="title" x="24" y="%.0f">%s</text>`, headBaseline, Escape(title))
	if subtitle != "" {
		d.Add(`<text x="24" y="62">%s</text>`, Escape(subtitle))
	}
}

// usable returns a series' points without those that have no place on the axes: they become gaps.
func (c *Chart) usable(s Series) []Point {
	points := slices.Clone(s.Points)
	for i, p := range points {
		if !Shown(p.X) || !Shown(p.Y) || c.X.Log && p.X < 1/tooLarge || c.Y.Log && p.Y < 1/tooLarge {
			points[i].Y = math.NaN()
		}
	}
	return points
}

// SVG draws the chart.
func (c *Chart) SVG() []byte {
	var d Drawing
	legend := c.legend()
	top := 84 + lineHeight*float64(len(legend)) + 26
	p := Panel{Left: chartLeft, Right: chartRight, Top: top, Bottom: top + chartHeight, XLog: c.X.Log, YLog: c.Y.Log}
	d.begin(p.Bottom+64, c.Title, c.Subtitle)
	for i, line := range legend {
		y := 84 + lineHeight*float64(i)
		for _, entry := range line {
			c.swatch(&d, entry.series, entry.x, y)
			d.Add(`<text x="%.0f" y="%.0f">%s</text>`, entry.x+30, y+4.5, Escape(c.Series[entry.series].Name))
		}
	}
	var xs, ys []float64
	for _, s := range c.Series {
		for _, q := range c.usable(s) {
			if Shown(q.Y) {
				xs, ys = append(xs, q.X), append(ys, q.Y)
			}
		}
	}
	d.axes(&p, c.X, c.Y, xs, ys)
	var taken []box
	for i, s := range c.Series {
		color, form := c.look(i)
		points, class := c.usable(s), fmt.Sprintf("line s%d", color)
		if s.Dashed {
			class += " dashed"
		}
		if s.Plain {
			class = "limit"
		}
		if !s.Dots {
			d.Line(class, p, Thin(points, 500))
		}
		if !s.Plain && (s.Dots || len(points) <= 40) {
			for _, q := range points {
				if Shown(q.Y) {
					d.mark(form, color, p.X(q.X), p.Y(q.Y))
					taken = append(taken, box{p.X(q.X) - 4, p.Y(q.Y) - 4, p.X(q.X) + 4, p.Y(q.Y) + 4})
				}
			}
		}
	}
	for _, s := range c.Series {
		for i, q := range c.usable(s) {
			if i < len(s.Labels) && s.Labels[i] != "" && Shown(q.Y) {
				taken = d.label(p, taken, p.X(q.X), p.Y(q.Y), s.Labels[i])
			}
		}
	}
	d.Add("</svg>")
	return d.Bytes()
}

// look returns the color of a series, and the form of its points: circles, and if there are more series than colors,
// squares and then diamonds. Limits have neither, so they do not use any up.
func (c *Chart) look(series int) (color, form int) {
	n := 0
	for _, s := range c.Series[:series] {
		if !s.Plain {
			n++
		}
	}
	return n % len(colors), n / len(colors) % 3
}

// mark draws a point in one of the three forms.
func (d *Drawing) mark(form, color int, x, y float64) {
	switch form {
	case 0:
		d.Add(`<circle class="f%d" r="4" cx="%.1f" cy="%.1f"/>`, color, x, y)
	case 1:
		d.Add(`<path class="f%d" d="M%.1f %.1fh8v8h-8z"/>`, color, x-4, y-4)
	default:
		d.Add(`<path class="f%d" d="M%.1f %.1fl5.5 5.5l-5.5 5.5l-5.5-5.5z"/>`, color, x, y-5.5)
	}
}

// An entry of the legend.
type entry struct {
	series int
	x      float64
}

// legend lays the names of the series out in lines.
func (c *Chart) legend() (lines [][]entry) {
	x := float64(width)
	for i, s := range c.Series {
		if s.Name == "" {
			continue
		}
		wide := 30 + TextWidth(s.Name) + 24
		if x+wide > chartRight {
			lines, x = append(lines, nil), 24
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], entry{i, x})
		x += wide
	}
	return lines
}

// swatch draws what an entry of the legend stands for.
func (c *Chart) swatch(d *Drawing, series int, x, y float64) {
	s := c.Series[series]
	color, form := c.look(series)
	class := fmt.Sprintf("line s%d", color)
	switch {
	case s.Dots:
		d.mark(form, color, x+11, y)
		return
	case s.Plain:
		class = "limit"
	case s.Dashed:
		class += " dashed"
	}
	d.Add(`<path class="%s" d="M%.0f %.0fh22"/>`, class, x, y)
	if form > 0 && !s.Plain {
		d.mark(form, color, x+11, y)
	}
}

// axes chooses the panel's range for values, and draws the grid with its numbers.
func (d *Drawing) axes(p *Panel, x, y Axis, xs, ys []float64) {
	xAt, xText := x.ticks(xs, 10)
	yAt, yText := y.ticks(ys, 6)
	p.XLow = xAt[0]
	p.XHigh = xAt[len(xAt)-1]
	p.YLow = yAt[0]
	p.YHigh = yAt[len(yAt)-1]
	if low, high, ok := Span(xs); ok && low < high && !x.Zero { // the line fills the width
		p.XLow, p.XHigh = low, high
		if x.Log {
			p.XLow, p.XHigh = low/1.15, high*1.15
		}
	}
	last := math.Inf(-1)
	for i, v := range xAt {
		if v < p.XLow || v > p.XHigh {
			continue
		}
		at := p.X(v)
		d.Add(`<path class="grid" d="M%.1f %.1fV%.1f"/>`, at, p.Top, p.Bottom)
		if half := em * float64(len(xText[i])) / 2; at-half > last+8 {
			d.Add(`<text class="x" x="%.1f" y="%.1f">%s</text>`, at, p.Bottom+20, xText[i])
			last = at + half
		}
	}
	for i, v := range yAt {
		d.Add(`<path class="grid" d="M%.1f %.1fH%.1f"/><text class="end" x="%.1f" y="%.1f">%s</text>`, p.Left, p.Y(v),
			p.Right,
			p.Left-10, p.Y(v)+4.5, yText[i])
	}
	d.Add(`<path class="axis" d="M%.1f %.1fH%.1f"/>`, p.Left, p.Bottom, p.Right)
	d.Add(`<text class="name" x="24" y="%.1f">%s</text>`, p.Top-14, Escape(y.Label))
	d.Add(`<text class="name x" x="%.1f" y="%.1f">%s</text>`, (p.Left+p.Right)/2, p.Bottom+44, Escape(x.Label))
}

// ticks returns the numbers of an axis that enclose the values, and their texts.
func (a Axis) ticks(values []float64, n int) (at []float64, text []string) {
	low, high, ok := Span(values)
	switch {
	case !ok && a.Log:
		low, high = 1, 10
	case !ok:
		low, high = 0, 1
	case a.Zero:
		low = min(0, low)
	}
	if !a.Log {
		at, step := Ticks(low, high, n, 0)
		for i, v := range at {
			if math.Abs(v) < step/1e6 {
				at[i] = 0
			}
			text = append(text, Fixed(at[i], step))
		}
		return at, text
	}
	// Steps of 2 if that gives few and short numbers, as for 32, 64 … 4096; otherwise 1, 2, 5, 10; otherwise powers of
	// ten.
	octaves, first := math.Log2(high/low), math.Floor(math.Log2(low)+1e-9)
	if octaves <= 12 && low >= 8 && high <= 1<<17 {
		for e := first; e < math.Log2(high)-1e-9 || len(at) < 2; e++ {
			at = append(at, math.Exp2(e))
		}
		at = append(at, math.Exp2(first+float64(len(at))))
	} else {
		steps := []float64{1, 2, 5}
		if octaves > 14 {
			steps = steps[:1]
		}
		for e := math.Floor(math.Log10(low) + 1e-9); len(at) < 2 || at[len(at)-1] < high*(1-1e-9); e++ {
			for _, s := range steps {
				v := s * math.Pow(10, e)
				if len(at) > 1 && at[len(at)-1] >= high*(1-1e-9) {
					break
				}
				if at = append(at, v); len(at) == 2 && at[1] <= low*(1+1e-9) {
					at = at[1:]
				}
			}
		}
	}
	for _, v := range at {
		s := Short(v)
		if exact := Digits(v, 6); len(s) > len(exact) { // 16384, not 16.384k
			s = exact
		}
		text = append(text, s)
	}
	return at, text
}

// A box is a part of the picture that is taken.
type box struct{ left, top, right, bottom float64 }

func (b box) meets(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

// label writes a text next to a point, on the first side where nothing is in the way, and adds it to what is taken. If
// there is no such side, it writes nothing.
func (d *Drawing) label(p Panel, taken []box, x, y float64, text string) []box {
	wide := 6.4 * float64(utf8.RuneCountInString(text))
	for _, at := range [][2]float64{
		{x + 8, y + 4}, {x - 8 - wide, y + 4}, {x - wide/2, y - 9}, {x - wide/2, y + 18},
		{x + 6, y - 8}, {x + 6, y + 16}, {x - 6 - wide, y - 8}, {x - 6 - wide, y + 16},
	} {
		b := box{at[0], at[1] - 10, at[0] + wide, at[1] + 2}
		out := b.left < p.Left || b.right > p.Right || b.top < p.Top || b.bottom > p.Bottom
		if out || slices.ContainsFunc(taken, b.meets) {
			continue
		}
		d.Add(`<text class="small" x="%.1f" y="%.1f">%s</text>`, at[0], at[1], Escape(text))
		return append(taken, b)
	}
	return taken
}
