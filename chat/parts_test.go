package chat

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"restyle/chat/jinja"
	"restyle/internal/expect"
)

// TestParts checks small steps of rendering against their rules, on both sides of each.
func TestParts(t *testing.T) {
	for content, want := range map[string]string{"": "", "a": "", "<think>\nt\n</think>\n\na": "t",
		"t\n\n</think>a":                     "t",
		"x<think>y<think>z</think>a</think>": "z", "<think></think>": "", "</think>": "", "<think>t": ""} {
		if got := thoughtsIn(content); got != want {
			t.Errorf("thoughts of %q: %q, want %q", content, got, want)
		}
	}
	for _, c := range []struct {
		text  string
		given []jinja.Span
		want  int
	}{
		{"<think>", nil, 0}, {"a<think>\n", nil, 1}, {"a<think>b", nil, -1}, {"a", nil, -1}, {"<think><think>", nil, 7},
		{"a<think>", []jinja.Span{{Start: 0, End: 1}}, 1}, {"a<think>", []jinja.Span{{Start: 0, End: 2}}, -1},
		{"ab<think>", []jinja.Span{{Start: 0, End: 1}, {Start: 1, End: 9}}, -1},
	} {
		if got := opening(jinja.Output{Text: c.text, Given: c.given}); got != c.want {
			t.Errorf("%q, given %v: %d, want %d", c.text, c.given, got, c.want)
		}
	}
	for r := rune(1); r < 0x10000; r++ { // as Python's str.strip
		blank := strings.ContainsRune("\t\n\v\f\r\x1c\x1d\x1e\x1f \u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000", r) ||
			0x2000 <= r && r <= 0x200a
		if got := Strip("a" + string(r)); (got == "a") != blank {
			t.Errorf("%U: %q", r, got)
		}
	}
	span := func(from, to, source int) jinja.Span { return jinja.Span{Start: from, End: to, Source: source} }
	for _, c := range []struct {
		given []jinja.Span
		want  Span
	}{
		{nil, Dropped}, {[]jinja.Span{span(0, 2, 1)}, Dropped},
		{[]jinja.Span{span(0, 2, 7), span(3, 5, 7), span(6, 9, 1)}, Span{3, 5}},
		{[]jinja.Span{span(0, 2, 7), span(2, 5, 7)}, Span{0, 5}}, {[]jinja.Span{span(0, 2, 1), span(2, 5, 7)}, Span{2, 5}},
	} {
		if got := last(c.given, 7); got != c.want {
			t.Errorf("%v: %v, want %v", c.given, got, c.want)
		}
	}
	for more, want := range map[string]string{"": "", `{"tools":[1]}`: "tools", `{"functions":{"a":1}}`: "functions",
		`{"tools":[],"function_calls":[1]}`: "function_calls", `{"x":"tools"}`: "", `{"tools":""}`: "",
		`{"tools":null}`: "",
		`{"tools":"[]"}`: "", `{"tools":{}}`: "", `tools`: ""} {
		if got := (Message{More: more}).tools(); got != want {
			t.Errorf("%s: %q, want %q", more, got, want)
		}
	}
	for _, m := range []Message{{Content: " a"}, {Thoughts: "t"}, {Calls: "[1]"}} {
		if !m.Says() || (Message{Content: " \n", More: "{}"}).Says() {
			t.Errorf("%+v says nothing, or a blank one something", m)
		}
	}
	m := Message{Role: "old", Calls: "old", Thoughts: "old", More: "old"}
	if err := json.Unmarshal([]byte(`{"content":"a"}`), &m); err != nil ||
		!reflect.DeepEqual(m, Message{Content: "a", NoRole: true}) {
		t.Errorf("read into another message: %+v, %v", m, err)
	}
	for text, want := range map[string]string{`{"tool_calls":7}`: "must be a list",
		`{"tool_calls":"[1]"}`:                    "must be a list",
		`{"role":"a","content":"b","thinking":7}`: `thinking "7"`, `{"role":"a","content":null}`: `content "null"`} {
		expect.Error(t, json.Unmarshal([]byte(text), &m), want)
	}
	for text, want := range map[string]Message{`{"role":"a","content":null,"tool_calls":[1]}`: {Role: "a",
		NoContent: true, Calls: "[1]"},
		`{"role":"a","content":"b","tool_calls":null}`:                     {Role: "a", Content: "b"},
		`{"role":"a","content":"b","reasoning":"","thinking":"t","cot":1}`: {Role: "a", Content: "b", Thoughts: "t"}} {
		if err := json.Unmarshal([]byte(text), &m); err != nil || !reflect.DeepEqual(m, want) {
			t.Errorf("%s: %+v, %v", text, m, err)
		}
	}
}

