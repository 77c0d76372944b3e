package chat

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"restyle/internal/expect"
)

// golden is one rendering by Jinja2, from testdata/make.py or from the reference data.
type golden struct {
	Name     string
	Messages []Message
	Options  struct {
		AddGenerationPrompt bool   `json:"add_generation_prompt"`
		DateString          string `json:"date_string"`
		Now                 string
		Tools               json.RawMessage
	}
	Text      *string
	Error     *string
	ErrorType string `json:"error_type"`

	// of testdata/goldens.jsonl
	Family   string
	Contents []*[2]int
	Learn    [][2]int

	// of the reference data
	Spans        [][2]int  // in code points
	SpansBytes   [][2]int  `json:"spans_bytes"`
	ContentSpans []*[2]int `json:"content_spans"` // in code points
	PrefixOK     bool      `json:"prefix_ok"`
	Tokens
}

// Tokens are a conversation's tokens, which packages tokenizer and training compare.
type Tokens struct {
	IDs            json.RawMessage `json:"ids"`
	LossTokens     json.RawMessage `json:"loss_tokens"`
	IDsSafe        json.RawMessage `json:"ids_safe"`
	LossTokensSafe json.RawMessage `json:"loss_tokens_safe"`
}

func readGoldens(t testing.TB, path string) (rows []golden) {
	t.Helper()
	expect.Lines(t, path, func(_ int, g golden) { rows = append(rows, g) })
	return rows
}

func (g golden) options(t testing.TB) Options {
	t.Helper()
	o := Options{AddGenerationPrompt: g.Options.AddGenerationPrompt, DateString: g.Options.DateString,
		Tools: string(g.Options.Tools)}
	if g.Options.Now != "" {
		now, err := time.Parse("2006-01-02T15:04:05", g.Options.Now)
		expect.OK(t, err)
		o.Now = now
	}
	return o
}

// check compares a rendering with the text or the error of g. It compares the words of an error only if they are the
// template's own and not Python's. ok is false if g is an error.
func (g golden) check(t *testing.T, f Template) (r Rendered, ok bool) {
	t.Helper()
	r, err := f.Render(g.Messages, g.options(t))
	if g.Error != nil {
		var refused *RefusedError
		switch {
		case !errors.As(err, &refused):
			t.Fatalf("got %q and the error %v, want %q", r.Text, err, *g.Error)
		case *g.Error != "" && (g.ErrorType == "" || g.ErrorType == "TemplateError") && refused.Reason != *g.Error:
			t.Errorf("refused: %s\nwant     %s", refused.Reason, *g.Error)
		case refused.Template != f.Name, refused.Reason == "", refused.Advice == "":
			t.Errorf("refused without a family, reason or advice: %#v", refused)
		}
		return Rendered{}, false
	}
	if err != nil {
		t.Fatalf("%v, want %q", err, *g.Text)
	}
	if r.Text != *g.Text {
		t.Fatalf("got  %q\nwant %q", r.Text, *g.Text)
	}
	checkParts(t, f, g.Messages, g.options(t), r)
	return r, true
}

func TestGoldens(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range readGoldens(t, "testdata/goldens.jsonl") {
		t.Run(g.Family+"/"+g.Name, func(t *testing.T) {
			f, err := ByName(g.Family)
			expect.OK(t, err)
			seen[g.Family] = true
			r, ok := g.check(t, f)
			if !ok {
				return
			}
			for i, want := range g.Contents {
				got := r.Contents[i]
				switch {
				case want != nil && want[0] < want[1] && got != Span{want[0], want[1]}:
					t.Errorf("content of message %d at %v, want %v", i, got, *want)
				case (want == nil || want[0] == want[1]) && got != Dropped:
					t.Errorf("content of message %d at %v, want none", i, got)
				}
			}
			if got := pairs(r.Targets); !slices.Equal(got, g.Learn) || (r.NoTargets == nil) != (g.Learn != nil) {
				t.Errorf("learn %v, %v, want %v", got, r.NoTargets, g.Learn)
			}
		})
	}
	for _, name := range Names() {
		if !seen[name] && name != "raw" {
			t.Errorf("no golden of %s", name)
		}
	}
}

func TestReferenceGoldens(t *testing.T) {
	for _, c := range expect.Chats(t) {
		f, err := ByName(c.Name)
		expect.OK(t, err)
		for _, g := range readGoldens(t, c.File) {
			t.Run(c.Name+"/"+g.Name, func(t *testing.T) {
				if r, ok := g.check(t, f); ok {
					g.checkSpans(t, f, r)
				}
			})
		}
	}
}

