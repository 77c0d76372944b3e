package toolcalls

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"restyle/chat"
	"restyle/internal/expect"
	"restyle/internal/hostile"
)

var (
	tags    = Form{inTags, "<tool_call>", "</tool_call>", "arguments"}
	lists   = Form{inList, listTag, "", "arguments"}
	objects = Form{bare, "", "", "parameters"}
)

func TestFormOf(t *testing.T) {
	for _, c := range []struct {
		template string
		want     Form
		err      string
	}{
		{"qwen2.5", tags, ""},
		{"qwen3", tags, ""},
		{"llama3.1", objects, ""},
		{"llama3.2", objects, ""},
		{"mistral-v0.3", lists, ""},
		{"chatml", Form{}, "chatml refuses"},
		{"gemma", Form{}, "gemma refuses"},
		{"raw", Form{}, "raw refuses"},
	} {
		template, err := chat.ByName(c.template)
		expect.OK(t, err)
		got, err := FormOf(template)
		if c.err != "" {
			expect.Error(t, err, "the model takes no tools", c.err)
		} else if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", c.template, got, err)
		}
	}
	program, err := chat.Detect("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls %}" +
		"{{ c.function.name }}({{ c.function.arguments | tojson }}){% endfor %}{% endfor %}{{ tools | tojson if tools }}")
	expect.OK(t, err)
	_, err = FormOf(program)
	expect.Error(t, err, "writes calls in a form that is not supported")
}

func TestRead(t *testing.T) {
	const f = `{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}`
	const g = `{"type":"function","function":{"name":"g"}}`
	for _, c := range []struct{ tools, choice, want, err string }{
		{"", "", "none", ""},
		{"[]", `"auto"`, "none", ""},
		{"null", "null", "none", ""},
		{"[" + f + "]", "", "auto", ""},
		{"[" + f + "]", `"none"`, "none", ""},
		{"[" + f + "]", `"required"`, "required", ""},
		{"[" + f + "," + g + "]", `{"type":"function","function":{"name":"g"}}`, "required g", ""},
		{"{}", "", "", "tools: must be a list"},
		{`[{"type":"web_search"}]`, "", "", `tools[0].type "web_search": only functions`},
		{`[{"type":"function","function":{"name":"a b"}}]`, "", "", "tools[0].function.name"},
		{"[" + f + "," + f + "]", "", "", "another tool has that name"},
		{`[{"type":"function","function":{"name":"f","parameters":[]}}]`, "", "", "must be a JSON schema"},
		{"[" + f + "]", `"any"`, "", `tool_choice "any"`},
		{"[" + f + "]", `{"type":"function","function":{"name":"h"}}`, "", `no function "h"`},
		{"[" + f + "]", `1`, "", "tool_choice 1"},
		{"", `"required"`, "", "there are no tools"},
		{"[" + strings.Repeat(g+",", 128) + f + "]", "", "", "at most 128"},
	} {
		s, err := Read([]byte(c.tools), []byte(c.choice))
		if c.err != "" {
			expect.Error(t, err, c.err)
		} else if got := strings.TrimSpace(string(s.Choice) + " " + s.Named); err != nil || got != c.want {
			t.Errorf("%s %s: %q, %v", c.tools, c.choice, got, err)
		}
	}
}

// TestNested_TakesOtherAPIs checks tools and choices of OpenAI's responses and of Anthropic's messages.
func TestNested_TakesOtherAPIs(t *testing.T) {
	const nested = `{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}`
	for _, c := range []struct{ tools, choice, wantTools, wantChoice string }{
		{"[" + nested + "]", `"auto"`, "[" + nested + "]", `"auto"`},
		{`[{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":true}]`,
			`{"type":"function","name":"f"}`, "[" + nested + "]", `{"type":"function","function":{"name":"f"}}`},
		{`[{"name":"f","description":"d","input_schema":{"type":"object"}}]`, `{"type":"any"}`, "[" + nested + "]",
			`"required"`},
		{`[{"type":"custom","name":"f","input_schema":null}]`, `{"type":"tool","name":"f"}`,
			`[{"type":"function","function":{"name":"f"}}]`, `{"type":"function","function":{"name":"f"}}`},
		{`[{"type":"web_search_20250305","name":"web_search"}]`, `{"type":"auto"}`,
			`[{"type":"web_search_20250305","name":"web_search"}]`, `"auto"`},
		{"7", "8", "7", "8"},
		{"", "", "", ""},
	} {
		tools, choice := Nested([]byte(c.tools), []byte(c.choice))
		if string(tools) != c.wantTools || string(choice) != c.wantChoice {
			t.Errorf("%s %s: %s %s", c.tools, c.choice, tools, choice)
		}
	}
}

func set(t testing.TB, choice string) Set {
	t.Helper()
	s, err := Read([]byte(`[{"type":"function","function":{"name":"f","description":"x","parameters":{"type":"object",`+
		`"properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}}},`+
		`{"function":{"name":"g"},"type":"function"}]`), []byte(choice))
	expect.OK(t, err)
	return s
}

