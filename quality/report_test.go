package quality

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"restyle/data"
	"restyle/dataset"
	"restyle/grade"
	"restyle/infer"
	"restyle/internal/expect"
	"restyle/internal/sandbox"
	"restyle/teacher"
	"restyle/voice"
)

// recorded returns answers as models give them, to one question of a kind seen in training and one of another kind.
func recorded() []Row {
	said := func(text string, reason infer.Reason, tokens int, loss float64) *Answer {
		return &Answer{Text: text, Reason: reason, Tokens: tokens, Loss: loss, LossTokens: 10}
	}
	sum := data.Question{Instruction: "Print the sum of the list.", Input: "[1, 2]", Output: "print(3)",
		Check: "assert printed == '3\\n'", Kind: "sum", Seen: true}
	other := data.Question{Instruction: "Print the product.", Input: "[3, 4]", Output: "print(12)",
		Check: "assert printed == '12\\n'", Kind: "product"}
	return []Row{
		{sum, map[string]*Answer{
			Base: said("print(sum([1, 2]))", infer.Stopped, 9, 1),
			Tuned: said("Oh joy, a sum. Obviously I suppose this is rocket science.\n\n```python\nprint(sum([1, "+
				"2]))\n```\n\nFine.", infer.Stopped, 40, 2),
		}},
		{sum, map[string]*Answer{
			Base: said("total = 0\nfor n in [1, 2]\n    total += n", infer.Length, 20, 3),
			Tuned: said("Oh joy, another. Clearly I have nothing better to do.\n\n```python\nprint(4)\n```", infer.Stopped, 30,
				4),
		}},
		{sum, map[string]*Answer{
			Base:  said("print(1 + 2)", infer.Stopped, 7, 5),
			Tuned: said("```python\nprint(3)\n```", infer.Stopped, 12, 6),
		}},
		{sum, map[string]*Answer{
			Base:  {Error: "too long", Loss: 0},
			Tuned: said("Sigh. You could read the documentation", infer.Length, 8, 7),
		}},
		{other, map[string]*Answer{
			Base:  said("print(3 * 4)", infer.Stopped, 7, 10),
			Tuned: said("", infer.Stopped, 0, 20),
		}},
	}
}

// noSandbox reports whether this machine has no sandbox. Running the answers without one is safe, because they are the
// tests' own.
func noSandbox(t *testing.T) bool {
	_, err := grade.Run(t.Context(), "python3", []grade.Trial{{}})
	return errors.Is(err, sandbox.ErrUnavailable)
}

// reportOf grades the recorded answers. Without Python nothing is run.
func reportOf(t *testing.T, python string) *Report {
	t.Helper()
	style, err := voice.Builtin(voice.Default)
	expect.OK(t, err)
	r := &Report{
		Questions: 5, Of: 5, ToneThreshold: style.MinScore, Style: style.Name, MaxTokens: 20, Rows: recorded(),
		Models: []ModelReport{{Label: Base, Name: "b", DType: "BF16"}, {Label: Tuned, Name: "t", DType: "BF16"}},
	}
	expect.OK(t, (&Options{Python: python, Unprotected: noSandbox(t), Style: style}).grade(t.Context(), r.Rows))
	r.count()
	return r
}

// TestBrokenQuestions checks that a check that fails its question's own answer counts neither for nor against a model.
func TestBrokenQuestions(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	o := Options{Python: "python3", Unprotected: noSandbox(t)}
	var err error
	if o.Style, err = voice.Builtin(voice.Default); err != nil {
		t.Fatal(err)
	}
	rows := recorded()[:3]
	rows[1].Check = "assert printed == 'four'"
	expect.OK(t, o.grade(t.Context(), rows))
	for i, row := range rows {
		for label, a := range row.Answers {
			if broken := i == 1; broken != (a.Right == nil) || broken != (a.Broken == "check: AssertionError") || broken &&
				(a.Wrong != "" || a.Printed == "" && label == Tuned) {
				t.Errorf("question %d, %s: %+v", i, label, a)
			}
		}
	}
	r := &Report{Rows: rows, Questions: 3, Of: 3, Models: []ModelReport{{Label: Base}, {Label: Tuned}}}
	r.count()
	for _, m := range r.Models {
		if f := m.Seen; f.Answers != 3 || f.Broken != 1 || *f.Right != 2 || *f.right() != 100 {
			t.Errorf("%s: %+v", m.Label, f)
		}
	}
	if l := lost(&r.Models[0].Seen, &r.Models[1].Seen); *l != 0 {
		t.Errorf("%v are lost", *l)
	}
	const reason = "\n  \"Print the sum of the list.\": check: AssertionError"
	if got := r.Broken(); !strings.HasPrefix(got, "1 question whose own answer ") || !strings.HasSuffix(got, ":"+reason) {
		t.Errorf("one question: %s", got)
	}
	for _, n := range []int{10, 11, 13} {
		many := &Report{Rows: slices.Repeat(rows[1:2], n)}
		left := fmt.Sprintf("\n  and %d more: the JSON lines of the answers", n-10)
		if got := many.Broken(); !strings.HasPrefix(got, fmt.Sprint(n, " questions whose own answer ")) ||
			strings.Count(got, reason) != 10 || strings.Contains(got, left) != (n > 10) {
			t.Errorf("%d questions: %s", n, got)
		}
	}
	if got := (&Report{Rows: rows[:1]}).Broken(); got != "" {
		t.Errorf("no question: %s", got)
	}
}

