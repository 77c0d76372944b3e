package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"restyle/cmd/bench/results"
	"restyle/infer"
	"restyle/internal/measure"
	"restyle/internal/plot"
	"restyle/tensor"
)

// answers holds the rows of bench infer. The rows of one model, type and form are a group.
type answers struct{ *results.Table }

func groupOf(r results.Row) string {
	return fmt.Sprintf("%s, %s, %s", r["model"], r["type"], r["form"])
}

// measured returns the row of a group in a mode at a length, or nil if it was not measured.
func (t answers) measured(group, mode string, context float64) results.Row {
	i := slices.IndexFunc(t.Rows, func(r results.Row) bool {
		return groupOf(r) == group && r["mode"] == mode && r["context"] == context && r.Number("time") > 0
	})
	if i < 0 {
		return nil
	}
	return t.Rows[i]
}

// points returns a column of a group's rows in a mode, over the length: NaN, which is a gap, if a row lacks it, and
// nothing if all do.
func (t answers) points(group, mode, column string) (at [][2]float64) {
	some := false
	for _, r := range t.Rows {
		if v := r.Number(column); groupOf(r) == group && r["mode"] == mode {
			at = append(at, [2]float64{r.Number("context"), v})
			some = some || !math.IsNaN(v)
		}
	}
	if !some {
		return nil
	}
	return at
}

// ratioTo returns the speed of row r as a multiple of row plain's.
func ratioTo(plain, r results.Row) measure.Ratio {
	return measure.RatioOf(plain.Number("time"), plain.Number("noise"), r.Number("time"), r.Number("noise"))
}

// besideCounterpart compares a token of a derived model with one of the model that it is derived from. It returns ""
// for other models.
func (t answers) besideCounterpart(r results.Row) string {
	model, context := r.Text("model"), r.Number("context")
	of, _, derived := strings.Cut(model, ", ") // as shape.counterpart names it
	plain := t.measured(of+strings.TrimPrefix(groupOf(r), model), cached, context)
	if !derived || plain == nil {
		return ""
	}
	return fmt.Sprintf("%s, after %.0f tokens: compared with %s, which takes the same multiplications, a token is %v.",
		groupOf(r), context, of, ratioTo(plain, r))
}

// unquantized returns the row of the same model with weights that are not quantized, or nil if there is none or r is
// that row itself.
func (t answers) unquantized(r results.Row) results.Row {
	if name := r.Text("type"); name == "" || infer.Quantizations[name].Layers == 0 {
		return nil
	}
	for _, whole := range []tensor.DType{tensor.BF16, tensor.F32} {
		group := fmt.Sprintf("%s, %s, %s", r["model"], whole, r["form"])
		if plain := t.measured(group, cached, r.Number("context")); plain != nil {
			return plain
		}
	}
	return nil
}

// besideUnquantized compares a token of quantized weights with one of weights that are not. It returns "" for other
// rows.
func (t answers) besideUnquantized(r results.Row) string {
	plain := t.unquantized(r)
	if plain == nil {
		return ""
	}
	return fmt.Sprintf("%s, after %.0f tokens: compared with %s weights, a token is %v, with %.0f%% of the memory.",
		groupOf(r), r.Number("context"), plain["type"], ratioTo(plain, r),
		100*r.Number("allocated")/plain.Number("allocated"))
}

// quantizedBars draws all quantized rows next to the unquantized ones.
func (t answers) quantizedBars() *plot.Bars {
	b := &plot.Bars{Title: "Tokens of an answer per second with quantized weights",
		Subtitle: "next to the same model with weights that are not; the whisker is the noise of both medians",
		Label:    "times as fast"}
	for _, r := range t.Rows {
		plain := t.unquantized(r)
		if r["mode"] != cached || !(r.Number("time") > 0) || plain == nil {
			continue
		}
		color := 0
		if strings.Contains(r.Text("model"), ", ") { // the counterpart of another model
			color = 1
		}
		ratio := ratioTo(plain, r)
		if ratio.Noise > measure.MaxNoise {
			continue
		}
		b.Bars = append(b.Bars, plot.Bar{Name: fmt.Sprintf("%s, after %v", groupOf(r), r["context"]), Ratio: ratio.Times,
			Noise: ratio.Noise, Color: color})
	}
	return b
}

