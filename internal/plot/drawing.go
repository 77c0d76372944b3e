// Package plot draws curves, points and bars as SVG. [Chart] and [Bars] draw the results of measurements;
// trainer/report draws a run's loss curve with the same primitives.
//
// The same input gives the same bytes. A picture is self-contained, has its own background, and can share an HTML page
// with others.
package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
)

// A Drawing is an SVG that is being written.
type Drawing struct{ bytes.Buffer }

// Add writes a line of formatted SVG. Texts from outside must go through Escape.
func (d *Drawing) Add(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

// Escape returns a text as XML.
func Escape(s string) []byte {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(s)) // it writes into memory and cannot fail
	return b.Bytes()
}

// A Panel maps values to pixels.
type Panel struct {
	Left, Right, Top, Bottom float64 // pixels
	XLow, XHigh, YLow, YHigh float64 // the values at these edges
	XLog, YLog               bool    // logarithmic; all values must be positive
}

// X returns the pixel of a value on the horizontal axis.
func (p Panel) X(v float64) float64 {
	return p.Left + share(v, p.XLow, p.XHigh, p.XLog)*(p.Right-p.Left)
}

// Y returns the pixel of a value on the vertical axis. It keeps values near the panel: the rest is clipped anyway, and
// viewers fail on huge coordinates.
func (p Panel) Y(v float64) float64 {
	y := p.Bottom - share(v, p.YLow, p.YHigh, p.YLog)*(p.Bottom-p.Top)
	return min(max(y, p.Top-100), p.Bottom+100)
}

// share returns where a value is between two others.
func share(v, low, high float64, log bool) float64 {
	if log {
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	return (v - low) / (high - low)
}

// Line draws a line through points, with breaks at gaps. A point between gaps becomes a dot.
func (d *Drawing) Line(class string, p Panel, points []Point) {
	var path bytes.Buffer
	pen := byte('M')
	for i, q := range points {
		if !Shown(q.Y) {
			pen = 'M'
			continue
		}
		fmt.Fprintf(&path, "%c%.1f %.1f", pen, p.X(q.X), p.Y(q.Y))
		if alone := pen == 'M' && (i+1 == len(points) || !Shown(points[i+1].Y)); alone {
			path.WriteString("h0")
		}
		pen = 'L'
	}
	if path.Len() > 0 {
		d.Add(`<path class="%s" d="%s"/>`, class, path.Bytes())
	}
}

// Dots draws a circle at each point.
func (d *Drawing) Dots(class string, radius int, p Panel, points []Point) {
	for _, q := range points {
		if Shown(q.Y) {
			d.Add(`<circle class="%s" r="%d" cx="%.1f" cy="%.1f"/>`, class, radius, p.X(q.X), p.Y(q.Y))
		}
	}
}
