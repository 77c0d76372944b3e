package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"restyle/internal/plot"
)

// Curve is the input of LossSVG. Values that are not finite are gaps.
type Curve struct {
	Title      string       // default "Training loss"
	XLabel     string       // what X counts; default "step"
	Steps      []CurveStep  // in the order of X
	Validation []CurvePoint // in the order of X; may be empty
}

// CurveStep is one optimizer step.
type CurveStep struct {
	X    float64 // the step's number, or the tokens seen so far
	Loss float64 // training loss of the step
	Rate float64 // learning rate
}

// CurvePoint is one evaluation: X as of a step, and the loss.
type CurvePoint = plot.Point

// Sizes of the picture in pixels, and its colors. It has its own background, so it is readable on a dark page.
const (
	pictureWidth, pictureHeight = 960, 560
	plotLeft, plotRight         = 72, 932
	lossTop, lossBottom         = 104, 400
	rateTop, rateBottom         = 444, 504
	columns                     = 500 // number of parts of a thinned long run

	style = `text{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#57606a}
.title{font-size:19px;font-weight:600;fill:#1f2328}.name{font-weight:600;fill:#424a53}
.x{text-anchor:middle}.y,.end{text-anchor:end}
.grid{stroke:#e4e7eb}.axis{stroke:#8c959f}
path,.line{fill:none;stroke-linejoin:round;stroke-linecap:round}
.step{stroke:#a5c8f0;stroke-width:1}.smooth{stroke:#1864ab;stroke-width:2.5}
.validation{stroke:#d9480f;stroke-width:2}.dot{fill:#d9480f;stroke:#fff;stroke-width:1.5}.point{fill:#1864ab}
.best{fill:#fff;stroke:#d9480f;stroke-width:3}.value{font-weight:600;fill:#b03a0a}` +
		`.halo{stroke:#fff;stroke-width:5;stroke-linejoin:round}
.rate{stroke:#2b8a3e;stroke-width:2}.ratepoint{fill:#2b8a3e}`
)

// A drawing is the picture while it is drawn.
type drawing struct{ plot.Drawing }

