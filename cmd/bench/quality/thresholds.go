package quality

// A Threshold is what a figure of the questions of trained kinds has to reach.
type Threshold struct {
	Model  string   `json:"model"`
	Metric string   `json:"figure"`
	Min    *float64 `json:"least,omitempty"` // percent of the answers
	Max    *float64 `json:"most,omitempty"`
	Value  *float64 `json:"value,omitempty"` // percent; nil where it was not measured
	Holds  bool     `json:"holds"`           // false where it was not measured
}

// thresholds are the bars that "correct while rude" comes down to: a base model that can do the work, and a tuned one that does it
// as well, in the voice, without always saying the same.
var thresholds = []struct {
	model, figure string
	compared      bool    // with the other model, so that there is no such bar without it
	least, most   float64 // one of them; most where it is not 0
	value         func(base, tuned *Metrics) *float64
}{
	{Base, "the code parses", false, 95, 0, func(b, _ *Metrics) *float64 { return b.percent(b.Parse) }},
	{Base, "it runs and is right", false, 80, 0, func(b, _ *Metrics) *float64 { return b.right() }},
	{Tuned, "it stops by itself", false, 95, 0, func(_, t *Metrics) *float64 { return t.percent(t.Stop) }},
	{Tuned, "tone", false, 90, 0, func(_, t *Metrics) *float64 { return t.percent(t.Tone) }},
	{Tuned, "most frequent opener", false, 0, 20, func(_, t *Metrics) *float64 { return t.percent(t.OpenerCount) }},
	{Tuned, "right, less than base", true, 0, 5, lost},
}

// checkThresholds holds the figures of the questions of trained kinds against the rules. A model that was not asked is nil, and has none.
func checkThresholds(base, tuned *Metrics) (all []Threshold) {
	for _, r := range thresholds {
		if r.model == Base && base == nil || r.model == Tuned && tuned == nil || r.compared && (base == nil || tuned == nil) {
			continue
		}
		b := Threshold{Model: r.model, Metric: r.figure, Value: r.value(base, tuned)}
		if r.most > 0 {
			b.Max = &r.most
			b.Holds = b.Value != nil && *b.Value <= r.most
		} else {
			b.Min = &r.least
			b.Holds = b.Value != nil && *b.Value >= r.least
		}
		all = append(all, b)
	}
	return all
}

// percent is a count's share of the answers, nil where there are none.
func (f *Metrics) percent(n int) *float64 {
	if f.Answers == 0 {
		return nil
	}
	return new(100 * float64(n) / float64(f.Answers)) // in this order 19 of 20 are exactly 95
}

// right is the share of right answers, nil where nothing was run.
func (f *Metrics) right() *float64 {
	if f.Right == nil {
		return nil
	}
	return new(100 * float64(*f.Right) / float64(f.Answers-f.Broken))
}

// lost is how many more in a hundred answers were right before the fine-tuning, nil where that is not known. Both models
// were asked the same.
func lost(base, tuned *Metrics) *float64 {
	if base.Right == nil || tuned.Right == nil {
		return nil
	}
	return new(100 * float64(*base.Right-*tuned.Right) / float64(base.Answers-base.Broken))
}
