package teacher

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"restyle/dataset"
	"restyle/internal/expect"
	"restyle/teacher/openai"
)

// A letters teacher answers the first, second … attempt at a row by the first, second … letter of the row's word.
type letters struct {
	words []string
	batch bool // answers come only from the journal
}

func (l *letters) Name() string              { return "letters" }
func (l *letters) Request(p *Prompt) Request { return Builtin{}.Request(p) }

func (l *letters) Ask(ctx context.Context, p *Prompt, r Request) (Answer, string, error) {
	if l.batch {
		return Answer{}, r.Keys[0], ErrPending
	}
	word := l.words[p.Row.Index]
	letter := word[min(p.Attempt, len(word))-1]
	inner := *p
	inner.Comments = letter == 'c'
	good, key, err := Builtin{}.Ask(ctx, &inner, r)
	if err != nil {
		return good, key, err
	}
	good.PromptTokens, good.CompletionTokens = 100*p.Row.Index+p.Attempt, 7
	a, err := spoiled(letter, good)
	return a, key, err
}

// spoiled returns what a letter makes of a good answer.
func spoiled(letter byte, a Answer) (Answer, error) {
	switch letter {
	case 'b':
		a.Finish = "content_filter"
	case 'l':
		a.Finish = "length"
	case 't':
		a.Text, a.Thoughts, a.Finish = " ", 90, "length"
	case 'T':
		a.Text, a.Finish = "<think> but why", "length"
	case 'o':
		a.Text, a.Thoughts = "\n", 90
	case '0':
		a.Text = ""
	case 'k':
		a.Finish = openai.KeyInAnswer
	case 'w':
		a.Text = "no tag"
	case 'n':
		a.Text = "<rewrite></rewrite>"
	case 'p':
		a.Text = strings.Replace(a.Text, "[[CODE_1]]", "", 1)
	case 'm':
		a.Text = "<comments>nothing</comments>" + a.Text
	case 'M':
		a.Text = "<comments>L1: Damn it.</comments>" + a.Text
	case 'e': // the tokens are not reported
		a.PromptTokens, a.CompletionTokens = 0, 0
	case 'r':
		return Answer{}, &Refused{"400: no", 400}
	case 'u': // the reader refuses the answer
		return Answer{}, &Refused{"200: unreadable", 200}
	case 'q': // the request cannot be made
		return Answer{}, &Refused{"no request", 0}
	case 'x': // others are answered
		return Answer{}, &openai.Unavailable{Others: 1}
	case 'y':
		return Answer{}, &openai.Unavailable{Others: 1, AllDead: true}
	case 'z':
		return Answer{}, &openai.Unavailable{}
	}
	return a, nil
}

// traceRow returns row i of the source of a trace. The letters S, D, P, L and A say what is wrong with it.
func traceRow(i int, word string) dataset.Row {
	r := dataset.Row{Instruction: fmt.Sprintf("Write a Python function that keeps the prices above %d.", i),
		Output: fmt.Sprintf("def keep_%d(prices):\n    kept = []\n    for value in prices:\n        if value > %d:\n"+
			"            kept.append(value * 2)\n    return kept", i, i)}
	switch word[0] {
	case 'S':
		r.Output = "def broken(:\n    return"
	case 'D':
		return traceRow(0, "g")
	case 'P':
		r.Output = "There is nothing that a program could do about it, so it is a sentence."
	case 'L':
		r.Output = strings.Repeat("There is more of it. ", maxLook/20)
	case 'A':
		r.Output = "Then:\n```python\n" + r.Output + "\n```\nand:\n```python\nprint(keep_" + fmt.Sprint(i) + "([1, 2]))\n```"
	}
	return r
}

