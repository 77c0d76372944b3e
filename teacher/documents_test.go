package teacher

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/dataset"
	"restyle/internal/expect"
	"restyle/voice"
)

// TestDocuments compares prompts, reports, summaries and plans with those in testdata. If a file
// is missing, the test writes one elsewhere and says where.
func TestDocuments(t *testing.T) {
	for name, text := range map[string]string{"prompts.txt": prompts(t), "reports.txt": reports(t)} {
		path := filepath.Join("testdata", name)
		want, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			path = filepath.Join(os.TempDir(), name)
			t.Errorf("%s is missing; wrote %s: %v", name, path, os.WriteFile(path, []byte(text), 0o600))
			continue
		}
		got, wanted := strings.Split(text, "\n"), strings.Split(string(want), "\n")
		for i := range max(len(got), len(wanted)) {
			if i >= len(got) || i >= len(wanted) || got[i] != wanted[i] {
				t.Errorf("%s:%d: %q, want %q", name, i+1, got[min(i, len(got)-1)], wanted[min(i, len(wanted)-1)])
				break
			}
		}
	}
}

// prompts returns the prompts for a remote teacher, in every way in which prompts differ.
func prompts(t *testing.T) string {
	var b strings.Builder
	style := *passiveAggressive(t)
	style.System = " Be tired. "
	style.Examples = []voice.Example{{Question: "Q1", Code: "pass\n", Rewrite: " R1\n\n[[CODE_1]]\n"},
		{Question: "Q2", Code: "x", Rewrite: "R2\n\n[[CODE_1]]"}}
	short := strings.NewReplacer(protocol, "\nPROTOCOL", proseProtocol, "\nPROSE PROTOCOL", commentProtocol,
		"\nCOMMENTS", strings.Replace(protocol, "for Python keywords", "for keywords of its language", 1),
		"\nPROTOCOL OF ITS LANGUAGE", codeInProse, "\nCODE IN PROSE").Replace
	code := "A:\n```python\nx = 1\n\n```\nB:\n```python\ny = 2\n```\nC."
	for _, c := range []struct {
		name, language, input, output string
		change                        func(*Prompt)
		fold                          bool
	}{
		{"code without a fence", "", "", "x = 1\nprint(x)", nil, false},
		{"code with prose, and input", Python, "[1, 2]", code, nil, false},
		{"remarks", Python, "", "x = 1\nprint(x)", func(p *Prompt) { p.Comments = true }, false},
		{"another language", "sql", "", "SELECT 1 FROM x;", nil, false},
		{"again", "", "", "x = 1\nprint(x)", func(p *Prompt) {
			p.Previous, p.Reason, p.Longer = "bad", "it is bad", true
		}, false},
		{"after an empty answer", "", "", "x = 1\nprint(x)", func(p *Prompt) { p.Previous, p.Reason = " ", "empty" }, false},
		{"after thoughts", "", "", "x = 1\nprint(x)", func(p *Prompt) {
			p.Previous, p.Reason = " <think> so", "thoughts"
		}, false},
		{"folded", "", "", "x = 1\nprint(x)", nil, true},
		{"prose", NoLanguage, "", " It takes 3 days. ", nil, false},
		{"prose with code, folded, again", NoLanguage, "", "Run it:\n```\nls\n\n```\nThen wait.", func(p *Prompt) {
			p.Previous, p.Reason = "bad", "it is bad"
		}, true},
		{"prose without examples", NoLanguage, "", "It takes 3 days.", func(p *Prompt) {
			p.Assignment.Examples = nil
		}, false},
	} {
		p := promptOf(&style, c.language, c.input, c.output)
		if p.Seed = 1<<40 + 5; c.change != nil {
			c.change(p)
		}
		remote := &Remote{Model: "m", Temperature: 0.5, MaxTokens: 100, FoldSystem: c.fold, Endpoints: []string{"a", "b"},
			Extra: map[string]any{"max_tokens": 7.0, "max_completion_tokens": 8.0, "top_p": 0.5}}
		fmt.Fprintf(&b, "=== %s\n", c.name)
		for _, m := range remote.Messages(p) {
			fmt.Fprintf(&b, "--- %s\n%s\n", m.Role, short(m.Content))
		}
		request := remote.Request(p)
		_, rest, _ := strings.Cut(string(request.Body), `"}],`)
		fmt.Fprintf(&b, "--- and %s\n%d keys, the first %.8s\n", rest, len(request.Keys), request.Keys[0])
	}
	return b.String()
}

