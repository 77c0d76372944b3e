package quality

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"restyle/data"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/sidebyside"
)

// A Report is the result of Run.
type Report struct {
	Questions int  `json:"questions"` // answered by all models
	Of        int  `json:"of"`        // of Options
	Complete  bool `json:"complete"`
	After     int  `json:"after,omitempty"` // of Options

	Python        string `json:"python,omitempty"` // the version that ran the answers; "" if nothing was run
	Style         string `json:"style"`
	ToneThreshold int    `json:"tone_bar"` // the lowest score that counts as in the voice
	MaxTokens     int    `json:"max_tokens"`

	Models     []ModelReport `json:"models"` // in the order of Options
	Thresholds []Threshold   `json:"bars"`
	OK         bool          `json:"ok"` // all thresholds are met

	AskSeconds   float64 `json:"ask_seconds"`
	GradeSeconds float64 `json:"judge_seconds"`

	Rows []Row `json:"-"` // the questions with their answers, in order
}

// A ModelReport has the metrics of one model for each group of questions.
type ModelReport struct {
	Label    string `json:"label"`
	Name     string `json:"name"`
	DType    string `json:"dtype"`
	Template string `json:"template"` // the chat template's name

	Seen   Metrics `json:"seen"`
	Unseen Metrics `json:"unseen"`

	Typed   Metrics `json:"typed,omitzero"`   // as people type them: see data.Question
	Outside Metrics `json:"outside,omitzero"` // beyond what the model was made for
	Turns   Metrics `json:"turns,omitzero"`   // that refer to the answer before
	Prose   Metrics `json:"prose,omitzero"`   // to be answered without code

	// of all answers, over the time that asking all models took, losses included
	TokensPerSecond float64 `json:"tokens_per_second"`
}

// groups are the groups of questions, in the order of the table.
var groups = []struct {
	title   string
	has     func(q data.Question) bool
	metrics func(m *ModelReport) *Metrics
}{
	{"question kinds seen in training", func(q data.Question) bool { return q.Group == "" && q.Seen },
		func(m *ModelReport) *Metrics { return &m.Seen }},
	{"question kinds not seen in training", func(q data.Question) bool { return q.Group == "" && !q.Seen },
		func(m *ModelReport) *Metrics { return &m.Unseen }},
	{"questions as people type them", func(q data.Question) bool { return q.Group == "typed" },
		func(m *ModelReport) *Metrics { return &m.Typed }},
	{"questions about something else", func(q data.Question) bool { return q.Group == "outside" },
		func(m *ModelReport) *Metrics { return &m.Outside }},
	{"questions about the answer before", func(q data.Question) bool { return q.Group == "turns" },
		func(m *ModelReport) *Metrics { return &m.Turns }},
	{"questions to answer without code", func(q data.Question) bool { return q.Group == "prose" },
		func(m *ModelReport) *Metrics { return &m.Prose }},
}

// All returns the sum of a count over all groups of questions.
func (m *ModelReport) All(count func(Metrics) int) (n int) {
	for _, g := range groups {
		n += count(*g.metrics(m))
	}
	return n
}

// count sets the fields that follow from the rows.
func (r *Report) count() {
	r.Complete = r.Questions == r.Of
	models := map[string]*ModelReport{}
	for i := range r.Models {
		m := &r.Models[i]
		for _, g := range groups {
			*g.metrics(m) = metricsOf(r.answers(m.Label, g.has), r.ToneThreshold)
		}
		models[m.Label] = m
		tokens := 0
		for _, row := range r.Rows {
			tokens += row.Answers[m.Label].Tokens
		}
		if r.AskSeconds > 0 {
			m.TokensPerSecond = float64(tokens) / r.AskSeconds
		}
	}
	r.Thresholds = checkThresholds(models[Base], models[Tuned])
	r.OK = len(r.Thresholds) > 0
	for _, t := range r.Thresholds {
		r.OK = r.OK && t.Holds
	}
}

func (r *Report) answers(label string, has func(q data.Question) bool) (all []*Answer) {
	for _, row := range r.Rows {
		if has(row.Question) {
			all = append(all, row.Answers[label])
		}
	}
	return all
}

// FirstError returns the first error of a model, or "" if there is none.
func (r *Report) FirstError(label string) string {
	for _, row := range r.Rows {
		if a := row.Answers[label]; a.Error != "" {
			return a.Error
		}
	}
	return ""
}