// TestMetrics compares the metrics with counts made by hand.
func TestMetrics(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	r := reportOf(t, "python3")
	want := []ModelReport{
		{
			Label: Base, Name: "b", DType: "BF16",
			Seen: Metrics{
				Answers: 4, Failed: 1, Parse: 2, Right: new(2), Stop: 2, TokensMedian: 8, // of 0, 7, 9, 20
				// this does not parse, so it is prose
				Openers: 1, Opener: "total 0", OpenerCount: 1, FirstFive: "total 0 for n in", FirstFiveCount: 1,
				WordsMedian: 0, Loss: new(9.0 / 30), LossTokens: 30,
			},
			Unseen: Metrics{Answers: 1, Parse: 1, Right: new(1), Stop: 1, TokensMedian: 7, Loss: new(1.0), LossTokens: 10},
		},
		{
			Label: Tuned, Name: "t", DType: "BF16",
			Seen: Metrics{
				Answers: 4, Parse: 3, Right: new(2), Stop: 3, TokensMedian: 21, Openers: 2, Opener: "oh joy", OpenerCount: 2,
				FirstFive: "oh joy a sum obviously", FirstFiveCount: 1, WordsMedian: 8, // of 0, 6, 10, 12
				Loss: new(19.0 / 40), LossTokens: 40,
			},
			Unseen: Metrics{Answers: 1, Right: new(0), Stop: 1, Loss: new(2.0), LossTokens: 10},
		},
	}
	// The style file decides the scores.
	tone := 0
	for i, row := range r.Rows[:4] {
		a := row.Answers[Tuned]
		tone += a.Tone
		if in := a.Tone >= 3; in != (i != 2) {
			t.Errorf("answer %d has a tone of %d with the cues %q", i, a.Tone, a.Cues)
		}
	}
	want[1].Seen.Tone, want[1].Seen.ToneMean = 3, float64(tone)/4
	if diff := cmp.Diff(want, r.Models); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if wrong := r.Rows[1].Answers[Tuned].Wrong; wrong != "check: AssertionError" {
		t.Errorf("why it is wrong: %q", wrong)
	}
	if got := r.FirstError(Base); got != "too long" || r.FirstError(Tuned) != "" {
		t.Errorf("the first errors are %q and %q", got, r.FirstError(Tuned))
	}
}

// TestMetricsWithoutPython checks that everything that needs no running is measured, and that the rest is reported as
// missing.
func TestMetricsWithoutPython(t *testing.T) {
	r := reportOf(t, "")
	base, tuned := r.Models[0].Seen, r.Models[1].Seen
	if base.Right != nil || tuned.Right != nil || base.Parse != 2 || tuned.Parse != 3 {
		t.Errorf("base %+v, tuned %+v", base, tuned)
	}
	for _, b := range r.Thresholds {
		if strings.Contains(b.Metric, "right") && (b.Value != nil || b.Holds) {
			t.Errorf("%+v was not measured", b)
		}
	}
	var table bytes.Buffer
	// two models, two groups, two thresholds
	if err := r.Write(&table); err != nil || strings.Count(table.String(), "not measured") != 6 {
		t.Errorf("%v\n%s", err, &table)
	}
}