// promptOf returns the first prompt for an answer.
func promptOf(style *voice.Style, language, input, output string) *Prompt {
	const instruction = "What does it do?"
	p := &Prompt{Style: style, Question: dataset.Question(instruction, input), Parts: splitIn(language, output),
		Row: dataset.Row{Instruction: instruction, Input: input, Output: output}, Language: language}
	if a := newAssigner(style, 7); p.Parts.restated {
		p.Assignment = a.restate(p.Question, p.Parts.Prose())
	} else {
		p.Assignment = a.next(p.Question)
	}
	return p
}

// reports returns the report on a dataset, the summary of a run, and plans.
func reports(t *testing.T) string {
	var b strings.Builder
	style := passiveAggressive(t)
	rows := []dataset.Rewritten{sample(nil)}
	for i, add := range []string{"Try `reduce_all` some day.", "As an AI language model I have no opinion. Damn it.",
		"And so it goes on and", "There is 3.14 in it.", ""} {
		rows = append(rows, sample(func(r *dataset.Rewritten) {
			r.OutputPassiveAggressive = fmt.Sprintf("Well, row %d. ", i) + r.OutputPassiveAggressive + " " + add
		}))
	}
	var certs []dataset.Certificate
	for i, r := range rows[:4] {
		c := dataset.Certificate{SHA256: r.SHA256(), Checks: []dataset.Check{{ID: "A10", Pass: i != 2,
			Value: fmt.Sprintf("opens with %q, device %s", "so", []string{"echo", "echo", "sigh", "praise"}[i])},
			{ID: "A1", Pass: true, Value: "x, device none"}}}
		certs = append(certs, c)
	}
	for _, c := range []struct {
		rows  []dataset.Rewritten
		certs []dataset.Certificate
	}{{rows, certs}, {nil, nil}, {repeated(rows[0], 25), []dataset.Certificate{}}} {
		report := NewReport(style, c.rows, c.certs, Python)
		fmt.Fprintf(&b, "=== %d rows\n", len(c.rows))
		if n, err := report.WriteTo(&b); n == 0 || err != nil {
			t.Errorf("%d bytes written, %v", n, err)
		}
		if len(c.rows) == len(rows) {
			fmt.Fprintf(&b, "--- as a picture\n%s", report.TonePlot())
		}
	}
	for _, s := range []Summary{{}, {Source: 9, Accepted: 3, Calls: 4, Replayed: 2, JudgeFailed: 1, JudgeError: "no"},
		{Source: 9, Unfit: map[string]int{"S0": 1, "S1": 2}, Refused: map[string]int{"A1": 3, "A5": 4, "A13": 5, "A6": 4},
			GivenUp: map[string]int{"A1": 6, "A7": 1}, First: map[string]string{"S1": "bad", "A13": "low", "A7": "x"}}} {
		b.WriteString("=== summary\n")
		WriteSummary(&b, s)
		fmt.Fprintf(&b, "reasons: %s\n", s.Reasons())
	}
	for _, rowsWanted := range []int{0, 2} {
		for _, words := range []string{"S g P g A g", "P", "L P", "U g U g", "g U!", "g ^"} {
			plan, err := planOf(t, rowsWanted, words)
			first := -1
			if plan.First != nil {
				first = plan.First.Row.Index
			}
			fmt.Fprintf(&b, "=== plan of %d\n%d rows, %d fit, unfit %v, %d prose, first %d, %d bytes, %v\n", rowsWanted,
				plan.Source, plan.Fit, plan.Unfit, plan.Prose, first, plan.PromptBytes, err)
		}
	}
	return b.String()
}

func repeated(r dataset.Rewritten, n int) (rows []dataset.Rewritten) {
	for range n {
		rows = append(rows, r)
	}
	return rows
}

// planOf plans a run over rows like trace's. With an exclamation mark, rows that cannot be read end the run. At a
// circumflex, the run is canceled.
func planOf(t *testing.T, rows int, words string) (Plan, error) {
	path := expect.File(t, "rows.jsonl", traceLines(strings.Fields(words)))
	skip := !strings.Contains(words, "!")
	src, err := dataset.OpenAll(t.Context(), []string{path}, dataset.Options{SkipBad: skip})
	expect.OK(t, err)
	defer src.Close()
	r := &Run{Style: passiveAggressive(t), Teacher: Builtin{}, Source: src, Rows: rows, Seed: 1}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if strings.Contains(words, "^") {
		cancel()
	}
	return r.Plan(ctx)
}