func TestSet_SchemaIsOfCalls(t *testing.T) {
	const f = `{"type":"object","properties":{"name":{"const":"f"},"arguments":{"$id":"f","type":"object",` +
		`"properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}},` +
		`"required":["name","arguments"],"additionalProperties":false}`
	const g = `{"type":"object","properties":{"name":{"const":"g"},"parameters":{"$id":"g","type":"object",` +
		`"properties":{},"additionalProperties":false}},"required":["name","parameters"],"additionalProperties":false}`
	for _, c := range []struct {
		choice string
		form   Form
		want   string
	}{
		{`"auto"`, tags, ""},
		{`"none"`, tags, ""},
		{`{"type":"function","function":{"name":"f"}}`, tags, `{"anyOf":[` + f + `]}`},
		{`{"type":"function","function":{"name":"g"}}`, objects, `{"anyOf":[` + g + `]}`},
		{`"required"`, lists, `{"type":"array","items":{"anyOf":[` + f + `,` +
			strings.ReplaceAll(g, "parameters", "arguments") + `]},"minItems":1}`},
	} {
		if got := string(set(t, c.choice).Schema(c.form)); got != c.want {
			t.Errorf("%s: got %s\nwant %s", c.choice, got, c.want)
		}
	}
	if got := set(t, "").Text(); !json.Valid([]byte(got)) || !strings.Contains(got, `{"name":"f","description":"x"`) {
		t.Errorf("the tools have changed: %s", got)
	}
}

