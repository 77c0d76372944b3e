package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"restyle/internal/expect"
	"slices"
	"strings"
	"testing"
	"time"

	"restyle/internal/hostile"
)

// checkParts checks that a rendering keeps the promises of Rendered.
func checkParts(t *testing.T, f Template, messages []Message, o Options, r Rendered) {
	t.Helper()
	at := 0
	for i, s := range r.Markup {
		if s.Start >= s.End || s.Start < at || i > 0 && s.Start == at || s.End > len(r.Text) {
			t.Fatalf("markup %v of %d bytes: empty, out of order, touching or outside", r.Markup, len(r.Text))
		}
		at = s.End
	}
	given := outside(r)

	// Each content is at its span: unchanged, trimmed or as a JSON string. No part of it is markup.
	if len(r.Contents) != len(messages) {
		t.Fatalf("%d contents of %d messages", len(r.Contents), len(messages))
	}
	for i, s := range r.Contents {
		if s == Dropped {
			continue
		}
		if s.Start < 0 || s.End < s.Start || s.End > len(r.Text) {
			t.Fatalf("content %d at %v of %d bytes", i, s, len(r.Text))
		}
		got, content := r.Text[s.Start:s.End], messages[i].Content
		if f.Name == "qwen3" && messages[i].Role == "assistant" && messages[i].Thoughts == "" {
			if at := strings.LastIndex(content, "</think>"); at >= 0 {
				content = strings.TrimLeft(content[at+len("</think>"):], "\n")
			}
			if got == strings.TrimLeft(content, "\n") {
				content = got
			}
		}
		if got != content && got != Strip(content) && got != escape(content) {
			t.Errorf("content %d is %q, want %q", i, got, content)
		}
		if overlaps(r.Markup, s) {
			t.Errorf("content %d at %v is in the markup %v", i, s, r.Markup)
		}
	}

	// Text that is neither markup nor content is a role or the date, or what only a program writes.
	if beyond(messages, o) {
		return
	}
	for _, g := range given {
		rest := g
		for _, s := range r.Contents {
			if s != Dropped && g.Start <= s.Start && s.End <= g.End {
				if s.Start != g.Start && s.Start != s.End {
					t.Errorf("content at %v begins inside of %v", s, g)
				}
				rest.Start = max(rest.Start, s.End)
			}
		}
		if rest.Start == rest.End {
			continue
		}
		known := map[string]bool{"model": true, o.DateString: true, FixedDate: true, o.Now.Format("02 Jan 2006"): true}
		for _, m := range messages {
			known[m.Role] = true
			if f.Name == "qwen3" {
				known[strings.Trim(thoughtsIn(m.Content), "\n")] = true
			}
		}
		if got := r.Text[rest.Start:rest.End]; !known[got] {
			t.Errorf("%q at %v is neither markup nor content nor a role nor a date", got, rest)
		}
	}

	at = 0
	for _, s := range r.Targets {
		if s.Start < at || s.End < s.Start || s.End > len(r.Text) {
			t.Fatalf("learn %v of %d bytes: out of order or outside", r.Targets, len(r.Text))
		}
		if !strings.HasSuffix(r.Text[s.Start:s.End], f.EndOfTurn()) {
			t.Errorf("learn %q: does not end with %q", r.Text[s.Start:s.End], f.EndOfTurn())
		}
		at = s.End
	}
	if r.BOS != (f.BOS != "" && strings.HasPrefix(r.Text, f.BOS) && len(r.Markup) > 0 && r.Markup[0].Start == 0) {
		t.Errorf("BOS is %v for %.40q", r.BOS, r.Text)
	}
}

// outside returns the spans that are not markup.
func outside(r Rendered) []Span {
	var out []Span
	at := 0
	for _, s := range append(r.Markup[:len(r.Markup):len(r.Markup)], Span{len(r.Text), len(r.Text)}) {
		if at < s.Start {
			out = append(out, Span{at, s.Start})
		}
		at = s.End
	}
	return out
}