// Broken describes the questions whose own answers fail their checks: their number, and the reasons of the first ten,
// one per line. It returns "" if there are none.
func (r *Report) Broken() string {
	const shown = 10
	text, n := "", 0
	for _, row := range r.Rows {
		for _, a := range row.Answers { // all have the same reason
			if a.Broken != "" {
				if n++; n <= shown {
					text += fmt.Sprintf("\n  %q: %s", row.Instruction, a.Broken)
				}
			}
			break
		}
	}
	if n == 0 {
		return ""
	}
	if n > shown {
		text += fmt.Sprintf("\n  and %d more: the JSON lines of the answers have the reason of each as \"broken\"", n-shown)
	}
	return cli.Count(n, "question") + " whose own answer fails the check; answers to it count neither as right nor as " +
		"wrong:" +
		text
}

// Write writes the metrics as a table for people.
func (r *Report) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, group := range groups {
		var all []*Metrics
		for i := range r.Models {
			all = append(all, group.metrics(&r.Models[i]))
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
		if all[0].Refused != nil {
			lines = slices.Insert(lines, 2, line{"refuses", func(m *Metrics) string { return m.share(*m.Refused) }})
		}
		if slices.ContainsFunc(all, func(m *Metrics) bool { return m.Failed > 0 }) {
			lines = append([]line{{"failed", func(m *Metrics) string { return m.share(m.Failed) }}}, lines...)
		}
		for _, line := range lines {
			fmt.Fprintf(t, "  %-38s", line.name)
			for _, m := range all {
				fmt.Fprintf(t, "\t%s", line.show(m))
			}
			fmt.Fprintln(t)
		}
		fmt.Fprintln(t)
	}
	if len(r.Thresholds) > 0 {
		fmt.Fprintln(t, "thresholds\tthreshold\tmeasured")
	}
	for _, x := range r.Thresholds {
		fmt.Fprintf(t, "  %-38s\t%s\n", x.Model+": "+x.Metric, x.cells())
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
		{"the code parses", func(m *Metrics) string { return m.share(m.Parse) }},
		{"it runs and is right", func(m *Metrics) string {
			if m.Right == nil {
				return "not measured"
			}
			return fmt.Sprintf("%4d  %5.1f%%", *m.Right, *m.right())
		}},
		{"stops by itself", func(m *Metrics) string { return m.share(m.Stop) }},
		{fmt.Sprintf("tone score %d or more", r.ToneThreshold), func(m *Metrics) string { return m.share(m.Tone) }},
		{"tone score, mean", func(m *Metrics) string { return fmt.Sprintf("%.2f", m.ToneMean) }},
		{"most frequent opener", func(m *Metrics) string { return m.quote(m.Opener, m.OpenerCount) }},
		{"most frequent first five words", func(m *Metrics) string { return m.quote(m.FirstFive, m.FirstFiveCount) }},
		{"different openers", func(m *Metrics) string { return fmt.Sprint(m.Openers) }},
		{"tokens, median", func(m *Metrics) string { return fmt.Sprint(m.TokensMedian) }},
		{"words of prose, median", func(m *Metrics) string { return fmt.Sprint(m.WordsMedian) }},
		{"loss on reference answers, nats/token", func(m *Metrics) string {
			if m.Loss == nil {
				return "none"
			}
			return fmt.Sprintf("%.4f", *m.Loss)
		}},
	}
}

// share formats a count and its share of the answers.
func (m *Metrics) share(n int) string {
	return fmt.Sprintf("%4d  %5.1f%%", n, 100*float64(n)/float64(m.Answers))
}

// quote formats a text with its count and share.
func (m *Metrics) quote(text string, n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("%s  %q", m.share(n), text)
}

// cells formats the threshold, the value, and whether the value meets the threshold.
func (t *Threshold) cells() string {
	text := ""
	if t.Max != nil {
		text = fmt.Sprintf("at most %g%%\t", *t.Max)
	} else {
		text = fmt.Sprintf("at least %g%%\t", *t.Min)
	}
	switch {
	case t.Value == nil:
		return text + "not measured"
	case t.Holds:
		return text + fmt.Sprintf("%.1f%%\tmet", *t.Value)
	}
	return text + fmt.Sprintf("%.1f%%\tMISSED", *t.Value)
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

// WriteMarkdown writes every question with its answers side by side, in the form of chat's log.
func (r *Report) WriteMarkdown(w io.Writer) error {
	for _, row := range r.Rows {
		var answers []sidebyside.Answer
		for _, m := range r.Models {
			a := row.Answers[m.Label]
			answers = append(answers, sidebyside.Answer{Label: m.Label, Model: m.Name, Text: a.Text, Note: a.note()})
		}
		if _, err := io.WriteString(w, sidebyside.Markdown(asked(row.Question), answers...)); err != nil {
			return err
		}
	}
	return nil
}

// note describes an answer for its reader.
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
