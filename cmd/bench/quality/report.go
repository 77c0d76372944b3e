package quality

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/sidebyside"
)

// A Report is what came of a Run.
type Report struct {
	Questions int  `json:"questions"` // that all models have answered
	Of        int  `json:"of"`        // that were to be asked
	Complete  bool `json:"complete"`

	Python        string `json:"python,omitempty"` // the version that ran the answers; empty where nothing was run
	Style         string `json:"style"`
	ToneThreshold int    `json:"tone_bar"` // the score that counts as in the voice
	MaxTokens     int    `json:"max_tokens"`

	Models     []ModelReport `json:"models"` // in the order of Options
	Thresholds []Threshold   `json:"bars"`
	OK         bool          `json:"ok"` // all bars hold

	AskSeconds   float64 `json:"ask_seconds"`
	GradeSeconds float64 `json:"judge_seconds"`

	Rows []Row `json:"-"` // the questions with their answers, in order
}

// A ModelReport is what came of one model: apart for the kinds of questions that the training rows have, and for those that
// they have not.
type ModelReport struct {
	Label  string  `json:"label"`
	Name   string  `json:"name"`
	DType  string  `json:"dtype"`
	Seen   Metrics `json:"seen"`
	Unseen Metrics `json:"unseen"`

	TokensPerSecond float64 `json:"tokens_per_second"` // of answers, with reading the questions, while the other model works too
}

// count fills in what follows from the rows.
func (r *Report) count() {
	r.Complete = r.Questions == r.Of
	seen := map[string]*Metrics{}
	for i := range r.Models {
		m := &r.Models[i]
		m.Seen, m.Unseen = metricsOf(r.answers(m.Label, true), r.ToneThreshold), metricsOf(r.answers(m.Label, false), r.ToneThreshold)
		seen[m.Label] = &m.Seen
		tokens, seconds := 0, 0.0
		for _, row := range r.Rows {
			tokens += row.Answers[m.Label].Tokens
			seconds += row.Answers[m.Label].seconds
		}
		if seconds > 0 {
			m.TokensPerSecond = float64(tokens) / seconds
		}
	}
	r.Thresholds = checkThresholds(seen[Base], seen[Tuned])
	r.OK = len(r.Thresholds) > 0
	for _, b := range r.Thresholds {
		r.OK = r.OK && b.Holds
	}
}

func (r *Report) answers(label string, seen bool) (all []*Answer) {
	for _, row := range r.Rows {
		if row.Seen == seen {
			all = append(all, row.Answers[label])
		}
	}
	return all
}

// FirstError is what went wrong with the first question with which anything did, for one model; "" where nothing did.
func (r *Report) FirstError(label string) string {
	for _, row := range r.Rows {
		if a := row.Answers[label]; a.Error != "" {
			return a.Error
		}
	}
	return ""
}

// Broken says which questions have answers of their own that fail their checks, and why: how many, and the first ten, a line
// each. It is "" if there are none.
func (r *Report) Broken() string {
	const most = 10
	text, n := "", 0
	for _, row := range r.Rows {
		for _, a := range row.Answers { // all say the same
			if a.Broken != "" {
				if n++; n <= most {
					text += fmt.Sprintf("\n  %q: %s", row.Instruction, a.Broken)
				}
			}
			break
		}
	}
	if n == 0 {
		return ""
	}
	if n > most {
		text += fmt.Sprintf("\n  and %d more: --answers FILE gives the reason of each as \"broken\"", n-most)
	}
	return cli.Count(n, "question") + " with a check that its own answer fails, so that answers to it count neither as right nor as wrong:" + text
}

// Write writes the figures as a table for people.
func (r *Report) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, group := range []struct {
		title   string
		figures func(*ModelReport) *Metrics
	}{
		{"kinds of questions that were trained", func(m *ModelReport) *Metrics { return &m.Seen }},
		{"kinds that were never trained", func(m *ModelReport) *Metrics { return &m.Unseen }},
	} {
		var all []*Metrics
		for i := range r.Models {
			all = append(all, group.figures(&r.Models[i]))
		}
		if all[0].Answers == 0 {
			continue
		}
		fmt.Fprintf(t, "%-40s", fmt.Sprintf("%s: %d", group.title, all[0].Answers))
		for _, m := range r.Models {
			fmt.Fprintf(t, "\t%s", m.Label)
		}
		fmt.Fprintln(t)
		lines := r.lines()
		if slices.ContainsFunc(all, func(f *Metrics) bool { return f.Failed > 0 }) {
			lines = append([]line{{"went wrong", func(f *Metrics) string { return f.share(f.Failed) }}}, lines...)
		}
		for _, line := range lines {
			fmt.Fprintf(t, "  %-38s", line.name)
			for _, f := range all {
				fmt.Fprintf(t, "\t%s", line.show(f))
			}
			fmt.Fprintln(t)
		}
		fmt.Fprintln(t)
	}
	if len(r.Thresholds) > 0 {
		fmt.Fprintln(t, "bars, for kinds that were trained\tbar\tis")
	}
	for _, b := range r.Thresholds {
		fmt.Fprintf(t, "  %-38s\t%s\n", b.Model+": "+b.Metric, b.words())
	}
	return t.Flush()
}