// answers lists answers of models, and what they contain.
var answers = []struct {
	name, form, answer, want string
}{
	{"text", "tags", "Hello <b>!\n", "Hello <b>!\n"},
	{"a call", "tags", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>", `|f({"a": 1})`},
	{"text before", "tags", "Well.\n\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n", `Well.|f({})`},
	{"two calls", "tags", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n" +
		"<tool_call>\n{\"name\": \"g\", \"arguments\": {\"b\": \"}\\\"\"}}\n</tool_call>", `|f({"a": 1})|g({"b": "}\""})`},
	{"text after", "tags", "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call> so", " so|g({})"},
	{"arguments first", "tags", "<tool_call>{\"arguments\": {\"a\": [1, {}]}, \"name\": \"f\", \"id\": 3}</tool_call>",
		`|f({"a": [1, {}]})`},
	{"no arguments", "tags", "<tool_call>{\"name\": \"g\"}</tool_call>", `|g({})`},
	{"null", "tags", "<tool_call>{\"name\": \"g\", \"arguments\": null}</tool_call>", `|g({})`},
	{"arguments in a string", "tags", `<tool_call>{"name": "f", "arguments": "{\"a\": 1}"}</tool_call>`, `|f({"a": 1})`},
	{"cut", "tags", `<tool_call>{"name": "f", "arguments": {"a": "x`, `|f({"a": "x)`},
	{"cut before the name", "tags", `So <tool_call>{"na`, `So <tool_call>{"na`},
	{"no object", "tags", "a <tool_call> b", "a <tool_call> b"},
	{"no such tool", "tags", `<tool_call>{"name": "h", "arguments": {}}</tool_call>`,
		`<tool_call>{"name": "h", "arguments": {}}</tool_call>`},
	{"no JSON", "tags", "<tool_call>{]}</tool_call> <tool_call>{\"name\": \"g\"}", "<tool_call>{]}</tool_call>|g({})"},
	{"inner names", "tags", `<tool_call>{"x": {"name": "g", "arguments": 1}, "name": "f", "arguments": {"name": "h"}}`,
		`|f({"name": "h"})`},
	{"part of a tag", "tags", "a <tool_", "a <tool_"},
	{"a list", "lists", `[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]`,
		`|f({"a": 1})|g({})`},
	{"a list without its tag", "lists", ` [{"name": "g", "arguments": {}}]`, `|g({})`},
	{"text and a list", "lists", `Hm. [TOOL_CALLS][{"name": "g", "arguments": {}}]`, `Hm.|g({})`},
	{"another list", "lists", "[1, 2]", "[1, 2]"},
	{"brackets", "lists", "See [x].", "See [x]."},
	{"an object", "objects", `{"name": "f", "parameters": {"a": 1}}`, `|f({"a": 1})`},
	{"after a tag", "objects", `<|python_tag|>{"name": "f", "parameters": {"a": 1}}`, `|f({"a": 1})`},
	{"two objects", "objects", `{"name": "f", "parameters": {}}; {"name": "g", "parameters": {}}`, `|f({})|g({})`},
	{"other JSON", "objects", `{"a": 1}`, `{"a": 1}`},
	{"an object in text", "objects", `It is {"name": "f", "parameters": {}}`, `It is {"name": "f", "parameters": {}}`},
	{"spaces", "objects", "\n ", "\n "},
}

func forms() map[string]Form {
	return map[string]Form{"tags": tags, "lists": lists, "objects": objects}
}

// described joins events to a text: the content, then the calls.
func described(events []Event) string {
	content, calls := "", ""
	for i, e := range events {
		if e.Begin != "" {
			calls += "|" + e.Begin + "("
		}
		calls += e.Arguments
		content += e.Text
		if last := i == len(events)-1; calls != "" && (last || events[i+1].Begin != "") && strings.Contains(calls, "(") {
			calls = strings.TrimSuffix(calls, ")") + ")"
		}
	}
	return content + calls
}

func TestParser(t *testing.T) {
	s := set(t, "")
	for _, c := range answers {
		for _, size := range []int{1, 2, 3, 7, len(c.answer)} {
			p := s.Parser(forms()[c.form])
			var events []Event
			for rest := c.answer; rest != ""; {
				n := min(size, len(rest))
				events = append(events, p.Add(rest[:n])...)
				rest = rest[n:]
			}
			if got := described(append(events, p.End()...)); got != c.want {
				t.Errorf("%s, pieces of %d: got %q, want %q", c.name, size, got, c.want)
			}
		}
	}
	none := set(t, `"none"`)
	if content, calls := none.Split(tags, answers[1].answer); content != answers[1].answer || calls != nil {
		t.Errorf("none: %q %v", content, calls)
	}
	p := s.Parser(tags)
	p.Add("<tool_call>{\"name\": \"f\", ")
	got := fmt.Sprint(p.Add(`"arguments": {"a"`), p.Add(`: 1`), p.Add(`}}</tool_call>`))
	want := fmt.Sprint([]Event{{Begin: "f"}, {Arguments: `{"a"`}}, []Event{{Arguments: ": 1"}}, []Event{{Arguments: "}"}})
	if got != want {
		t.Errorf("a stream: %s, want %s", got, want)
	}
}

func FuzzParser(f *testing.F) {
	for _, c := range answers {
		f.Add(c.form, c.answer, 3)
	}
	wide := append(hostile.Wide(), strings.Repeat("<tool_call>", 5000), strings.Repeat(`{"name":"f"},`, 5000))
	for _, text := range wide {
		f.Add("tags", text, 9)
		f.Add("lists", listTag+text, 9)
		f.Add("objects", `{"name": "f", "parameters":`+text, 9)
	}
	s := set(f, "")
	f.Fuzz(func(t *testing.T, form, answer string, size int) {
		if _, is := forms()[form]; !is || size < 1 {
			return
		}
		var content string
		var calls []Call
		hostile.Within(t, hostile.Linear(len(answer)), func() { content, calls = s.Split(forms()[form], answer) })
		if len(calls) == 0 && content != answer {
			t.Errorf("%q became %q", answer, content)
		}
		p := s.Parser(forms()[form])
		var pieces strings.Builder
		n := 0
		for rest := answer; ; rest = rest[min(size, len(rest)):] {
			events := p.Add(rest[:min(size, len(rest))])
			if rest == "" {
				events = p.End()
			}
			for _, e := range events {
				pieces.WriteString(e.Text)
				if e.Begin != "" {
					n++
				}
			}
			if rest == "" {
				break
			}
		}
		if n != len(calls) || p.Calls() != n || pieces.String() != content {
			t.Errorf("%q: pieces of %d give %d calls and %q, all at once %d and %q", answer, size, n, pieces.String(),
				len(calls), content)
		}
	})
}

func TestHistory(t *testing.T) {
	var messages []chat.Message
	err := json.Unmarshal([]byte(`[{"role":"user","content":"q"},
		{"role":"assistant","content":null,"tool_calls":[{"id":"abcdefghi","type":"function","function":{"name":"f",
			"arguments":"{\"b\": 1.0, \"a\": \"<\"}"}},{"id":"2","function":{"name":"g","arguments":""}}]},
		{"role":"tool","tool_call_id":"abcdefghi","content":"7"}]`), &messages)
	expect.OK(t, err)
	got, err := History(messages)
	expect.OK(t, err)
	want := `[{"id":"abcdefghi","type":"function","function":{"name":"f","arguments":{"b":1.0,"a":"\u003c"}}},` +
		`{"id":"2","type":"function","function":{"name":"g","arguments":{}}}]`
	if got[1].Calls != want || !strings.Contains(got[2].More, `"name":"f"`) {
		t.Errorf("%s\n%s", got[1].Calls, got[2].More)
	}
	if reflect.DeepEqual(got, messages) || strings.Contains(messages[2].More, "name") {
		t.Error("the messages of the caller have changed")
	}
	for calls, words := range map[string]string{
		`[{"id":"a","function":{"name":"f","arguments":"[1]"}}]`: "messages[0].tool_calls: [0].function.arguments",
		`[{"function":{"name":"f","arguments":"{}"}}]`:           "needs an id",
		`[1]`: "messages[0].tool_calls",
	} {
		_, err := History([]chat.Message{{Role: "assistant", Calls: calls}})
		expect.Error(t, err, words)
	}
	_, err = History([]chat.Message{{Role: "tool", Content: "1", More: `{"tool_call_id": "x"}`}})
	expect.Error(t, err, `messages[0].tool_call_id "x": no earlier message`)
}