// headline names the speed of the largest model's answers with each type of weights, at the shortest length that all of
// them have.
func (t answers) headline() string {
	largest, size := "", 0.0
	for _, r := range t.Rows {
		if m := r.Text("model"); r.Number("allocated") > size && !strings.Contains(m, ", ") { // no counterpart of another
			largest, size = m, r.Number("allocated")
		}
	}
	found := map[float64][]string{} // by length
	types := map[string]bool{}
	for _, r := range t.Rows {
		if r["model"] != largest || r["mode"] != cached || r["form"] == "standard" || !(r.Number("rate") > 0) {
			continue
		}
		types[r.Text("type")] = true
		found[r.Number("context")] = append(found[r.Number("context")],
			fmt.Sprintf("%s tokens/s with %s weights", plot.Digits(r.Number("rate"), 3), r["type"]))
	}
	for _, length := range slices.Sorted(maps.Keys(found)) {
		if len(found[length]) == len(types) {
			return fmt.Sprintf("%s, after %.0f tokens: %s.", largest, length, strings.Join(found[length], ", "))
		}
	}
	return ""
}

// inferSection says what the rows mean, and draws them.
func inferSection(table *results.Table) (s results.Section) {
	t := answers{table}
	s.Headline = t.headline()
	var groups, lines []string // lines are the groups of several lengths, or all groups if there are none
	for _, r := range t.Rows {
		if g := groupOf(r); !slices.Contains(groups, g) && r.Number("time") > 0 {
			groups = append(groups, g)
		}
	}
	for _, g := range groups {
		longest, lengths := 0.0, 0
		for _, r := range t.Rows {
			if groupOf(r) == g && r["mode"] == cached {
				lengths++
				if r.Number("time") > 0 {
					longest = max(longest, r.Number("context"))
				}
			}
		}
		if lengths > 1 {
			lines = append(lines, g)
		}
		with, without := t.measured(g, cached, longest), t.measured(g, uncached, longest)
		if with == nil {
			continue
		}
		rate := plot.Digits(with.Number("rate"), 3)
		if without != nil {
			s.Words = append(s.Words, fmt.Sprintf("%s, after %.0f tokens: with the cache a token is %v, %s instead of %s "+
				"tokens/s.", g, longest, ratioTo(without, with), rate, plot.Digits(without.Number("rate"), 3)))
		}
		s.Words = append(s.Words, t.besideCounterpart(with), t.besideUnquantized(with))
	}
	s.Words = slices.DeleteFunc(s.Words, func(w string) bool { return w == "" })
	if len(lines) == 0 {
		lines = groups
	}
	chart := func(name, title, y string, logY bool, series func(g string) []plotted) {
		c := curves(title, y, logY, lines, series)
		if len(c.Series) > 0 {
			s.Pictures = append(s.Pictures, results.Picture{Name: name, Alt: title, SVG: c.SVG()})
		}
	}
	chart("infer-cache", "Tokens of an answer per second", "tokens/s", true, func(g string) []plotted {
		return []plotted{{g + ", " + cached, t.points(g, cached, "rate"), false}, {g + ", " + uncached,
			t.points(g, uncached, "rate"), true}}
	})
	chart("infer-prefill", "Tokens of a prompt per second", "tokens/s", false, func(g string) []plotted {
		return []plotted{{g, t.points(g, prefill, "rate"), false}}
	})
	chart("infer-memory", "Memory of an answer", "MiB", true, func(g string) []plotted {
		return []plotted{{g + ", allocated", t.points(g, cached, "allocated"), false}, {g + ", planned",
			t.points(g, cached, "planned"), true}}
	})
	if b := t.quantizedBars(); len(b.Bars) > 0 {
		s.Pictures = append(s.Pictures, results.Picture{Name: "infer-quantized", Alt: b.Title, SVG: b.SVG()})
	}
	return s
}
