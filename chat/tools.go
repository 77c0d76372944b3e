package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A conversation with tools, separate thoughts or other variables is refused if the template does not write them.

// A reader says what a template writes besides contents.
type reader struct {
	thoughts string // the key of thoughts, or ""
	calls    bool
	tools    bool
}

// beyond reports whether a conversation has more than roles and contents.
func beyond(messages []Message, o Options) bool {
	return o.Tools != "" || o.Variables != "" || slices.ContainsFunc(messages, func(m Message) bool {
		return m.Thoughts != "" || m.Calls != "" || m.tools() != ""
	})
}

// toolKeys are keys under which some templates read tools or calls of a message.
var toolKeys = []string{"tools", "functions", "function_calls"}

// tools returns the key of More that has tools, or "".
func (m Message) tools() string {
	if !slices.ContainsFunc(toolKeys, func(key string) bool { return strings.Contains(m.More, key) }) {
		return ""
	}
	var all map[string]json.RawMessage
	if json.Unmarshal([]byte(m.More), &all) != nil {
		return ""
	}
	for _, key := range toolKeys {
		if value := string(all[key]); !slices.Contains([]string{"", "null", `""`, `"[]"`, "[]", "{}"}, value) {
			return key
		}
	}
	return ""
}

// programs has the programs of the templates that have a name: by that name with marked answers, and by their text.
var programs sync.Map

// compiled returns a template that has a name with its program. If the conversation goes beyond roles and contents,
// that is the text by which Detect recognized it, or the text that Jinja returns. Otherwise it is the same with its
// answers marked.
func (t Template) compiled(beyond bool) (Template, error) {
	key, text := t.Name, t.marked
	if beyond {
		if t.text == "" {
			t.text = t.Jinja()
		}
		key, text = t.text, func() string { return t.text }
	}
	p, is := programs.Load(key)
	if !is {
		made, err := newProgram(text())
		if err != nil {
			return Template{}, err
		}
		p, _ = programs.LoadOrStore(key, made)
	}
	t.program = p.(*program)
	return t, nil
}

// refused returns the error for a conversation with something that the template does not write.
func (p *page) refused() error {
	if !beyond(p.messages, p.Options) {
		return nil
	}
	can := p.Template.reads()
	for i, m := range p.messages {
		switch {
		case m.Calls != "" && !can.calls:
			return p.refuse(i, "it has tool_calls, which the template does not write",
				"choose a template with tools, or leave such conversations out")
		case m.Thoughts != "" && m.Role != "assistant":
			return p.refuse(i, "it has thoughts, and only an assistant thinks", "leave the thoughts out")
		case m.Thoughts != "" && can.thoughts == "" && !p.thinks():
			return p.refuse(i, "it has thoughts of their own, and the template reads none (as "+
				strings.Join(ThoughtKeys[:3], ", ")+")",
				"put them into the content in the form that the model thinks in, such as <think>…</think>, "+
					"choose another template, or leave the thoughts out")
		}
	}
	if p.Tools != "" && !can.tools {
		return &RefusedError{Template: p.Name, Message: -1, Reason: "it has tools, which the template does not write",
			Advice: "choose a template with tools, or leave the tools out"}
	}
	return nil
}

// thinks reports whether the prompt starts thoughts, which then come before an answer although the template leaves
// them out of it.
func (p *page) thinks() bool {
	ask := page{Template: p.Template}
	out, err := ask.execute([]Message{{Role: "user", Content: "Question"}}, true)
	return err == nil && opening(out) >= 0
}

// reads returns what the template writes besides contents: it renders something of each kind and looks for it.
func (t Template) reads() reader {
	t.program.once.Do(func() { t.program.reads = t.probeReader() })
	return t.program.reads
}

// sign is a text that no template has.
const sign = "qzxvkwj"

// writes reports whether the template writes sign in one of the conversations. If it refuses all of them, the
// template's text decides: whether it contains word.
func (t Template) writes(word string, set func(d *page), conversations ...[]Message) bool {
	refused := true
	for _, messages := range conversations {
		for _, system := range [][]Message{nil, {{Role: "system", Content: "Rules"}}} {
			p := page{Template: t}
			set(&p)
			for _, prompt := range []bool{false, true} {
				out, err := p.execute(append(system[:len(system):len(system)], messages...), prompt)
				if err == nil && strings.Contains(out.Text, sign) {
					return true
				}
				refused = refused && err != nil
			}
		}
	}
	return refused && strings.Contains(t.program.text, word)
}

func (t Template) probeReader() (r reader) {
	question := Message{Role: "user", Content: "Question"}
	nothing := func(*page) {}
	call := func(name, arguments string) string {
		return `[{"id": "abcdefghi", "type": "function", "function": {"name": "` + name + `", "arguments": ` + arguments +
			`}}]`
	}
	for _, key := range ThoughtKeys {
		more := fmt.Sprintf("{%q: %q}", key, sign)
		if t.writes("."+key, nothing, []Message{question, {Role: "assistant", Content: "Answer", More: more}},
			[]Message{question, {Role: "assistant", Calls: call("f", "{}"), More: more}}) {
			r.thoughts = key
			break
		}
	}
	var calling [][]Message
	for _, arguments := range []string{`{"x": 1}`, `"{\"x\": 1}"`} {
		asks := []Message{question, {Role: "assistant", NoContent: true, Calls: call(sign, arguments)}}
		calling = append(calling, asks, append(asks, Message{Role: "tool", Content: "1",
			More: `{"tool_call_id": "abcdefghi", "name": "` + sign[:1] + `"}`}, Message{Role: "assistant", Content: "Answer"}))
	}
	r.calls = t.writes("tool_calls", nothing, calling...)
	tools := `[{"type": "function", "function": {"name": "` + sign + `", "description": "Adds.", "parameters": ` +
		`{"type": "object", "properties": {"x": {"type": "string", "description": "A number."}}, "required": ["x"]}}}]`
	r.tools = t.writes("tools", func(p *page) { p.Tools = tools }, []Message{question})
	return r
}

// keysOf returns the keys of a JSON object.
func keysOf(object string) (keys []string) {
	var all map[string]json.RawMessage
	if json.Unmarshal([]byte(object), &all) != nil {
		return nil
	}
	for key := range all {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
