package chat

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestProgram_ThoughtsAndTools renders what only a program can: what a template reads decides under which key thoughts
// reach it, and what it does not write is refused, or not in Read.
func TestProgram_ThoughtsAndTools(t *testing.T) {
	const turn = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
	const rest = "</s>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
	program := func(body string) string { return turn + body + rest }
	question := Message{Role: "user", Content: "q", More: `{"name":"Ada","id":7}`}
	thinks := []Message{question, {Role: "assistant", Content: "a", Thoughts: " deep "}}
	call := `[{"function":{"name":"f","arguments":{"b":1.0,"a":"<|x|>"}}}]`
	calls := []Message{question, {Role: "assistant", NoContent: true, Calls: call}}
	for _, c := range []struct {
		name, template string // a name, or a program
		messages       []Message
		o              Options
		want           string // of the text
		read           string
		err            string
	}{
		{"reasoning_content", program("[{{ m.reasoning_content }}]"), thinks, Options{}, "a[ deep ]</s>", "", ""},
		{"thinking", program("[{{ m['thinking'] }}]"), thinks, Options{}, "a[ deep ]</s>", "", ""},
		{"reasoning", program("{% if 'reasoning' in m %}[{{ m.get('reasoning') }}]{% endif %}"), thinks, Options{},
			"a[ deep ]</s>", "", ""},
		{"one of two", program("[{{ m.thinking or m.reasoning }}]"), thinks, Options{}, "a[ deep ]</s>", "", ""},
		{"of calls alone", program("{% if m.tool_calls %}{{ m.thinking }}{% endif %}"), thinks, Options{}, "", "",
			"message 2 (role \"assistant\"): what of it is the answer is not known: the template leaves out its thoughts"},
		{"no thoughts", "chatml", thinks, Options{}, "", "", "message 2 (role \"assistant\"): it has thoughts of their own"},
		{"thoughts of a user", "qwen3", []Message{{Role: "user", Thoughts: "t"}}, Options{}, "", "", "only an assistant"},
		{"thoughts that the prompt begins", strings.Replace(program(""), "{% endif %}", "<think>\n{% endif %}", 1), thinks,
			Options{}, "<|assistant|>a</s>", "", ""},
		{"no calls", "chatml", calls, Options{}, "", "", "message 2 (role \"assistant\"): it has tool_calls"},
		{"calls", program("{{ m.tool_calls | tojson if m.tool_calls }}"), calls, Options{},
			`None[{"function": {"name": "f", "arguments": {"b": 1.0, "a": "<|x|>"}}}]</s>`, "", ""},
		{"calls in the last message", program("{% if loop.last %}{{ m.tool_calls }}{% endif %}"),
			append(calls[:2:2], question), Options{}, "", "", "leaves out its tool_calls"},
		{"no tools", "smollm2", thinks[:1], Options{Tools: "[{}]"}, "", "", "it has tools, which"},
		{"tools", "{{ tools | tojson if tools }}" + program(""), thinks[:1], Options{Tools: `[{"b":1,"a":[]}]`},
			`[{"b": 1, "a": []}]<|user|>q</s>`, "", ""},
		{"tools of a message", program("{{ m.functions }}"), []Message{{Role: "system", Content: "s",
			More: `{"functions":"[f]","tools":[]}`}}, Options{}, "s[f]</s>", "functions", ""},
		{"tools of a message, not read", "chatml", []Message{{Role: "system", Content: "s", More: `{"functions":"[f]"}`}},
			Options{}, "", "", "it has functions, which"},
		{"a name", program("{{ m.name }}"), thinks[:1], Options{}, "qAda</s>", "name", ""},
		{"all keys", "{{ messages }}", thinks[:1], Options{}, "'id': 7", "id name", ""},
		{"a variable", program("{{ x }}"), thinks[:1], Options{Variables: `{"x":null,"y":1}`}, "qNone</s>", "x", ""},
		{"none of them", "qwen3", thinks[:1], Options{Variables: `{"y":1}`}, "<|im_start|>user\nq", "", ""},
	} {
		f, err := ByName(c.template)
		if err != nil {
			if f, err = Detect(c.template); err != nil {
				t.Fatal(err)
			}
			f.EOS = "</s>"
		}
		r, err := f.Render(c.messages, c.o)
		if err == nil && c.err != "" {
			err = r.NoTargets
		}
		if c.err != "" {
			if !errors.As(err, new(*RefusedError)) || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %q, %v, want %q", c.name, r.Text, err, c.err)
			}
			continue
		}
		if err != nil || !strings.Contains(r.Text, c.want) || strings.Join(r.Read, " ") != c.read {
			t.Errorf("%s: %q, read %q, %v; want %q, %q", c.name, r.Text, r.Read, err, c.want, c.read)
		}
		if at := strings.Index(r.Text, "<|x|>"); at >= 0 && slices.ContainsFunc(r.Markup, func(s Span) bool {
			return s.Start < at+5 && at < s.End
		}) {
			t.Errorf("%s: a token in a call is markup", c.name)
		}
		if strings.HasPrefix(c.name, "thoughts that") && r.Thoughts != " deep \n</think>\n\n" {
			t.Errorf("%s: thoughts %q", c.name, r.Thoughts)
		}
	}
}