// checkSpans compares the positions in a rendering.
func (g golden) checkSpans(t *testing.T, f Template, r Rendered) {
	t.Helper()
	if got := pairs(r.Targets); !slices.Equal(got, g.SpansBytes) {
		t.Errorf("learn %v, want %v", got, g.SpansBytes)
	}
	if len(g.Spans) != len(r.Targets) {
		t.Fatalf("learn %v, want %v in code points", r.Targets, g.Spans)
	}
	for i, want := range g.Spans {
		if got := points(r.Text, r.Targets[i]); got != want {
			t.Errorf("learn %v in code points, want %v", got, want)
		}
	}
	if len(g.ContentSpans) != len(r.Contents) {
		t.Fatalf("contents %v, want %d", r.Contents, len(g.ContentSpans))
	}
	for i, want := range g.ContentSpans {
		switch got := r.Contents[i]; {
		case (want == nil || want[0] == want[1]) && got != Dropped:
			t.Errorf("content of message %d at %v, want it dropped", i, got)
		case want != nil && want[0] < want[1] && (got == Dropped || points(r.Text, got) != *want):
			t.Errorf("content of message %d at %v in bytes, want %v in code points", i, got, *want)
		}
	}
	if len(g.Spans) > 0 {
		if got := promptsExtend(f, g.Messages, g.options(t), r); got != g.PrefixOK {
			t.Errorf("prompts are prefixes: %v, want %v", got, g.PrefixOK)
		}
	}
}

// TestReferenceTemplates detects templates/NAME.jinja next to the conversations by its text.
func TestReferenceTemplates(t *testing.T) {
	for _, c := range expect.Chats(t) {
		f, err := ByName(c.Name)
		expect.OK(t, err)
		text := expect.Read(t, filepath.Join(filepath.Dir(c.File), "templates", c.Name+".jinja"))
		bare := strings.TrimSuffix(text, "\n")
		for _, text := range []string{text, bare, bare + "\n", bare + "\r\n", strings.ReplaceAll(text, "\n", "\r\n")} {
			if got, err := Detect(text); err != nil || got.Name != f.Name {
				t.Errorf("%s is detected as %q, %v", f.Name, got.Name, err)
			}
		}
		// Conversations that only a program can render are rendered by the model's own.
		own, err := Detect(text)
		for _, g := range readGoldens(t, "testdata/goldens.jsonl") {
			if g.Family == f.Name && err == nil && beyond(g.Messages, g.options(t)) {
				g.check(t, own)
			}
		}
		// Another text is another template, and renders the same.
		got, err := Detect(bare + "{# #}")
		if err != nil || got.Name == f.Name {
			t.Errorf("%s with a comment is detected as %q, %v", f.Name, got.Name, err)
			continue
		}
		got.BOS, got.EOS = f.BOS, f.EOS
		for _, g := range readGoldens(t, c.File) {
			want, wantErr := f.Render(g.Messages, g.options(t))
			r, err := got.Render(g.Messages, g.options(t))
			if (err != nil) != (wantErr != nil) || err == nil && r.Text != want.Text {
				t.Errorf("%s as a program renders %q, %v, want %q, %v", f.Name, r.Text, err, want.Text, wantErr)
			}
		}
	}
}

// TestReferenceStrip compares Strip with Python's str.strip on every code point.
func TestReferenceStrip(t *testing.T) {
	for _, path := range expect.Recordings(t, "unicode_classes.json") {
		var classes struct{ Strip [][2]rune }
		expect.OK(t, json.Unmarshal([]byte(expect.Read(t, path)), &classes))
		for r := range utf8.MaxRune + 1 {
			want := slices.ContainsFunc(classes.Strip, func(c [2]rune) bool { return c[0] <= r && r <= c[1] })
			if got := Strip(string(r)) == ""; got != want {
				t.Errorf("Strip takes U+%04X: %v, want %v", r, got, want)
			}
		}
	}
}

func pairs(spans []Span) [][2]int {
	out := make([][2]int, len(spans))
	for i, s := range spans {
		out[i] = [2]int{s.Start, s.End}
	}
	return out
}

// points converts a span of bytes to code points.
func points(text string, s Span) [2]int {
	return [2]int{utf8.RuneCountInString(text[:s.Start]), utf8.RuneCountInString(text[:s.End])}
}

// promptsExtend reports whether each answer directly follows the prompt that would have asked for it.
func promptsExtend(f Template, messages []Message, o Options, r Rendered) bool {
	o.AddGenerationPrompt = true
	answers := r.Targets
	for i, m := range messages {
		if m.Role != "assistant" {
			continue
		}
		before, err := f.Render(messages[:i], o)
		if err != nil || before.Text != r.Text[:answers[0].Start] {
			return false
		}
		answers = answers[1:]
	}
	return len(answers) == 0
}