// LossSVG draws a run as an SVG picture: at the top, the training loss of every step as a thin line and smoothed as a
// thick one, and the validation loss with the best marked; below, the learning rate. The same curve gives the same
// bytes. Long runs are thinned to 1,000 points that keep every extreme.
func LossSVG(w io.Writer, c Curve) error {
	c.Title, c.XLabel = cmp.Or(c.Title, "Training loss"), cmp.Or(c.XLabel, "step")
	losses, rates := make([]CurvePoint, 0, len(c.Steps)), make([]CurvePoint, 0, len(c.Steps))
	for _, s := range c.Steps {
		if plot.Shown(s.X) {
			losses, rates = append(losses, CurvePoint{X: s.X, Y: s.Loss}), append(rates, CurvePoint{X: s.X, Y: s.Rate})
		}
	}
	gap := func(p CurvePoint) bool { return !plot.Shown(p.X) || !plot.Shown(p.Y) }
	validation := slices.DeleteFunc(slices.Clone(c.Validation), gap)

	var d drawing
	d.Add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="100%%" role="img">`, pictureWidth,
		pictureHeight)
	d.Add("<title>%s</title>", plot.Escape(c.Title))
	d.Add("<style>%s</style>", style)
	d.Add(`<clipPath id="plot"><rect x="%d" y="%d" width="%d" height="%d"/></clipPath>`,
		plotLeft-6, lossTop-6, plotRight-plotLeft+12, lossBottom-lossTop+12)
	d.Add(`<rect x="0.5" y="0.5" width="%d" height="%d" rx="8" fill="#fff" stroke="#d0d7de"/>`, pictureWidth-1,
		pictureHeight-1)
	d.Add(`<text class="title" x="24" y="38">%s</text>`, plot.Escape(c.Title))
	d.Add(`<text x="24" y="62">%s</text>`, plot.Escape(summary(c.XLabel, losses, validation)))
	d.legend(len(losses), len(validation))

	loss, rate := d.axes(c.XLabel, losses, validation, rates)
	losses, validation = above(losses, loss.YLog), above(validation, loss.YLog)
	d.Add(`<g clip-path="url(#plot)">`)
	if len(losses) < fewSteps {
		d.Line("smooth", loss, losses)
		d.Dots("point", 3, loss, losses)
	} else {
		d.Line("step", loss, plot.Thin(losses, columns))
		usual := slices.Clone(losses)
		for i := range usual { // a spike beyond the picture must not pull the thick line with it
			if plot.Shown(usual[i].Y) {
				usual[i].Y = min(usual[i].Y, loss.YHigh)
			}
		}
		d.Line("smooth", loss, plot.Thin(smooth(usual, float64(len(losses))/60), columns))
	}
	d.Line("validation", loss, plot.Thin(validation, columns))
	if len(validation) <= 60 {
		d.Dots("dot", 4, loss, validation)
	}
	d.Add("</g>")
	d.best(loss, validation)
	d.Line("rate", rate, plot.Thin(rates, columns))
	if len(rates) == 1 {
		d.Dots("ratepoint", 3, rate, rates)
	}
	d.Add("</svg>")
	_, err := w.Write(d.Bytes())
	return err
}

// fewSteps is the minimum number of steps of a run whose loss is smoothed.
const fewSteps = 20

// above returns points, with gaps instead of the points that a logarithmic axis has no place for.
func above(points []CurvePoint, log bool) []CurvePoint {
	points = slices.Clone(points)
	for i := range points {
		if log && points[i].Y <= 0 {
			points[i].Y = math.NaN()
		}
	}
	return points
}

// axes draws both panels without their lines.
func (d *drawing) axes(xLabel string, losses, validation, rates []CurvePoint) (loss, rate plot.Panel) {
	var xs []float64
	for _, p := range slices.Concat(losses, validation) {
		xs = append(xs, p.X)
	}
	xLow, xHigh, _ := plot.Span(xs)
	if flat := !(xHigh-xLow > 1e-9*max(math.Abs(xLow), math.Abs(xHigh))); flat || xLow > 0 && xLow <= xHigh/2 {
		xLow, xHigh, _ = plot.Span(append(xs, 0)) // start at zero
	}
	if xLow == xHigh {
		xHigh = xLow + 1
	}
	y := lossScale(heights(losses), heights(validation))
	_, rateHigh, _ := plot.Span(append(heights(rates), 0))
	rateTicks := []float64{0, rateHigh}
	if rateHigh == 0 {
		rateHigh, rateTicks = 1, []float64{0}
	}
	loss = framed(lossTop, lossBottom, xLow, xHigh, y.at[0], y.at[len(y.at)-1])
	loss.YLog = y.log
	rate = framed(rateTop, rateBottom, xLow, xHigh, 0, rateHigh*1.08)

	for i, v := range y.at {
		d.across(loss.Y(v), y.text[i])
	}
	for _, y := range rateTicks {
		d.across(rate.Y(y), plot.Power(y))
	}
	xTicks, _ := plot.Ticks(xLow, xHigh, 8, 1)
	for _, x := range xTicks {
		if x < xLow || x > xHigh {
			continue
		}
		at := loss.X(x)
		d.Add(`<path class="grid" d="M%.1f %dV%dM%.1[1]f %dV%d"/>`, at, lossTop, lossBottom, rateTop, rateBottom)
		d.Add(`<text class="x" x="%.1f" y="%d">%s</text>`, at, rateBottom+20, plot.Short(x))
	}
	d.Add(`<path class="axis" d="M%d %dH%dM%[1]d %[4]dH%[3]d"/>`, plotLeft, lossBottom, plotRight, rateBottom)
	d.Add(`<text class="name" x="%d" y="%d">%s</text>`, plotLeft, lossTop-12, lossName(y.log))
	d.Add(`<text class="name" x="%d" y="%d">learning rate</text>`, plotLeft, rateTop-10)
	d.Add(`<text class="name x" x="%d" y="%d">%s</text>`, (plotLeft+plotRight)/2, rateBottom+42, plot.Escape(xLabel))
	if _, top, ok := plot.Span(heights(losses)); ok && top > loss.YHigh {
		d.Add(`<text class="end" x="%d" y="%d">spikes up to %s leave the picture</text>`, plotRight, lossTop-12,
			plot.Significant(top))
	}
	return loss, rate
}

// lossName returns the name of the loss axis.
func lossName(log bool) string {
	if log {
		return "loss (log)"
	}
	return "loss"
}

// framed returns a panel of the picture's width.
func framed(top, bottom, xLow, xHigh, yLow, yHigh float64) plot.Panel {
	return plot.Panel{Left: plotLeft, Right: plotRight, Top: top, Bottom: bottom, XLow: xLow, XHigh: xHigh, YLow: yLow,
		YHigh: yHigh}
}

// across draws a line of the grid with its number.
func (d *drawing) across(y float64, label string) {
	d.Add(`<path class="grid" d="M%d %.1fH%d"/><text class="y" x="%d" y="%.1f">%s</text>`, plotLeft, y, plotRight,
		plotLeft-10, y+4.5, label)
}

// best marks the lowest validation loss, and writes its value on the side that has room.
func (d *drawing) best(p plot.Panel, validation []CurvePoint) {
	i := lowest(validation)
	if i < 0 {
		return
	}
	x, y := p.X(validation[i].X), p.Y(validation[i].Y)
	d.Add(`<circle class="best" r="6" cx="%.1f" cy="%.1f"/>`, x, y)
	below, anchor := -14.0, "middle" // the training loss is mostly lower
	if y+below < p.Top+12 {
		below = 24
	}
	if x > plotRight-60 {
		x, anchor = plotRight, "end"
	} else if x < plotLeft+60 {
		x, anchor = plotLeft+4, "start"
	}
	for _, class := range []string{"value halo", "value"} { // the first is an outline that separates it from the lines
		d.Add(`<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">best %.4g</text>`, class, x, y+below, anchor,
			validation[i].Y)
	}
}

