package quality

// A Threshold is a limit that a metric of the questions of kinds seen in training must meet.
type Threshold struct {
	Model  string   `json:"model"`
	Metric string   `json:"figure"`
	Min    *float64 `json:"least,omitempty"` // percent of the answers
	Max    *float64 `json:"most,omitempty"`
	Value  *float64 `json:"value,omitempty"` // percent; nil if it was not measured
	Holds  bool     `json:"holds"`           // false if it was not measured
}

// thresholds define "correct while rude": a base model that can do the work, and a tuned model that does it as well, in
// the voice, without always saying the same.
var thresholds = []struct {
	model, metric string
	compared      bool    // with the other model: without it, this threshold does not apply
	min, max      float64 // max if it is not 0, otherwise min
	value         func(base, tuned *Metrics) *float64
}{
	{Base, "the code parses", false, 95, 0, func(b, _ *Metrics) *float64 { return b.percent(b.Parse) }},
	{Base, "it runs and is right", false, 80, 0, func(b, _ *Metrics) *float64 { return b.right() }},
	{Tuned, "it stops by itself", false, 95, 0, func(_, t *Metrics) *float64 { return t.percent(t.Stop) }},
	{Tuned, "tone", false, 90, 0, func(_, t *Metrics) *float64 { return t.percent(t.Tone) }},
	{Tuned, "most frequent opener", false, 0, 20, func(_, t *Metrics) *float64 { return t.percent(t.OpenerCount) }},
	{Tuned, "right, less than base", true, 0, 5, lost},
}

// checkThresholds compares the metrics of the questions of kinds seen in training with the thresholds. The metrics of a
// model that was not asked are nil, and no threshold applies to it.
func checkThresholds(base, tuned *Metrics) (all []Threshold) {
	for _, r := range thresholds {
		if r.model == Base && base == nil || r.model == Tuned && tuned == nil || r.compared && (base == nil || tuned == nil) {
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