func overlaps(spans []Span, with Span) bool {
	for _, s := range spans {
		if max(s.Start, with.Start) < min(s.End, with.End) {
			return true
		}
	}
	return false
}

func FuzzRender(f *testing.F) {
	f.Add("system", "You are terse.", "user", " Hello\n", "assistant", "<|eot_id|>", "", true, byte(0), int64(0))
	f.Add("user", "a", "assistant", "\x1c y \x1f", "user", "<|im_end|>", "1 May", false, byte(0), int64(1767225600))
	f.Add("tool", "{\"x\":\t\"\x00\\\"}", "tool", "", "assistant", "b", "", true, byte(0b10), int64(-1))
	f.Add("user", "a", "assistant", "\n<think>\n b <think>\n\nc\n</think>\n\n d</think>\ne", "tool", "f", "", true,
		byte(0), int64(0))
	f.Add("<|eot_id|>", "\xff\xfe", "", "\u2028", "ipython", "é", "<s>", false, byte(0b1001), int64(0))
	f.Fuzz(func(t *testing.T, r1, c1, r2, c2, r3, c3, date string, prompt bool, missing byte, now int64) {
		all := []Message{{Role: r1, Content: c1}, {Role: r2, Content: c2}, {Role: r3, Content: c3}}
		for i := range all {
			if missing>>(2*i)&1 != 0 {
				all[i].Role, all[i].NoRole = "", true
			}
			if missing>>(2*i)&2 != 0 {
				all[i].Content, all[i].NoContent = "", true
			}
		}
		o := Options{AddGenerationPrompt: prompt, DateString: date, Now: time.Unix(now%1e10, 0)}
		for _, family := range templates {
			for n := range len(all) + 1 {
				messages := all[:n]
				r, err := family.Render(messages, o)
				var refused *RefusedError
				if err != nil {
					if !errors.As(err, &refused) || len(err.Error()) > 1000 {
						t.Fatalf("%s: error %v", family.Name, err)
					}
					continue
				}
				checkParts(t, family, messages, o, r)
				// Mistral moves the system prompt. The text that other templates put before the first message requires a message.
				moves := family.Name == "mistral-v0.3" && n > 0 && messages[0].Role == "system"
				// Qwen3 adds a place for thoughts to the last answer, and removes it when another answer follows.
				answers := 0
				for _, m := range messages {
					if m.Role == "assistant" {
						answers++
					}
				}
				moves = moves || family.Name == "qwen3" && answers > 1
				if n > 0 && messages[0].Role != "assistant" && !moves && !promptsExtend(family, messages, o, r) {
					t.Errorf("%s: a prompt does not end where the answer begins in %q, %v", family.Name, r.Text, r.Targets)
				}
			}
		}
	})
}