// legend explains the lines, next to the name of their axis.
func (d *drawing) legend(steps, validation int) {
	x := plotLeft + 96.0
	for _, line := range []struct {
		class, name string
		there       bool
	}{
		{"step", "each step", steps >= fewSteps},
		{"smooth", "training, smoothed", steps >= fewSteps},
		{"smooth", "training", steps > 0 && steps < fewSteps},
		{"validation", "validation", validation > 0},
	} {
		if line.there {
			d.Add(`<path class="%s" d="M%.0f %.1fh18"/><text x="%.0f" y="%d">%s</text>`, line.class, x, lossTop-16.5, x+24,
				lossTop-12, line.name)
			x += 24 + plot.TextWidth(line.name) + 20
		}
	}
}

// summary returns the run in one line.
func summary(xLabel string, losses, validation []CurvePoint) string {
	known := slices.DeleteFunc(slices.Clone(losses), func(p CurvePoint) bool { return !plot.Shown(p.Y) })
	if len(known) == 0 && len(validation) == 0 {
		return "nothing to show yet"
	}
	var s string
	if n := len(known); n > 0 {
		// The mean over a tenth of the run at each end, at most 20 steps: a single step says little.
		few := min(20, max(1, n/10))
		s = fmt.Sprintf("%d steps, training loss %.4g to %.4g", len(losses), mean(known[:few]), mean(known[n-few:]))
		if n == 1 {
			s = fmt.Sprintf("1 step, training loss %.4g", known[0].Y)
		}
		if gaps := len(losses) - n; gaps > 0 {
			s += fmt.Sprintf(", %d without a finite loss", gaps)
		}
	}
	if i := lowest(validation); i >= 0 {
		if s != "" {
			s += "; "
		}
		s += fmt.Sprintf("best validation loss %.4g at %s %s", validation[i].Y, xLabel, plot.Short(validation[i].X))
	}
	return s
}

func lowest(points []CurvePoint) int {
	best := -1
	for i, p := range points {
		if best < 0 || p.Y < points[best].Y {
			best = i
		}
	}
	return best
}

func mean(points []CurvePoint) (m float64) {
	for _, p := range points {
		m += p.Y / float64(len(points))
	}
	return m
}

func heights(points []CurvePoint) []float64 {
	out := make([]float64, len(points))
	for i, p := range points {
		out[i] = p.Y
	}
	return out
}

// CSV returns the curve as comma-separated values: a line for each step, and for an evaluation before the first step.
// The columns are step, train_loss, val_loss and lr; val_loss is from the evaluation after the step. A value that is
// missing or not finite is an empty cell.
func (c Curve) CSV() []byte {
	b := []byte("step,train_loss,val_loss,lr\n")
	cell := func(v float64, there bool) {
		if b = append(b, ','); there && !math.IsNaN(v) && !math.IsInf(v, 0) {
			b = strconv.AppendFloat(b, v, 'g', -1, 64)
		}
	}
	evaluations := c.Validation
	line := func(x float64, s CurveStep, taken bool) {
		b = strconv.AppendFloat(b, x, 'f', -1, 64)
		cell(s.Loss, taken)
		var e CurvePoint
		there := len(evaluations) > 0 && evaluations[0].X == x
		if there {
			e, evaluations = evaluations[0], evaluations[1:]
		}
		cell(e.Y, there)
		cell(s.Rate, taken)
		b = append(b, '\n')
	}
	for _, s := range c.Steps {
		for len(evaluations) > 0 && evaluations[0].X < s.X {
			line(evaluations[0].X, CurveStep{}, false)
		}
		line(s.X, s, true)
	}
	for len(evaluations) > 0 {
		line(evaluations[0].X, CurveStep{}, false)
	}
	return b
}
