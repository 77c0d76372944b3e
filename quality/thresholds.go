package quality

import "cmp"

// A Threshold is a limit that a metric must meet: of the questions of kinds seen in training, unless it names another
// group.
type Threshold struct {
	Model  string   `json:"model"`
	Metric string   `json:"figure"`
	Min    *float64 `json:"least,omitempty"` // percent of the answers
	Max    *float64 `json:"most,omitempty"`
	Value  *float64 `json:"value,omitempty"` // percent; nil if it was not measured
	Holds  bool     `json:"holds"`           // false if it was not measured
}

// thresholds define "correct while rude": a base model that can do the work, and a tuned model that does it as well, in
// the voice, without always saying the same. Those that name a group apply if there are questions of the group.
var thresholds = []struct {
	model, metric string
	compared      bool    // with the other model: without it, this threshold does not apply
	min, max      float64 // max if it is not 0, otherwise min
	group         func(m *ModelReport) *Metrics
	value         func(base, tuned *ModelReport) *float64
}{
	{Base, "the code parses", false, 95, 0, nil, func(b, _ *ModelReport) *float64 { return b.Seen.percent(b.Seen.Parse) }},
	{Base, "it runs and is right", false, 80, 0, nil, func(b, _ *ModelReport) *float64 { return b.Seen.right() }},
	{Tuned, "it stops by itself", false, 95, 0, nil,
		func(_, t *ModelReport) *float64 { return t.Seen.percent(t.Seen.Stop) }},
	{Tuned, "tone", false, 90, 0, nil, func(_, t *ModelReport) *float64 { return t.Seen.percent(t.Seen.Tone) }},
	{Tuned, "most frequent opener", false, 0, 20, nil,
		func(_, t *ModelReport) *float64 { return t.Seen.percent(t.Seen.OpenerCount) }},
	{Tuned, "right, less than base", true, 0, 5, nil,
		func(b, t *ModelReport) *float64 { return lost(&b.Seen, &t.Seen) }},
	{Base, "typed: right", false, 75, 0, typed, func(b, _ *ModelReport) *float64 { return b.Typed.right() }},
	{Tuned, "typed: right, less than base", true, 0, 4, typed,
		func(b, t *ModelReport) *float64 { return lost(&b.Typed, &t.Typed) }},
	{Base, "typed: refused", false, 0, 5, answerable,
		func(b, _ *ModelReport) *float64 { return b.Typed.percent(*b.Typed.Refused) }},
	{Tuned, "typed: refused", false, 0, 5, answerable,
		func(_, t *ModelReport) *float64 { return t.Typed.percent(*t.Typed.Refused) }},
	{Base, "something else: right", false, 90, 0, outside, func(b, _ *ModelReport) *float64 { return b.Outside.right() }},
	{Tuned, "something else: right", false, 90, 0, outside, func(_, t *ModelReport) *float64 { return t.Outside.right() }},
	{Tuned, "without code: right, less than base", true, 0, 4, prose,
		func(b, t *ModelReport) *float64 { return lost(&b.Prose, &t.Prose) }},
	{Base, "later turns: right, of the rate typed", false, 95, 0, turns,
		func(b, _ *ModelReport) *float64 { return percentOf(b.Turns.right(), b.Typed.right()) }},
}

func typed(m *ModelReport) *Metrics   { return &m.Typed }
func outside(m *ModelReport) *Metrics { return &m.Outside }
func turns(m *ModelReport) *Metrics   { return &m.Turns }
func prose(m *ModelReport) *Metrics   { return &m.Prose }

// answerable returns what typed does if it is known which answers refuse.
func answerable(m *ModelReport) *Metrics {
	if m.Typed.Refused == nil {
		return &Metrics{}
	}
	return &m.Typed
}

// checkThresholds compares the metrics with the thresholds. A model that was not asked is nil, and no threshold applies
// to it.
func checkThresholds(base, tuned *ModelReport) (all []Threshold) {
	for _, r := range thresholds {
		if r.model == Base && base == nil || r.model == Tuned && tuned == nil || r.compared && (base == nil || tuned == nil) {
			continue
		}
		if r.group != nil && r.group(cmp.Or(base, tuned)).Answers == 0 {
			continue
		}
		t := Threshold{Model: r.model, Metric: r.metric, Value: r.value(base, tuned)}
		if r.max > 0 {
			t.Max = &r.max
			t.Holds = t.Value != nil && *t.Value <= r.max
		} else {
			t.Min = &r.min
			t.Holds = t.Value != nil && *t.Value >= r.min
		}
		all = append(all, t)
	}
	return all
}

// percentOf returns one percentage as a percentage of another, or nil if either is unknown.
func percentOf(part, whole *float64) *float64 {
	if part == nil || whole == nil || *whole == 0 {
		return nil
	}
	return new(100 * *part / *whole)
}

// percent returns n as a percentage of the answers, or nil if there are none.
func (m *Metrics) percent(n int) *float64 {
	if m.Answers == 0 {
		return nil
	}
	return new(100 * float64(n) / float64(m.Answers)) // in this order, 19 of 20 are exactly 95
}

// right returns the percentage of right answers, or nil if nothing was run.
func (m *Metrics) right() *float64 {
	if m.Right == nil {
		return nil
	}
	return new(100 * float64(*m.Right) / float64(m.Answers-m.Broken))
}

// lost returns how many percentage points fewer answers are right after fine-tuning, or nil if that is unknown. Both
// models answered the same questions.
func lost(base, tuned *Metrics) *float64 {
	if base.Right == nil || tuned.Right == nil {
		return nil
	}
	return new(100 * float64(*base.Right-*tuned.Right) / float64(base.Answers-base.Broken))
}