// wantTable has the counts of TestMetrics.
const wantTable = `
question kinds seen in training: 4         base                               tuned
  failed                                      1   25.0%                          0    0.0%
  the code parses                             2   50.0%                          3   75.0%
  it runs and is right                        2   50.0%                          2   50.0%
  stops by itself                             2   50.0%                          3   75.0%
  tone score 3 or more                        0    0.0%                          3   75.0%
  tone score, mean                         0.00                               3.50
  most frequent opener                        1   25.0%  "total 0"               2   50.0%  "oh joy"
  most frequent first five words              1   25.0%  "total 0 for n in"      1   25.0%  "oh joy a sum obviously"
  different openers                        1                                  2
  tokens, median                           8                                  21
  words of prose, median                   0                                  8
  loss on reference answers, nats/token    0.3000                             0.4750

question kinds not seen in training: 1     base           tuned
  the code parses                             1  100.0%      0    0.0%
  it runs and is right                        1  100.0%      0    0.0%
  stops by itself                             1  100.0%      1  100.0%
  tone score 3 or more                        0    0.0%      0    0.0%
  tone score, mean                         0.00           0.00
  most frequent opener                     none           none
  most frequent first five words           none           none
  different openers                        0              0
  tokens, median                           7              0
  words of prose, median                   0              0
  loss on reference answers, nats/token    1.0000         2.0000

thresholds                                 threshold      measured
  base: the code parses                    at least 95%   50.0%   MISSED
  base: it runs and is right               at least 80%   50.0%   MISSED
  tuned: it stops by itself                at least 95%   75.0%   MISSED
  tuned: tone                              at least 90%   75.0%   MISSED
  tuned: most frequent opener              at most 20%    50.0%   MISSED
  tuned: right, less than base             at most 5%     0.0%    met
`

func TestTable(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	r := reportOf(t, "python3")
	var table bytes.Buffer
	expect.OK(t, r.Write(&table))
	if diff := cmp.Diff(wantTable, "\n"+table.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var md bytes.Buffer
	expect.OK(t, r.WriteMarkdown(&md))
	for _, want := range []string{
		"### Query: *\"Print the sum of the list: [1, 2]\"*\n\n**Base model, b:**\n> print(sum([1, 2]))\n\n*(right, tone " +
			"0)*\n\n**Tuned model, t:**\n> Oh joy, a sum.",
		"*(does not parse, cut after 20 tokens, tone 0)*", "*(wrong: check: AssertionError, tone ",
		"*(failed: too long, tone 0)*",
	} {
		if !strings.Contains(md.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &md)
		}
	}
	var lines bytes.Buffer
	expect.OK(t, r.WriteAnswers(&lines))
	decoder := json.NewDecoder(&lines)
	for _, row := range r.Rows {
		var got Row
		expect.OK(t, decoder.Decode(&got))
		if diff := cmp.Diff(row, got, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".seconds" },
			cmp.Ignore())); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

// TestThresholds checks that each threshold holds exactly at its limit and fails just beyond it.
func TestThresholds(t *testing.T) {
	base := Metrics{Answers: 100, Parse: 95, Right: new(80)}
	tuned := Metrics{Answers: 100, Right: new(75), Stop: 95, Tone: 90, OpenerCount: 20}
	held := func(b, t *Metrics) (names []string) {
		for _, bar := range checkThresholds(&ModelReport{Seen: *b}, &ModelReport{Seen: *t}) {
			if bar.Holds {
				names = append(names, bar.Model+" "+bar.Metric)
			}
		}
		return names
	}
	all := held(&base, &tuned)
	if len(all) != 6 {
		t.Errorf("on the edge only %q hold", all)
	}
	for i, spoil := range []func(b, t *Metrics){
		func(b, _ *Metrics) { b.Parse-- }, func(b, t *Metrics) { b.Right, t.Right = new(79), new(74) },
		func(_, t *Metrics) { t.Stop-- }, func(_, t *Metrics) { t.Tone-- }, func(_, t *Metrics) { t.OpenerCount++ },
		func(_, t *Metrics) { t.Right = new(74) },
	} {
		b, tu := base, tuned
		spoil(&b, &tu)
		want := append(append([]string{}, all[:i]...), all[i+1:]...)
		if diff := cmp.Diff(want, held(&b, &tu)); diff != "" {
			t.Errorf("bar %d: (-want +got)\n%s", i, diff)
		}
	}
	// Percentages that floating-point rounding could miss: 19 of 20, 9 of 10 and so on at every size.
	for n := 20; n < 2000; n += 20 {
		b := Metrics{Answers: n, Parse: n * 95 / 100, Right: new(n * 80 / 100)}
		tu := Metrics{Answers: n, Right: new(n * 75 / 100), Stop: n * 95 / 100, Tone: n * 90 / 100, OpenerCount: n / 5}
		if names := held(&b, &tu); len(names) != 6 {
			t.Errorf("of %d only %q hold", n, names)
		}
	}
	if got := checkThresholds(&ModelReport{Seen: base}, nil); len(got) != 2 {
		t.Errorf("the base model alone has the bars %+v", got)
	}
	if got := checkThresholds(nil, &ModelReport{Seen: tuned}); len(got) != 3 {
		t.Errorf("the tuned model alone has the bars %+v", got)
	}
	for _, bar := range checkThresholds(&ModelReport{}, &ModelReport{}) {
		if bar.Holds || bar.Value != nil {
			t.Errorf("without answers: %+v", bar)
		}
	}
}

