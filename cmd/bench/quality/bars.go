package quality

// A Bar is what a figure of the questions of trained kinds has to reach.
type Bar struct {
	Model  string   `json:"model"`
	Figure string   `json:"figure"`
	Least  *float64 `json:"least,omitempty"` // percent of the answers
	Most   *float64 `json:"most,omitempty"`
	Value  *float64 `json:"value,omitempty"` // percent; nil where it was not measured
	Holds  bool     `json:"holds"`           // false where it was not measured
}

// rules are the bars that "correct while rude" comes down to: a base model that can do the work, and a tuned one that does it
// as well, in the voice, without always saying the same.
var rules = []struct {
	model, figure string
	compared      bool    // with the other model, so that there is no such bar without it
	least, most   float64 // one of them; most where it is not 0
	value         func(base, tuned *Figures) *float64
}{
	{Base, "the code parses", false, 95, 0, func(b, _ *Figures) *float64 { return b.percent(b.Parse) }},
	{Base, "it runs and is right", false, 80, 0, func(b, _ *Figures) *float64 { return b.right() }},
	{Tuned, "it stops by itself", false, 95, 0, func(_, t *Figures) *float64 { return t.percent(t.Stop) }},
	{Tuned, "tone", false, 90, 0, func(_, t *Figures) *float64 { return t.percent(t.Tone) }},
	{Tuned, "most frequent opener", false, 0, 20, func(_, t *Figures) *float64 { return t.percent(t.OpenerCount) }},
	{Tuned, "right, less than base", true, 0, 5, lost},
}

// bars holds the figures of the questions of trained kinds against the rules. A model that was not asked is nil, and has none.
func bars(base, tuned *Figures) (all []Bar) {
	for _, r := range rules {
		if r.model == Base && base == nil || r.model == Tuned && tuned == nil || r.compared && (base == nil || tuned == nil) {
			continue
		}
		b := Bar{Model: r.model, Figure: r.figure, Value: r.value(base, tuned)}
		if r.most > 0 {
			b.Most = &r.most
			b.Holds = b.Value != nil && *b.Value <= r.most
		} else {
			b.Least = &r.least
			b.Holds = b.Value != nil && *b.Value >= r.least
		}
		all = append(all, b)
	}
	return all
}

// percent is a count's share of the answers, nil where there are none.
func (f *Figures) percent(n int) *float64 {
	if f.Answers == 0 {
		return nil
	}
	return new(100 * float64(n) / float64(f.Answers)) // in this order 19 of 20 are exactly 95
}

// right is the share of right answers, nil where nothing was run.
func (f *Figures) right() *float64 {
	if f.Right == nil {
		return nil
	}
	return new(100 * float64(*f.Right) / float64(f.Answers-f.Broken))
}

// lost is how many more in a hundred answers were right before the fine-tuning, nil where that is not known. Both models
// were asked the same.
func lost(base, tuned *Figures) *float64 {
	if base.Right == nil || tuned.Right == nil {
		return nil
	}
	return new(100 * float64(*base.Right-*tuned.Right) / float64(base.Answers-base.Broken))
}
