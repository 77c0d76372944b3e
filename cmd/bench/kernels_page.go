package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"restyle/cmd/bench/results"
	"restyle/internal/measure"
	"restyle/internal/plot"
)

// headline lists the rows that a reader looks for first: the operations that a serving program consists of.
var headline = []struct{ op, shape string }{
	{"attention", "16x512"}, {"linear + gelu tanh", ""}, {"linear + silu", ""}, {"linear INT8", ""},
	{"linear INT8 × INT8", ""}, {"linear INT4", ""},
}

// isBase reports whether a row is of the form that others are compared with.
func isBase(r results.Row) bool { return r["form"] == "standard" || r["form"] == r["type"] }

// kernelSection says what the rows mean, and draws them.
func kernelSection(t *results.Table) (s results.Section) {
	s.Words = append(s.Words, "Both forms of an operation ran in turns, so the noise of the machine met both. Operands "+
		"are "+
		"in so many copies that caches hold only small ones: a share of the ceiling above 100% is the speed of a cache, or "+
		"of a moment when other programs left more of the machine than when the ceiling was measured.")
	if !slices.ContainsFunc(t.Rows, func(r results.Row) bool { return r.Number("energy") > 0 }) {
		s.Words = append(s.Words, "Energy is not available: the machine shows no counter of it.")
	}
	for _, h := range headline {
		for _, r := range t.Rows {
			if r["sizes"] == "serving" && r["op"] == h.op && strings.HasPrefix(r.Text("shape"), h.shape) && !isBase(r) {
				s.Words = append(s.Words, inWords(r))
			}
		}
	}
	if bars := speedups(t); len(bars.Bars) > 0 {
		middle := bars.Bars[len(bars.Bars)/2].Ratio // they are in order
		s.Headline = fmt.Sprintf("fused or quantized, operations are %s to %s times as fast, half of them at least %s times.",
			plot.Digits(bars.Bars[len(bars.Bars)-1].Ratio, 3), plot.Digits(bars.Bars[0].Ratio, 3), plot.Digits(middle, 3))
		s.Pictures = append(s.Pictures, results.Picture{Name: "kernels-speedup",
			Alt: "How many times as fast fused operations are as standard ones, and quantized weights as BF16", SVG: bars.SVG()})
	}
	for _, typ := range []string{"F32", "BF16", "F16"} {
		if chart := roofline(t, typ); chart != nil {
			s.Pictures = append(s.Pictures, results.Picture{Name: "kernels-roofline-" + strings.ToLower(typ),
				Alt: "Roofline of the operations in " + typ, SVG: chart.SVG()})
		}
	}
	return s
}

// inWords says what a fused row gains.
func inWords(r results.Row) string {
	name := fmt.Sprintf("%s %s, %s, %s", r["op"], r["pass"], r["type"], r["shape"])
	if why := r.Text("why"); why != "" {
		return fmt.Sprintf("%s: %s.", name, why)
	}
	ratio := measure.Ratio{Times: r.Number("speedup"), Noise: r.Number("speedup_noise")}
	if !(ratio.Times > 0) {
		return fmt.Sprintf("%s: %s is too noisy to compare, ±%.0f%%.", name, r["form"], 100*ratio.Noise)
	}
	memory, saved := "less", math.Round(100*r.Number("saved"))
	if saved < 0 {
		memory, saved = "more", -saved
	}
	s := fmt.Sprintf("%s: %s is %v", name, r["form"], ratio)
	if !ratio.Clear() && !math.IsNaN(ratio.Noise) {
		s = fmt.Sprintf("%s: %s is as fast as the other form within ±%.0f%%", name, r["form"], 100*ratio.Noise)
	}
	s += fmt.Sprintf(", with %.0f%% %s memory", saved+0, memory) // +0: not -0
	return s + fmt.Sprintf(" (%s ms, %.3g TFLOP/s, %.0f%% of the ceiling).", plot.Digits(r.Number("time"), 3),
		r.Number("tflops"), 100*r.Number("of_ceiling"))
}

// speedups draws the fused rows, the largest gain first.
func speedups(t *results.Table) *plot.Bars {
	b := &plot.Bars{Title: "Fused operations next to standard ones, quantized weights next to BF16",
		Label:    "times as fast",
		Subtitle: "the whisker is the noise of both medians; blue is forward, orange backward"}
	for _, r := range t.Rows {
		if v := r.Number("speedup"); v > 0 {
			color := 0
			if r["pass"] == "backward" {
				color = 1
			}
			b.Bars = append(b.Bars, plot.Bar{Name: fmt.Sprintf("%s %s, %s", r["op"], r["type"], r["shape"]),
				Ratio: v, Noise: r.Number("speedup_noise"), Color: color})
		}
	}
	slices.SortStableFunc(b.Bars, func(x, y plot.Bar) int { return int(math.Copysign(1, y.Ratio-x.Ratio)) })
	return b
}

// roofline draws the rows of a type below the ceiling, or returns nil if there are none.
func roofline(t *results.Table, typ string) *plot.Chart {
	dots := map[string]*plot.Series{}
	forms := []string{"standard", "fused", "only", "quantized"}
	for i, f := range forms {
		dots[f] = &plot.Series{Name: []string{"standard", "fused", "one form only", "quantized weights"}[i], Dots: true}
	}
	var product, moved float64
	low, high := math.Inf(1), 0.0
	for _, r := range t.Rows {
		flops, bytes, ms := r.Number("flops"), r.Number("bytes"), r.Number("time")
		s := dots[r.Text("form")]
		if strings.Contains(r.Text("form"), "INT") {
			s = dots["quantized"]
		}
		if r["type"] != typ || s == nil || !(flops > 0) || !(bytes > 0) || !(ms > 0) {
			continue
		}
		x := flops / bytes
		low, high = min(low, x), max(high, x)
		product, moved = max(product, r.Number("product")), max(moved, r.Number("copy"))
		label := ""
		if !isBase(r) {
			label = r.Text("op")
			if r["pass"] == "backward" {
				label += " ←"
			}
		}
		if slices.Contains(s.Labels, label) {
			label = "" // one label for the sizes of an operation
		}
		s.Points, s.Labels = append(s.Points, plot.Point{X: x, Y: flops / ms / 1e9}), append(s.Labels, label)
	}
	if !(product > 0) {
		return nil
	}
	ridge := product * 1e3 / moved // FLOP per byte
	low, high = min(low, ridge)/1.5, max(high, ridge)*1.5
	ceiling := plot.Series{Name: fmt.Sprintf("ceiling: a copy of %s GB/s, a product of %s TFLOP/s", plot.Digits(moved, 3),
		plot.Digits(product, 3)),
		Plain: true, Points: []plot.Point{{X: low, Y: low * moved / 1e3}, {X: ridge, Y: product}, {X: high, Y: product}}}
	c := &plot.Chart{Title: "Roofline, " + typ, Subtitle: "each dot is a row; ← is a backward pass; above the slope, a " +
		"cache " +
		"has the operands", X: plot.Axis{Label: "FLOP per byte that must be moved", Log: true},
		Y: plot.Axis{Label: "TFLOP/s", Log: true}, Series: []plot.Series{ceiling}}
	for _, f := range forms {
		if len(dots[f].Points) > 0 {
			c.Series = append(c.Series, *dots[f])
		}
	}
	return c
}