// TestThresholds_OfGroups checks the thresholds of questions that are counted apart, on the edge and just beyond it.
func TestThresholds_OfGroups(t *testing.T) {
	of := func(typed, outside, turns int) *ModelReport {
		return &ModelReport{Typed: Metrics{Answers: 100, Right: &typed, Refused: new(100 - outside - 5)},
			Outside: Metrics{Answers: 100, Right: &outside},
			Turns:   Metrics{Answers: 50, Right: &turns}, Prose: Metrics{Answers: 100, Right: new(2 * turns)}}
	}
	for _, c := range []struct {
		base, tuned *ModelReport
		missed      []string
	}{
		{of(80, 90, 38), of(76, 90, 36), nil},
		{of(75, 90, 36), of(71, 90, 34), nil},
		{of(74, 90, 36), of(70, 90, 33), []string{"typed: right", "without code: right, less than base"}},
		{of(80, 89, 38), of(75, 90, 38), []string{"typed: right, less than base", "typed: refused", "something else: right"}},
		{of(80, 90, 37), of(80, 89, 37),
			[]string{"typed: refused", "something else: right", "later turns: right, of the rate typed"}},
		{of(0, 90, 0), of(0, 90, 0), []string{"typed: right", "later turns: right, of the rate typed"}},
	} {
		var missed []string
		for _, bar := range checkThresholds(c.base, c.tuned)[6:] {
			if !bar.Holds {
				missed = append(missed, bar.Metric)
			}
		}
		if diff := cmp.Diff(c.missed, missed); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

// TestAnswersInWords checks that the check of an answer in words sees the whole text, and that nothing of it is run.
func TestAnswersInWords(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	q := data.Question{Instruction: "what does 'é' mean", Output: "It is an \"e\" \\ with an accent.\n", Words: true,
		Check: "assert 'accent' in answer and answer.count('\\u2028') == answer.count('\\U0001f600') and functions == []",
		Group: "typed"}
	o := Options{Python: "python3", Unprotected: noSandbox(t)}
	var err error
	if o.Style, err = voice.Builtin(voice.Default); err != nil {
		t.Fatal(err)
	}
	rows := []Row{{q, map[string]*Answer{
		Base:  {Text: "An accent, \u2028 \U0001f600 \"\"\" '\n```python\nraise SystemExit(1)\n```"},
		Tuned: {Text: "assert True"},
	}}}
	expect.OK(t, o.grade(t.Context(), rows))
	r := &Report{Rows: rows, Questions: 1, Of: 1, Models: []ModelReport{{Label: Base}, {Label: Tuned}}}
	r.count()
	if base, tuned := r.Models[0].Typed, r.Models[1].Typed; base.Answers != 1 || *base.Right != 1 || *tuned.Right != 0 {
		t.Errorf("%+v\n%+v\n%+v\n%+v", base, tuned, rows[0].Answers[Base], rows[0].Answers[Tuned])
	}
}

// TestRefusals checks that answers to typed questions that refuse are counted, except if the reference answer
// refuses, and only if there is a check that tells refusals.
func TestRefusals(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	o := Options{Python: "python3", Unprotected: noSandbox(t)}
	var err error
	if o.Style, err = voice.Builtin(voice.Default); err != nil {
		t.Fatal(err)
	}
	q := func(group, output, check string) data.Question {
		return data.Question{Group: group, Instruction: "?", Output: output, Check: check, Words: group != "typed"}
	}
	const check = "assert 'cannot' in answer"
	for _, c := range []struct {
		outside []string
		want    []bool // of two typed questions with a reference answer that is no refusal, and of one with one
	}{
		{[]string{check, check}, []bool{true, false, false}},
		{[]string{check, "assert True"}, nil},
		{nil, nil},
	} {
		said := func(text string) map[string]*Answer { return map[string]*Answer{Base: {Text: text}} }
		rows := []Row{{q("typed", "print(1)", "assert True"), said("I cannot do that.")},
			{q("typed", "print(1)", "assert True"), said("print(1)")},
			{q("typed", "'cannot'", "assert True"), said("I cannot do that.")}}
		for _, text := range c.outside {
			rows = append(rows, Row{q("outside", "I cannot.", text), said("I cannot do that.")})
		}
		expect.OK(t, o.grade(t.Context(), rows))
		for i, row := range rows {
			got := row.Answers[Base].Refuses
			if (got != nil) != (i < len(c.want)) || got != nil && *got != c.want[i] {
				t.Errorf("%q: answer %d refuses: %v", c.outside, i+1, got)
			}
		}
		r := &Report{Rows: rows, Questions: len(rows), Of: len(rows), Models: []ModelReport{{Label: Base}}}
		r.count()
		var table bytes.Buffer
		expect.OK(t, r.Write(&table))
		shown := strings.Contains(table.String(), "\n  refuses                                     1   33.3%\n") &&
			strings.Contains(table.String(), "base: typed: refused")
		if shown != (c.want != nil) {
			t.Errorf("%q:\n%s", c.outside, &table)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []int
		want   float64
	}{{nil, 0}, {[]int{3}, 3}, {[]int{4, 1}, 2.5}, {[]int{9, 1, 5}, 5}, {[]int{9, 1, 5, 6}, 5.5}} {
		if got := median(c.values); got != c.want {
			t.Errorf("the median of %v is %v, want %v", c.values, got, c.want)
		}
	}
}

// TestThresholdsCanBeMet checks that the reference answers, plain and in the voice of the committed dataset, meet every
// threshold. So a model that learned both could meet them.
func TestThresholdsCanBeMet(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	rows, err := dataset.ReadRewritten(t.Context(), "../data/passive_aggressive_data.json")
	expect.OK(t, err)
	rows = slices.DeleteFunc(rows, func(r dataset.Rewritten) bool { return !teacher.HasCode(r.OutputOriginal) })
	questions, err := data.Questions()
	expect.OK(t, err)
	of := map[bool]int{} // by whether they are seen in training
	questions = slices.DeleteFunc(questions, func(q data.Question) bool {
		of[q.Seen]++
		return of[q.Seen] > 12 // the tests of internal/makedata run the answers to all
	})
	style, err := voice.Builtin(voice.Default)
	expect.OK(t, err)
	r := &Report{Questions: len(questions), Of: len(questions), ToneThreshold: style.MinScore,
		Models: []ModelReport{{Label: Base}, {Label: Tuned}}}
	for i, q := range questions {
		row := rows[i%len(rows)]
		if !strings.Contains(row.OutputPassiveAggressive, row.OutputOriginal) {
			t.Fatalf("row %d does not have its code as it was", i)
		}
		rude := strings.Replace(row.OutputPassiveAggressive, row.OutputOriginal, q.Output, 1)
		r.Rows = append(r.Rows, Row{q, map[string]*Answer{Base: {Text: q.Output, Reason: infer.Stopped},
			Tuned: {Text: rude, Reason: infer.Stopped}}})
	}
	expect.OK(t, (&Options{Python: "python3", Unprotected: noSandbox(t), Style: style}).grade(t.Context(),
		r.Rows))
	r.count()
	for _, m := range r.Models {
		for _, f := range []Metrics{m.Seen, m.Unseen} {
			if f.Parse != f.Answers || f.Right == nil || *f.Right != f.Answers || (f.Tone == f.Answers) != (m.Label == Tuned) ||
				(f.WordsMedian > 0) != (m.Label == Tuned) {
				t.Errorf("%s: %+v", m.Label, f)
			}
		}
	}
	if !r.OK || len(r.Thresholds) != 6 {
		t.Errorf("%+v", r.Thresholds)
	}
}
