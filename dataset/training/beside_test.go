package training

import (
	"context"
	"slices"
	"strings"
	"testing"

	"restyle/chat"
	"restyle/dataset"
	"restyle/internal/expect"
)

// TestLoad_MasksThoughtsAndTools loads rows with masks, thoughts and tools, and checks the targets and what the set
// says of them.
func TestLoad_MasksThoughtsAndTools(t *testing.T) {
	const a, u, end = "<|im_start|>assistant\n", "<|im_start|>user\n", "<|im_end|>\n"
	asks := `{"role":"user","content":"a"},`
	masked := `{"messages":[` + asks + `{"role":"assistant","content":"BAD","train":false},` + asks +
		`{"role":"assistant","content":"good"},` + asks + `{"role":"assistant","content":"WORSE","weight":0}],"id":1}`
	parts := `{"messages":[` + asks + `{"role":"assistant","content":[{"text":"BAD","train":false},{"text":""},` +
		`{"text":"WORSE","weight":0},{"text":"\ngood\n"},{"text":"BAD","train":false}]}]}`
	call := `{"messages":[` + asks + `{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f",` +
		`"arguments":{"x":1.0}}}]},{"role":"tool","content":"1","tool_call_id":"c"},{"role":"assistant","content":"b",` +
		`"reasoning_content":"t"}],"tools":[{"name":"f"}]}`
	named := "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.name }}{{ m.nick }}{{ m.content }}<|im_end|>\n" +
		"{% endfor %}" +
		"{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
	for _, c := range []struct {
		name, template, row string
		all                 bool
		want                []string // the examples, or the end of one after …
		used, unused        string
		masked, leftOut     int // masked also counts parts of answers, and leftOut rows with arguments in quotes
		err                 string
	}{
		{"masked", "chatml", masked, false,
			[]string{u + "a" + end + a + "BAD" + end + u + "a" + end + a + "⟦good<|im_end|>⟧"},
			"", "id", 2, 0, ""},
		{"masked in two rows, and not in a third", "chatml", masked + "\n" + masked + "\n" +
			`{"messages":[` + asks + `{"role":"assistant","content":"b"}]}`, false,
			[]string{u + "a" + end + a + "BAD" + end + u + "a" + end + a + "⟦good<|im_end|>⟧",
				u + "a" + end + a + "BAD" + end + u + "a" + end + a + "⟦good<|im_end|>⟧", u + "a" + end + a + "⟦b<|im_end|>⟧"},
			"", "id", 4, 0, ""},
		{"masked, and all", "chatml", masked, true, []string{"<|im_start|>⟦user\na" + end + a + "⟧BAD<|im_end|>⟦\n" +
			u + "a" + end + a + "good" + end + u + "a" + end + a + "⟧WORSE<|im_end|>⟦\n⟧"}, "", "id", 2, 0, ""},
		{"masked, of a template that is run", named, masked, false,
			[]string{u + "a" + end + a + "BAD" + end + u + "a" + end + a + "⟦good<|im_end|>⟧"}, "", "id", 2, 0, ""},
		{"a masked question, and all", "chatml",
			`{"prompt":[{"role":"user","content":"a","train":0}],"completion":"b"}`, true,
			[]string{"<|im_start|>⟦user\n⟧a⟦" + end + a + "b" + end + "⟧"}, "", "", 0, 0, ""},
		{"a masked first answer of a completion, and all", "chatml",
			`{"prompt":[{"role":"user","content":"a"}],"completion":[` +
				`{"role":"assistant","content":"b","train":0},{"role":"user","content":"c"},{"role":"assistant","content":"d"}]}`,
			true, []string{"<|im_start|>⟦user\na" + end + a + "⟧b<|im_end|>⟦\n" + u + "c" + end + a + "d" + end + "⟧"},
			"", "", 1, 0, ""},
		{"masked parts", "chatml", parts, false, []string{u + "a" + end + a + "BAD⟦\n\n⟧WORSE⟦\n\ngood\n\n⟧BAD⟦<|im_end|>⟧"},
			"", "", 3, 0, ""},
		{"masked parts, and all", "chatml", parts, true, []string{"<|im_start|>⟦user\na" + end + a +
			"⟧BAD⟦\n\n⟧WORSE⟦\n\ngood\n\n⟧BAD⟦" + end + "⟧"}, "", "", 3, 0, ""},
		{"masked parts, of a template that trims them", strings.Replace(named, "m.content }}", "m.content | trim }}", 1),
			strings.Replace(parts, `"BAD"`, `"\n BAD"`, 1), false,
			[]string{u + "a" + end + a + "BAD⟦\n\n⟧WORSE⟦\n\ngood\n\n⟧BAD⟦<|im_end|>⟧"}, "", "", 3, 0, ""},
		{"masked parts that the thoughts have, too", "qwen3", `{"messages":[` + asks + `{"role":"assistant",` +
			`"reasoning_content":"BAD\nc","content":[{"text":"BAD","train":false},{"text":"c"}]}]}`, false,
			[]string{"…" + a + "⟦<think>\nBAD\nc\n</think>\n\n⟧BAD⟦\nc<|im_end|>⟧"}, "", "", 1, 0, ""},
		{"masked parts of a question that a template changes, and all",
			strings.Replace(named, "m.content }}", "m.content | upper }}", 1),
			`{"messages":[{"role":"user","content":[{"text":"a","train":0},{"text":"b"}]},` +
				`{"role":"assistant","content":"C"}]}`, true, nil, "", "", 0, 0, "message 0: the template changes the content"},
		{"masked parts, of a template that changes the text",
			strings.Replace(named, "m.content }}", "m.content | upper }}", 1), parts, false, nil, "", "", 0, 0,
			"message 1: the template changes the content"},
		{"all masked", "chatml", `{"prompt":"a","completion":"b","loss_mask":[0,0]}`, false, nil, "", "", 0, 0,
			"all 1 answers that they are not to be learned"},
		{"a call", "qwen3", call, false, []string{
			"…" + u + "a" + end + a + `⟦<think>` + "\n\n</think>\n\n<tool_call>\n" +
				`{"name": "f", "arguments": {"x": 1.0}}` + "\n</tool_call><|im_end|>⟧",
			"…" + u + "<tool_response>\n1\n</tool_response>" + end + a + "⟦<think>\nt\n</think>\n\nb<|im_end|>⟧",
		}, "tools", "tool_call_id", 0, 0, ""},
		{"arguments in quotes", "qwen2.5", `{"messages":[` + asks + `{"role":"assistant","function_call":{"name":"f",` +
			`"arguments":"{\"x\": 1}"}}]}`, false,
			[]string{"…⟦<tool_call>\n" + `{"name": "f", "arguments": "{\"x\": 1}"}` + "\n</tool_call><|im_end|>⟧"},
			"", "", 0, 1, ""},
		{"arguments as they are", "qwen3", `{"messages":[` + asks + `{"role":"assistant","function_call":{"name":"f",` +
			`"arguments":"{\"x\": 1}"}}]}`, false,
			[]string{"…<tool_call>\n" + `{"name": "f", "arguments": {"x": 1}}` + "\n</tool_call><|im_end|>⟧"},
			"", "", 0, 0, ""},
		{"a call that the template has no place for", "chatml", call, false, nil, "", "", 0, 0, "it has tool_calls"},
		{"a name", named, `{"messages":[{"role":"user","name":"Ada","nick":"A","content":"a"},{"role":"assistant",` +
			`"content":"b"}]}`, false, []string{u + "AdaAa" + end + a + "⟦b<|im_end|>⟧"}, "", "", 0, 0, ""},
		{"a variable for the prompt", "qwen3", `{"prompt":"a","completion":"b","chat_template_kwargs":` +
			`{"enable_thinking":false,"x":1}}`, false, []string{u + "a" + end + a + "<think>\n\n</think>\n\n⟦b<|im_end|>⟧"},
			"chat_template_kwargs", "x", 0, 0, ""},
		{"an unused name", "chatml", `{"messages":[{"role":"user","name":"Ada","content":"a"},{"role":"assistant",` +
			`"content":"b"}]}`, false, []string{u + "a" + end + a + "⟦b<|im_end|>⟧"}, "", "name", 0, 0, ""},
		{"a role that the template leaves out", "qwen3", `{"messages":[` + asks + `{"role":"ipython","content":"1"},` +
			`{"role":"assistant","content":"b"}]}`, false,
			[]string{u + "a" + end + a + "⟦<think>\n\n</think>\n\nb<|im_end|>⟧"}, "", "", 0, 1, ""},
	} {
		e := encoderOf(t, "chatml")
		e.Seq, e.All = 2000, c.all
		template, err := chat.ByName(c.template)
		if err != nil {
			if template, err = chat.Detect(c.template); err != nil {
				t.Fatal(err)
			}
		}
		template.EOS = "<|im_end|>"
		e.Template = template
		s, err := Load(context.Background(), expect.File(t, "x.jsonl", c.row), dataset.Options{}, e)
		if c.err != "" {
			expect.Error(t, err, c.err)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for i, ex := range s.Examples {
			text := marked(e, ex)
			if i < len(c.want) && strings.HasPrefix(c.want[i], "…") {
				text = "…" + text[max(0, len(text)-len(c.want[i])+len("…")):]
			}
			got = append(got, text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
		used, unused := strings.Join(s.Used, " "), strings.Join(s.Unused, " ")
		masked, leftOut := s.Masked+s.Asides, len(s.LeftOut)+len(s.Quoted)
		if used != c.used || unused != c.unused || masked != c.masked || leftOut != c.leftOut {
			t.Errorf("%s: used %q, not used %q, %d masked, left out %v", c.name, used, unused, masked, s.LeftOut)
		}
	}
}
