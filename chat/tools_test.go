package chat

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestProgram_ThoughtsAndTools renders what only a program can: what a template reads decides under which key it gets
// thoughts, and what it does not write is refused, or not in Read.
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
		{"a variable of the prompt", program("")[:len(program(""))-11] + "{{ x }}{% endif %}", append(thinks[:1:1],
			Message{Role: "assistant", Content: "a"}), Options{Variables: `{"x":"","y":1}`}, "<|assistant|>a</s>", "x", ""},
		{"of each only one", program("{{ m.name }}{{ x }}"), []Message{question, question}, Options{Variables: `{"x":0}`},
			"qAda0</s>", "name x", ""},
		{"variables do not replace all", "{{ tools }}{{ documents }}{{ add_generation_prompt }}{{ eos_token }}" + program(""),
			thinks[:1], Options{Variables: `{"documents":"d","add_generation_prompt":7,"eos_token":8}`},
			"NonedFalse</s><|user|>q", "add_generation_prompt documents eos_token", ""},
		{"nothing in a message", "{% for m in messages %}{{ m.content }}{{ m.content is defined }}{{ m.role is defined }}" +
			"{{ m.reasoning_content is defined }}{{ m.tool_calls is defined }}{% endfor %}",
			[]Message{{Role: "user", Content: "q"}, {NoRole: true, NoContent: true}}, Options{},
			"qTrueTrueFalseFalseFalseFalseFalseFalse", "", ""},
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

// TestReads finds what programs write besides contents: in some conversation, perhaps only after a system prompt, for
// calls of one form or before their results. A program that refuses everything is judged by what it mentions.
func TestReads(t *testing.T) {
	const turn = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
	const needsSystem = "{% if messages[0].role != 'system' %}{{ raise_exception('no system') }}{% endif %}"
	const all = "{{ messages[-1].reasoning }}{{ messages[-1].tool_calls }}{{ tools }}"
	const mentioned = "{{ 'x' if m.reasoning or m.tool_calls or tools }}"
	const callOf = "{% for c in m.tool_calls or [] %}{{ c.function.name if c.function.arguments is "
	for _, c := range []struct {
		name, template string
		want           reader
	}{
		{"all", turn + "{% endfor %}" + all, reader{"reasoning", true, true}},
		{"after a system prompt", needsSystem + turn + "{% endfor %}" + all, reader{"reasoning", true, true}},
		{"in a prompt", turn + "{% endfor %}{% if add_generation_prompt %}" + all + "{% endif %}",
			reader{"reasoning", true, true}},
		{"in no prompt", turn + "{% endfor %}{% if not add_generation_prompt %}" + all + "{% endif %}",
			reader{"reasoning", true, true}},
		{"the first of two", turn + "{{ m.cot }}{{ m.thinking }}{% endfor %}", reader{thoughts: "thinking"}},
		{"the last", turn + "{{ m.cot }}{% endfor %}", reader{thoughts: "cot"}},
		{"calls of objects", turn + callOf + "mapping }}{% endfor %}{% endfor %}", reader{calls: true}},
		{"calls of text", turn + callOf + "string }}{% endfor %}{% endfor %}", reader{calls: true}},
		{"calls with results", turn + "{{ m.tool_calls if loop.nextitem and loop.nextitem.tool_call_id | length == 9 and " +
			"loop.nextitem.name and loop.nextitem.content == '1' and " +
			"messages[-1] == {'role': 'assistant', 'content': 'Answer'} }}{% endfor %}",
			reader{calls: true}},
		{"only mentioned", turn + mentioned + "{% endfor %}", reader{}},
		{"only mentioned, refused without a system prompt", needsSystem + turn + mentioned + "{% endfor %}", reader{}},
		{"only mentioned, refused in a prompt", turn + mentioned + "{% endfor %}" +
			"{{ raise_exception('no prompt') if add_generation_prompt }}", reader{}},
		{"mentioned and refused", turn + "{{ raise_exception('no') if m.reasoning or m.tool_calls or tools }}{% endfor %}",
			reader{"reasoning", true, true}},
		{"refused without a word", turn + "{{ raise_exception('no') if m | length > 2 }}{% endfor %}", reader{}},
	} {
		f, err := Detect(c.template)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := f.reads(); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
