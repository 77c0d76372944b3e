package training

import (
	"slices"
	"strings"
	"testing"

	"restyle/chat"
	"restyle/dataset"
	"restyle/internal/expect"
)

// thinkers are templates whose prompt starts thoughts, which they leave out of answers: such as DeepSeek-R1's, which
// keeps the line breaks after them, and QwQ's, which does not.
var thinkers = map[string]string{
	"R1": "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}" +
		"{{ m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}<|im_end|>{% endfor %}" +
		"{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}",
	"QwQ": "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}" +
		"{{ m.content.split('</think>')[-1].lstrip('\\n') }}{% else %}{{ m.content }}{% endif %}<|im_end|>{% endfor %}" +
		"{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}",
}

// TestThoughtsInPrompt checks that answers follow exactly the prompt that chat gives, with their thoughts or none.
func TestThoughtsInPrompt(t *testing.T) {
	const a, u = "<|im_start|>assistant\n", "<|im_start|>user\n"
	question := u + "So?<|im_end|>" + a + "<think>\n"
	for name, text := range thinkers {
		e := encoderOf(t, "chatml")
		template, err := chat.Detect(text)
		expect.OK(t, err)
		template.EOS = "<|im_end|>"
		e.Template = template
		plain := "⟦\n</think>\n\nIt is.<|im_end|>⟧"
		for _, c := range []struct {
			of    []chat.Message
			want  []string
			apart bool
		}{
			{talk("uSo?", "aIt is."), []string{question + plain}, false},
			{talk("uSo?", "a<think>\nWell.\n</think>\n\nIt is."),
				[]string{question + "⟦Well.\n</think>\n\nIt is.<|im_end|>⟧"}, false},
			{talk("uSo?", "a<think></think>\n\nIt is."), []string{question + plain}, false},
			{talk("uSo?", "a<b>It</b>"), []string{question + "⟦\n</think>\n\n<b>It</b><|im_end|>⟧"}, false},
			{talk("u<think>", "aIt is."), []string{strings.Replace(question, "So?", "<think>", 1) + plain}, false},
			{talk("uSo?", "a<think>\nWell.\n</think>\n\nIt is.", "uIs it?", "aYes."), []string{
				question + "⟦Well.\n</think>\n\nIt is.<|im_end|>⟧",
				u + "So?<|im_end|>" + a + map[string]string{"R1": "\n\n"}[name] + "It is.<|im_end|>" + u + "Is it?<|im_end|>" + a +
					"<think>\n⟦\n</think>\n\nYes.<|im_end|>⟧"}, true},
		} {
			r, err := e.row(dataset.Conversation{Messages: c.of})
			var got []string
			for _, ex := range r.examples {
				got = append(got, marked(e, ex))
			}
			if err != nil || !slices.Equal(got, c.want) || r.apart != c.apart {
				t.Errorf("%s: %v, apart %v\n got %q\nwant %q", name, err, r.apart, got, c.want)
				continue
			}
			last := len(c.of) - 1
			asked, err := template.Render(c.of[:last], chat.Options{AddGenerationPrompt: true})
			if before, _, _ := strings.Cut(got[len(got)-1], "⟦"); err != nil || before != asked.Text {
				t.Errorf("%s: chat asks with %q, %v, the example with %q", name, asked.Text, err, before)
			}
		}
	}
}

// TestThoughtsNotInPrompt checks templates that look alike: the answer keeps its thoughts, or somebody typed their
// beginning.
func TestThoughtsNotInPrompt(t *testing.T) {
	e := encoderOf(t, "chatml")
	for _, c := range []struct{ template, answer, says string }{
		{"{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}" +
			"{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}", "<think>Well.</think>It is.",
			"in another way once they are answered"},
		{"{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}" +
			"{% if add_generation_prompt %}<|im_start|>assistant\n{{ messages[0].content }}{% endif %}", "It is.",
			"in another way once they are answered"},
	} {
		var err error
		if e.Template, err = chat.Detect(c.template); err != nil {
			t.Fatal(err)
		}
		e.Template.EOS = "<|im_end|>"
		_, _, err = e.Encode(dataset.Conversation{Messages: talk("u<think>", "a"+c.answer)})
		expect.Error(t, err, c.says)
	}
}