// trace runs words, one per row, with settings such as "rows=3 judge=35x", and returns what the run calls and counts.
func trace(t *testing.T, settings string, words ...string) string {
	var rows []map[string]string
	for i, w := range words {
		r := traceRow(i, w)
		rows = append(rows, map[string]string{"instruction": r.Instruction, "input": r.Input, "output": r.Output})
	}
	source, _ := json.Marshal(rows)
	if strings.Contains(settings, "broken") {
		source = bytes.TrimSuffix(source, []byte("]"))
	}
	path := expect.File(t, "rows.json", string(source))
	skipped := expect.File(t, "rows.jsonl", traceLines(words))
	dir, out := t.TempDir(), &strings.Builder{}
	var judge *Judge
	if _, tones, ok := strings.Cut(settings, "judge="); ok {
		judge = judgeOf(t, strings.Fields(tones)[0])
	}
	run := func(l *letters) {
		out.Reset()
		events := map[int]string{} // by row: how far the source is read before a decision depends on the time
		say := func(row int, format string, args ...any) { events[row] += fmt.Sprintf(format+"; ", args...) }
		got := runOnce(t, t.Context(), path, dir, l, 0, func(r *Run) {
			r.Refuse = func(row, attempt int, c dataset.Check) {
				say(row, "refuse %d.%d %s %.60s", row, attempt, c.ID, c.Value)
			}
			r.Reject = func(x dataset.Reject) error {
				say(x.SourceRow, "reject %d %s after %d, %d bytes", x.SourceRow, x.Check, x.Attempts, len(x.Answer))
				return nil
			}
			r.Pending = func(string, []byte) error { say(len(words), "pending"); return nil }
			r.Emit = func(row dataset.Rewritten, c dataset.Certificate) error {
				tone, passed := "", 0
				if c.Judge != nil {
					tone = fmt.Sprintf(" tone %d of %s", c.Judge.Tone, c.Judge.Model)
				}
				for _, k := range c.Checks {
					if k.Pass {
						passed++
					}
				}
				say(c.SourceRow, "emit %d.%d%s, %d checks, %d remarks", c.SourceRow, c.Attempt, tone, passed,
					strings.Count(row.OutputPassiveAggressive, "  # "))
				return nil
			}
			r.Judge = judge
			if strings.Contains(settings, "skip") {
				src, err := dataset.OpenAll(t.Context(), []string{skipped}, dataset.Options{SkipBad: true})
				expect.OK(t, err)
				r.Source = src
			}
			for _, s := range strings.Fields(settings) {
				setTrace(t, r, s)
			}
		})
		b, _ := json.Marshal(got.sum)
		var counts map[string]any
		json.Unmarshal(b, &counts)
		for name, v := range counts {
			if v == 0.0 || name == "first_refusals" || fmt.Sprint(v) == "map[]" {
				delete(counts, name)
			}
		}
		b, _ = json.Marshal(counts)
		for i := range len(words) + 1 {
			out.WriteString(events[i])
		}
		out.WriteString(strings.NewReplacer(`"`, "", "{", "(", "}", ")").Replace(string(b)))
		if got.err != nil {
			out.WriteString("; error: " + got.err.Error())
		}
	}
	run(&letters{words: words})
	if strings.Contains(settings, "again") {
		run(&letters{words: words})
	}
	text := out.String()
	if judge != nil {
		text = strings.ReplaceAll(text, judge.Endpoints[0], "JUDGE")
	}
	return strings.TrimSpace(strings.NewReplacer(path, "rows.json", skipped, "rows.jsonl").Replace(text))
}

// traceLines returns the rows of a trace as lines. The line for the letter U is not a row.
func traceLines(words []string) string {
	var b strings.Builder
	for i, w := range words {
		r := traceRow(i, w)
		if w[0] == 'U' {
			r.Instruction = "Write \xff"
		}
		fmt.Fprintf(&b, "{\"instruction\": %q, \"input\": \"\", \"output\": %q}\n", r.Instruction, r.Output)
	}
	return b.String()
}

// setTrace makes one setting of a trace.
func setTrace(t *testing.T, r *Run, s string) {
	key, value, _ := strings.Cut(s, "=")
	n, _ := strconv.Atoi(value)
	switch key {
	case "rows":
		r.Rows = n
	case "asked":
		r.MaxAsked = n
	case "spare":
		r.Spare = n
	case "comments":
		r.Comments = true
	case "language":
		r.Language = value
	case "batch":
		r.Teacher.(*letters).batch = true
	case "parse":
		r.Parse = func(code string) (string, error) {
			if strings.Contains(code, "keep_"+value+"(") {
				return "CPython says no", nil
			}
			return "", nil
		}
	}
}

// judgeOf returns a judge on a server of its own. The first of its letters is the minimum tone, and the others are
// the tones of rows: r refuses, x is not a tone, t only thinks.
func judgeOf(t *testing.T, tones string) *Judge {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Messages []struct{ Content string } }
		json.NewDecoder(r.Body).Decode(&request)
		row := 0
		for _, m := range request.Messages {
			if _, after, ok := strings.Cut(m.Content, "prices above "); ok {
				fmt.Sscan(after[:strings.IndexByte(after, '.')], &row)
			}
		}
		content, finish := "nothing", "stop"
		switch tone := tones[1+row%(len(tones)-1)]; tone {
		case 'r':
			w.WriteHeader(400)
			fmt.Fprint(w, `{"error": {"message": "I am no judge"}}`)
			return
		case 't':
			content, finish = "<think> hm", "length"
		default:
			content = fmt.Sprintf(`{"tone": %c, "professional": true, "technically_wrong": []}`, tone)
		}
		json.NewEncoder(w).Encode(map[string]any{"model": "j", "usage": map[string]int{"prompt_tokens": 5,
			"completion_tokens": 3}, "choices": []any{map[string]any{"index": 0, "finish_reason": finish,
			"message": map[string]any{"role": "assistant", "content": content}}}})
	}))
	t.Cleanup(server.Close)
	pool, err := openai.New(openai.Options{BaseURLs: []string{server.URL + "/v1"}, Retries: -1})
	expect.OK(t, err)
	t.Cleanup(pool.Close)
	return &Judge{Remote: Remote{Pool: pool, Model: "j", MaxTokens: 64, Endpoints: []string{server.URL + "/v1"}},
		MinTone: int(tones[0] - '0')}
}

// TestRun_CallsAsRecorded compares whole runs with a record of what they call and count.
func TestRun_CallsAsRecorded(t *testing.T) {
	expect.Recorded(t, "testdata/traces.txt", map[string]func(args ...string) string{
		"run": func(a ...string) string { return trace(t, a[0], strings.Fields(a[1])...) },
	})
}