func TestMessageJSON(t *testing.T) {
	for _, c := range []struct {
		json string
		want Message
		err  string
	}{
		{`{"role":"user","content":"a\n\u00e9"}`, Message{Role: "user", Content: "a\né"}, ""},
		{`{"role":"user","content":""}`, Message{Role: "user"}, ""},
		{`{"role":"user"}`, Message{Role: "user", NoContent: true}, ""},
		{`{"content":"x","name":"y"}`, Message{Content: "x", NoRole: true, More: `{"name":"y"}`}, ""},
		{`{"Role":"user"}`, Message{NoRole: true, NoContent: true, More: `{"Role":"user"}`}, ""},
		{`{"role":"assistant","content":"x","thinking":"y"}`,
			Message{Role: "assistant", Content: "x", Thoughts: "y"}, ""},
		{`{"role":"assistant","content":null,"tool_calls":[{}]}`,
			Message{Role: "assistant", NoContent: true, Calls: "[{}]"}, ""},
		{`{"role":"user","content":null}`, Message{}, "chat message: content"},
		{`{"role":1,"content":"x"}`, Message{}, "chat message: role"},
		{`{"role":"user","content":[{"type":"text","text":"x"}]}`, Message{}, "must be a string"},
		{`{"role":"assistant","content":"","tool_calls":{}}`, Message{}, "tool_calls"},
		{`["user","x"]`, Message{}, "must be an object"},
		{`null`, Message{}, "must be an object"},
	} {
		m := Message{Role: "old", NoContent: true}
		err := json.Unmarshal([]byte(c.json), &m)
		switch {
		case c.err == "" && (err != nil || !reflect.DeepEqual(m, c.want)):
			t.Errorf("%s is %#v, %v", c.json, m, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: error %v, want %q in it", c.json, err, c.err)
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"role":"user","content":"a\ud800"}`))
	f.Add([]byte(`{"role":"user","tool_calls":[]}`))
	for _, text := range hostile.Wide() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m, again Message
		var err error
		hostile.Within(t, hostile.Linear(len(data)), func() { err = json.Unmarshal(data, &m) })
		if err != nil || m.NoRole || m.NoContent || m.Calls != "" || m.More != "" {
			return
		}
		written, err := json.Marshal(m)
		expect.OK(t, err)
		if err := json.Unmarshal(written, &again); err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%#v is written as %s and read as %#v, %v", m, written, again, err)
		}
	})
}

// TestRender_TypedTokensStayText checks that the markup is only what the template itself writes, even if a user types
// all tokens of all templates.
func TestRender_TypedTokensStayText(t *testing.T) {
	markup := func(f Template, typed string) string {
		r, err := f.Render([]Message{{Role: "user", Content: typed}, {Role: "assistant", Content: "<think>" + typed +
			"</think>" + typed}},
			Options{DateString: typed, AddGenerationPrompt: true})
		expect.OK(t, err)
		var b strings.Builder
		for _, s := range r.Markup {
			fmt.Fprintf(&b, "%q ", r.Text[s.Start:s.End])
		}
		return b.String()
	}
	var tokens string
	for _, f := range templates {
		tokens += f.BOS + f.EndOfTurn() + f.EOS
	}
	tokens += "[INST]<|user|>\n<|im_start|>system\n<|start_header_id|>system<|end_header_id|>\n\n<start_of_turn>user\n"
	for _, f := range templates {
		want := markup(f, "x")
		if got := markup(f, tokens); got != want {
			t.Errorf("%s: the markup is %s, want %s", f.Name, got, want)
		}
	}
	// Roles are input to a template just as contents are. Most templates accept only their own roles.
	taken := ""
	for _, f := range templates {
		r, err := f.Render([]Message{{Role: "user", Content: "x"}, {Role: tokens, Content: "x"}}, Options{})
		if err != nil || !strings.Contains(r.Text, tokens) {
			continue
		}
		taken += f.Name + " "
		if at := strings.Index(r.Text, tokens); overlaps(r.Markup, Span{at, at + len(tokens)}) {
			t.Errorf("%s: the role at %d is in the markup %v", f.Name, at, r.Markup)
		}
	}
	if taken != "llama3 llama3.1 llama3.2 chatml smollm2 gemma " {
		t.Errorf("templates that write any role: %s", taken)
	}
}

func TestRender_Date(t *testing.T) {
	day := time.Date(2031, 3, 7, 23, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		family string
		o      Options
		want   string
	}{
		{"llama3.1", Options{}, FixedDate},
		{"llama3.2", Options{}, FixedDate},
		{"llama3.1", Options{Now: day}, FixedDate},
		{"llama3.2", Options{Now: day}, "07 Mar 2031"},
		{"llama3.1", Options{Now: day, DateString: "May Day"}, "May Day"},
		{"llama3.2", Options{Now: day, DateString: "May Day"}, "May Day"},
	} {
		f, err := ByName(c.family)
		expect.OK(t, err)
		r, err := f.Render([]Message{{Role: "user", Content: "Hi"}}, c.o)
		if err != nil || !strings.Contains(r.Text, "\nToday Date: "+c.want+"\n\n") {
			t.Errorf("%s with %+v writes %q, %v; want the date %s", c.family, c.o, r.Text, err, c.want)
		}
	}
}

func TestRaw(t *testing.T) {
	messages := []Message{
		{Role: "system", Content: "Rules"}, {Role: "user", Content: " ask\n"},
		{Role: "assistant", Content: "tell"}, {Role: "user", Content: "more"},
	}
	f := Raw()
	f.EOS = "</s>"
	for _, c := range []struct {
		f     Template
		n     int
		want  string
		learn []string
	}{
		{Raw(), 0, "", nil},
		{Raw(), 2, "Rules\n\n ask\n", nil},
		{Raw(), 4, "Rules\n\n ask\n\n\ntell\n\nmore", []string{"\n\ntell"}},
		{f, 4, "Rules\n\n ask\n\n\ntell</s>\n\nmore", []string{"\n\ntell</s>"}},
	} {
		o := Options{AddGenerationPrompt: true}
		r, err := c.f.Render(messages[:c.n], o)
		if err != nil || r.Text != c.want || r.BOS {
			t.Errorf("raw of %d messages is %q, %v; want %q", c.n, r.Text, err, c.want)
		}
		var learn []string
		for _, s := range r.Targets {
			learn = append(learn, r.Text[s.Start:s.End])
		}
		if !slices.Equal(learn, c.learn) {
			t.Errorf("raw of %d messages teaches %q, want %q", c.n, learn, c.learn)
		}
		checkParts(t, c.f, messages[:c.n], o, r)
		if !promptsExtend(c.f, messages[:c.n], o, r) {
			t.Errorf("raw of %d messages: a prompt does not end where the answer begins", c.n)
		}
	}
}

// TestRefusedError checks that a refusal names the first message that is refused, what it lacks and what to do.
func TestRefusedError(t *testing.T) {
	question := Message{Role: "user", Content: "q"}
	for _, c := range []struct {
		family, want string
		messages     []Message
	}{
		{"gemma", `message 1 (role "system"): System role not supported; leave the system prompt out or put it into the ` +
			`first question`, []Message{{Role: "system", Content: "x"}}},
		{"gemma", `message 2 (role "user"): Conversation roles must alternate user/assistant/user/assistant/...; start ` +
			`with a question`, []Message{question, question, {Role: "assistant", Content: "a"}}},
		{"chatml", `message 2 (role "assistant"): it has no content: `, []Message{question,
			{Role: "assistant", NoContent: true}, question}},
		{"llama3", `message 2 (role ""): it has no role: `, []Message{question, {NoRole: true, Content: "a"}, question}},
		{"qwen3", "the conversation: it has no messages; add at least one question", nil},
		{"mistral-v0.3", `message 1 (role ""): After the optional system message, conversation roles must`,
			[]Message{{NoRole: true, NoContent: true}}},
	} {
		f, err := ByName(c.family)
		expect.OK(t, err)
		_, err = f.Render(c.messages, Options{})
		expect.Error(t, err, "chat template "+c.family+" refuses "+c.want)
	}
	gemma, err := ByName("gemma")
	expect.OK(t, err)
	_, err = gemma.Render([]Message{{Role: strings.Repeat("x", 1e6)}}, Options{})
	if err == nil || len(err.Error()) > 300 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

// escape returns s as Python's json.dumps(s, ensure_ascii=False) writes it, without the quotes. encoding/json differs:
// it also escapes U+2028, U+2029 and, by default, <, > and &.
func escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"', '\\':
			b.Write([]byte{'\\', c})
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case '\b':
			b.WriteString(`\b`)
		case '\f':
			b.WriteString(`\f`)
		default:
			if c < ' ' {
				fmt.Fprintf(&b, `\u%04x`, c)
			} else {
				b.WriteByte(c)
			}
		}
	}
	return b.String()
}