// TestEnds finds what a template writes after an answer: EOS, or else the first word.
func TestEnds(t *testing.T) {
	const talk = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% if m.role == 'assistant' %}"
	for _, c := range []struct{ end, eos, want string }{
		{"<end>", "", "<end>"}, {" <end> more", "", "<end>"}, {"</s>", "</s>", "</s>"}, {"x</s>", "</s>", "</s>"},
		{"<end>", "</s>", "<end>"},
		{"", "", ""}, {"", "</s>", "</s>"},
	} {
		template, err := Detect(talk + c.end + "{% endif %}{% endfor %}")
		expect.OK(t, err)
		template.EOS = c.eos
		if got := template.EndOfTurn(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
		r, err := template.Render([]Message{{Role: "user", Content: "q"}, {Role: "assistant", Content: "a"}}, Options{})
		if err != nil || (r.NoTargets == nil) != (c.end != "") {
			t.Errorf("%+v: targets %v, %v, %v", c, r.Targets, r.NoTargets, err)
		}
	}
}

// TestWrongMessages names the message, variables or tools whose JSON cannot be read, and gives templates without
// documents none.
func TestWrongMessages(t *testing.T) {
	template, err := Detect("{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ m.tool_calls }}{{ m.x }}<end>" +
		"{% endfor %}{% if documents is none %}none{% endif %}{{ tools or '' }}")
	expect.OK(t, err)
	first := Message{Role: "user", Content: "a"}
	for want, m := range map[string]Message{"message 2: tool_calls: ": {Role: "assistant", Calls: "["},
		"message 2: ": {Role: "user", Content: "b", More: "{"}} {
		_, err := template.Render([]Message{first, m}, Options{})
		expect.Error(t, err, want)
	}
	for want, o := range map[string]Options{"chat: variables: ": {Variables: "{"}, "chat: tools: ": {Tools: "["}} {
		_, err := template.Render([]Message{first}, o)
		expect.Error(t, err, want)
	}
	if got, err := template.Render([]Message{first}, Options{}); err != nil || got.Text != "[user]a<end>none" {
		t.Errorf("%q, %v", got.Text, err)
	}
}

// TestFrom renders a conversation from its second answer on, by a template with a name and by one without.
func TestFrom(t *testing.T) {
	named, err := ByName("chatml")
	expect.OK(t, err)
	read, err := Detect(strings.ReplaceAll(named.Jinja(), "<|im_end|>", "<|end|>"))
	expect.OK(t, err)
	messages := []Message{{Role: "user", Content: "a"}, {Role: "assistant", Content: "b"}, {Role: "user", Content: "c"},
		{Role: "assistant", Content: "d"}, {Role: "user", Content: "e"}, {Role: "assistant", Content: "f"}}
	for _, template := range []Template{named, read} {
		whole, err := template.Render(messages, Options{})
		if err != nil || len(whole.Targets) != 3 {
			t.Fatalf("%s: %v, %v, %v", template.Name, whole.Targets, whole.NoTargets, err)
		}
		for from := range len(messages) + 2 {
			got, err := template.Render(messages, Options{From: from})
			if want := whole.Targets[min(from/2, 3):]; err != nil || !slices.Equal(got.Targets, want) {
				t.Errorf("%s from %d: %v, %v, want %v", template.Name, from, got.Targets, err, want)
			}
		}
	}
	// All thoughts of an answer from there on have to be in the text.
	marked, err := Detect("{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<end>" +
		"{% endgeneration %}{{ m.thinking if m.tool_calls }}{% else %}{{ m.content }}{% endif %}{% endfor %}")
	expect.OK(t, err)
	for from, known := range []bool{false, false, true} {
		r, err := marked.Render([]Message{{Role: "user", Content: "a"}, {Role: "assistant", Content: "b", Thoughts: "deep"}},
			Options{From: from})
		if err != nil || (r.NoTargets == nil) != known {
			t.Errorf("thoughts that are left out, from %d: %v, %v", from, r.NoTargets, err)
		}
	}
}
