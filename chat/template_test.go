package chat

import (
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
)

func TestDetect(t *testing.T) {
	chatml, err := ByName("chatml")
	expect.OK(t, err)
	chatmlJinja := chatml.Jinja()
	for _, c := range []struct{ name, template, want string }{
		{"no template", "", "raw"},
		{"our own ChatML", chatmlJinja, "chatml"},
		{"our own ChatML, no line break at the end", strings.TrimSuffix(chatmlJinja, "\n"), "chatml"},
		{"raw with BOS, no line break at the end", strings.TrimSuffix(rawBOS+Raw().Jinja(), "\n"), "raw"},
		{"raw with BOS and a line break more", rawBOS + Raw().Jinja() + "\n", "raw"},
		{"our own ChatML on an old Mac", strings.ReplaceAll(chatmlJinja, "\n", "\r"), "chatml"},
		{"our own ChatML on Windows", strings.ReplaceAll(chatmlJinja, "\n", "\r\n"), "chatml"},
		{"our own ChatML, shortened", chatmlJinja[1:], ""}, // no Jinja
		{"our own ChatML with a space", chatmlJinja + " ", "jinja-" + hash(chatmlJinja + " ")[:8]},
		{"a line break", "\n", ""},
		{"another", "{{ messages[0]['content'] }}", "jinja-e2ce372d"},
		{"another that refuses questions", "{{ raise_exception('no') }}", ""},
		{"another that leaves out the question", "{{ bos_token }}", ""},
	} {
		f, err := Detect(c.template)
		if c.want != "" {
			if err != nil || f.Name != c.want {
				t.Errorf("%s is detected as %q, %v", c.name, f.Name, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s is detected as %s", c.name, f.Name)
			continue
		}
		for _, part := range []string{hash(c.template), "llama3.2", "gemma", "raw is without a template"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q lacks %s", c.name, err, part)
			}
		}
	}
}

// TestTemplates_TableIsUnique checks that no two templates share a name or a SHA-256, and that each SHA-256 is
// well-formed.
func TestTemplates_TableIsUnique(t *testing.T) {
	names, sums := map[string]bool{}, map[string]bool{}
	for _, f := range templates {
		if names[f.Name] {
			t.Errorf("two templates are called %s", f.Name)
		}
		names[f.Name] = true
		for _, sum := range f.sha256 {
			if len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "" || sums[sum] {
				t.Errorf("%s: %s is no sha256 or given twice", f.Name, sum)
			}
			sums[sum] = true
		}
		if got, err := ByName(f.Name); err != nil || got.Name != f.Name {
			t.Errorf("ByName(%q) is %q, %v", f.Name, got.Name, err)
		}
	}
	_, err := ByName("llama4")
	for _, part := range []string{`"llama4"`, "llama3.2", "raw"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("ByName of an unknown name: %v, want %s in it", err, part)
		}
	}
}

func TestTemplate_Stops(t *testing.T) {
	want := map[string][]string{
		"llama3":       {"<|eot_id|>", "<|end_of_text|>"},
		"llama3.1":     {"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"},
		"llama3.2":     {"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"},
		"chatml":       {"<|im_end|>", "<|endoftext|>"},
		"qwen2.5":      {"<|im_end|>", "<|endoftext|>"},
		"qwen3":        {"<|im_end|>", "<|endoftext|>"},
		"smollm2":      {"<|im_end|>", "<|endoftext|>"},
		"zephyr":       {"</s>"},
		"mistral-v0.3": {"</s>"},
		"gemma":        {"<end_of_turn>", "<eos>"},
		"raw":          nil,
	}
	for _, f := range templates {
		if got := f.Stops(); !slices.Equal(got, want[f.Name]) {
			t.Errorf("%s stops at %q, want %q", f.Name, got, want[f.Name])
		}
	}
	f, err := ByName("zephyr")
	expect.OK(t, err)
	llama, err := ByName("llama3")
	expect.OK(t, err)
	llama.BOS = "" // as with a tokenizer that has none
	if r, err := llama.Render([]Message{{Role: "user", Content: "x"}}, Options{}); err != nil || r.BOS {
		t.Errorf("without a BOS: %+v, %v", r, err)
	}
	f.EOS = "<|endoftext|>"
	r, err := f.Render([]Message{{Role: "assistant", Content: "x"}}, Options{})
	if err != nil || r.Text != "<|assistant|>\nx<|endoftext|>\n" || !slices.Equal(f.Stops(), []string{f.EOS}) {
		t.Errorf("with another EOS: %q, %v, stops %q", r.Text, err, f.Stops())
	}
}