// A line is a row of the table.
type line struct {
	name string
	show func(*Metrics) string
}

func (r *Report) lines() []line {
	return []line{
		{"the code parses", func(f *Metrics) string { return f.share(f.Parse) }},
		{"it runs and is right", func(f *Metrics) string {
			if f.Right == nil {
				return "not measured"
			}
			return fmt.Sprintf("%4d  %5.1f %%", *f.Right, *f.right())
		}},
		{"stops by itself", func(f *Metrics) string { return f.share(f.Stop) }},
		{fmt.Sprintf("tone score %d or more", r.ToneThreshold), func(f *Metrics) string { return f.share(f.Tone) }},
		{"tone score, mean", func(f *Metrics) string { return fmt.Sprintf("%.2f", f.ToneMean) }},
		{"most frequent opener", func(f *Metrics) string { return f.quote(f.Opener, f.OpenerCount) }},
		{"most frequent first five words", func(f *Metrics) string { return f.quote(f.FirstFive, f.FirstFiveCount) }},
		{"different openers", func(f *Metrics) string { return fmt.Sprint(f.Openers) }},
		{"tokens, median", func(f *Metrics) string { return fmt.Sprint(f.TokensMedian) }},
		{"words of prose, median", func(f *Metrics) string { return fmt.Sprint(f.WordsMedian) }},
		{"loss on the plain answers, nats/token", func(f *Metrics) string {
			if f.Loss == nil {
				return "none"
			}
			return fmt.Sprintf("%.4f", *f.Loss)
		}},
	}
}

// share shows a count and its share.
func (f *Metrics) share(n int) string {
	return fmt.Sprintf("%4d  %5.1f %%", n, 100*float64(n)/float64(f.Answers))
}

// quote shows a text with its count and share.
func (f *Metrics) quote(text string, n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("%s  %q", f.share(n), text)
}

// words are the bar, the value, and what to think of it.
func (b *Threshold) words() string {
	text := ""
	if b.Max != nil {
		text = fmt.Sprintf("at most %g %%\t", *b.Max)
	} else {
		text = fmt.Sprintf("at least %g %%\t", *b.Min)
	}
	switch {
	case b.Value == nil:
		return text + "not measured"
	case b.Holds:
		return text + fmt.Sprintf("%.1f %%\tholds", *b.Value)
	}
	return text + fmt.Sprintf("%.1f %%\tMISSED", *b.Value)
}

// WriteAnswers writes every question with its answers as JSON lines.
func (r *Report) WriteAnswers(w io.Writer) error {
	for _, row := range r.Rows {
		if err := cli.PrintJSON(w, row); err != nil {
			return err
		}
	}
	return nil
}

// WriteMarkdown writes every question with its answers beside each other, in the form of chat's log.
func (r *Report) WriteMarkdown(w io.Writer) error {
	for _, row := range r.Rows {
		var answers []sidebyside.Answer
		for _, m := range r.Models {
			a := row.Answers[m.Label]
			answers = append(answers, sidebyside.Answer{Label: m.Label, Text: a.Text, Note: a.note()})
		}
		if _, err := io.WriteString(w, sidebyside.Markdown(asked(row.Question), answers...)); err != nil {
			return err
		}
	}
	return nil
}

// note is what a reader of an answer wants to know about it.
func (a *Answer) note() string {
	var parts []string
	switch {
	case a.Error != "":
		parts = append(parts, "failed: "+a.Error)
	case a.Right == nil && a.Parses:
		parts = append(parts, "parses")
	case a.Right == nil || !a.Parses:
		parts = append(parts, "does not parse")
	case *a.Right:
		parts = append(parts, "right")
	default:
		parts = append(parts, "wrong: "+a.Wrong)
	}
	if a.Reason != infer.Stopped && a.Error == "" {
		parts = append(parts, "cut after "+cli.Count(a.Tokens, "token"))
	}
	parts = append(parts, fmt.Sprintf("tone %d", a.Tone))
	return strings.ReplaceAll(strings.Join(parts, ", "), "\n", "; ")
}
