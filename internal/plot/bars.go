package plot

import "math"

// Bars compares things with a baseline: a bar for each ratio, to the right of 1 if it is more and to the left if it is
// less. The axis is logarithmic, so that twice and half are equally far from 1.
type Bars struct {
	Title, Subtitle string
	Label           string // of the axis
	Bars            []Bar
}

// A Bar is one ratio.
type Bar struct {
	Name  string
	Ratio float64 // positive
	Noise float64 // how far Ratio may be off, as a share of it; NaN: unknown
	Color int     // an index of the picture's colors
}

func (b Bar) measured() bool { return Shown(b.Ratio) && b.Ratio > 1/tooLarge }
func (b Bar) noisy() bool    { return b.Noise >= 0 && b.Noise < 1e6 }

// barHeight is the distance of bars in pixels.
const barHeight = 24.0

// SVG draws the bars, the first at the top.
func (b *Bars) SVG() []byte {
	var d Drawing
	names, values := 60.0, []float64{1}
	for _, bar := range b.Bars {
		names = max(names, TextWidth(bar.Name))
		if !bar.measured() {
			continue
		}
		values = append(values, bar.Ratio)
		if bar.noisy() {
			values = append(values, bar.Ratio*(1+bar.Noise), bar.Ratio/(1+bar.Noise))
		}
	}
	left := 24 + min(names, 420) + 16
	p := Panel{Left: left, Right: chartRight - 96, Top: 84, Bottom: 84 + barHeight*float64(len(b.Bars)) + 8, XLog: true}
	d.begin(p.Bottom+60, b.Title, b.Subtitle)
	at, text := Axis{Log: true}.ticks(values, 8)
	p.XLow, p.XHigh = min(at[0], 0.95), at[len(at)-1]
	for i, v := range at {
		d.Add(`<path class="grid" d="M%.1f %.1fV%.1f"/>`, p.X(v), p.Top, p.Bottom)
		d.Add(`<text class="x" x="%.1f" y="%.1f">%s×</text>`, p.X(v), p.Bottom+18, text[i])
	}
	one := p.X(1)
	d.Add(`<path class="axis" d="M%.1f %.1fV%.1f"/>`, one, p.Top, p.Bottom)
	for i, bar := range b.Bars {
		y := p.Top + 4 + barHeight*float64(i)
		middle := y + barHeight/2
		d.Add(`<text class="end" x="%.1f" y="%.1f">%s</text>`, left-12, middle+4.5, Escape(bar.Name))
		if !bar.measured() {
			d.Add(`<text x="%.1f" y="%.1f">not measured</text>`, one+8, middle+4.5)
			continue
		}
		end, value := p.X(bar.Ratio), Digits(bar.Ratio, 3)+"×"
		d.Add(`<rect class="f%d" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, bar.Color%len(colors), min(one, end), y+4,
			max(math.Abs(end-one), 1), barHeight-8)
		far := max(one, end)
		if bar.noisy() {
			low, high := p.X(bar.Ratio/(1+bar.Noise)), p.X(bar.Ratio*(1+bar.Noise))
			d.Add(`<path class="noise" d="M%.1f %.1fH%.1f"/>`, low, middle, high)
			far, value = max(far, high), value+" ±"+Digits(100*bar.Noise, 2)+"%"
		}
		d.Add(`<text class="name" x="%.1f" y="%.1f">%s</text>`, far+8, middle+4.5, value)
	}
	d.Add(`<text class="name x" x="%.1f" y="%.1f">%s</text>`, (p.Left+p.Right)/2, p.Bottom+42, Escape(b.Label))
	d.Add("</svg>")
	return d.Bytes()
}
