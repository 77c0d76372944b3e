package infer

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/chat"
	"restyle/hf"
	"restyle/tensor"
)

// withTokens returns the small files of the tiny base model, with other texts for its two special tokens and a
// tokenizer_config.json that names none.
func withTokens(t *testing.T, begin, end string) *hf.Checkpoint {
	t.Helper()
	files := map[string][]byte{}
	for _, name := range []string{"config.json", "generation_config.json", "tokenizer.json"} {
		data, err := os.ReadFile(filepath.Join("testdata/tiny/base", name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if name == "tokenizer.json" {
			quoted := func(s string) string { data, _ := json.Marshal(s); return string(data) }
			text = strings.ReplaceAll(text, `"<|endoftext|>"`, quoted(begin))
			text = strings.ReplaceAll(text, `"<|im_end|>"`, quoted(end))
		}
		files[name] = []byte(text)
	}
	files["tokenizer_config.json"] = []byte(`{"chat_template":"of another model"}`)
	c, err := hf.NewModel(files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestApply_NamesTemplate checks that a model's files name the template with which it is trained.
func TestApply_NamesTemplate(t *testing.T) {
	talk := []chat.Message{{Role: "user", Content: "How?"}, {Role: "assistant", Content: "So."},
		{Role: "user", Content: "And?"}}
	for _, name := range chat.Names() {
		family, err := chat.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		c := withTokens(t, cmp.Or(family.BOS, "<|endoftext|>"), cmp.Or(family.EndOfTurn(), "<|im_end|>"))
		trained, err := CodecOf(c, name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if changed, err := trained.Apply(c); err != nil || !changed {
			t.Errorf("%s: changed %v, %v", name, changed, err)
		}
		asked, err := CodecOf(c, "")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		o := chat.Options{AddGenerationPrompt: true}
		want, err1 := trained.Template.Render(talk, o)
		got, err2 := asked.Template.Render(talk, o)
		if err1 != nil || err2 != nil || asked.Template.Name != name || got.Text != want.Text {
			t.Errorf("%s is asked as %s: %q, %v, trained %q, %v", name, asked.Template.Name, got.Text, err2, want.Text, err1)
		}
		if !slices.Equal(asked.Ends, trained.Ends) && !slices.Equal(slices.Compact(slices.Sorted(slices.Values(asked.Ends))),
			slices.Compact(slices.Sorted(slices.Values(trained.Ends)))) {
			t.Errorf("%s ends at %v, trained %v", name, asked.Ends, trained.Ends)
		}
		if want.BOS && c.Tokenizer.BOS != family.BOS {
			t.Errorf("%s: other programs know %q as the BOS", name, c.Tokenizer.BOS)
		}
		if end, _ := trained.Tokenizer.TokenID(family.EndOfTurn()); name != "raw" && !slices.Contains(c.Generation.EOS, end) {
			t.Errorf("%s: other programs end at %v", name, c.Generation.EOS)
		}
		if changed, err := asked.Apply(c); err != nil || changed {
			t.Errorf("%s: once more: changed %v, %v", name, changed, err)
		}
	}
}

// TestTemplateDoesNotFit checks that a template is refused if the vocabulary lacks its tokens, and that the error names
// the templates that fit.
func TestTemplateDoesNotFit(t *testing.T) {
	for _, c := range []struct{ begin, end, template, says string }{
		{"<|endoftext|>", "<|im_end|>", "llama3", "has no token <|eot_id|>, which it needs: use one of chatml, qwen2.5, " +
			"qwen3, smollm2, raw"},
		{"<other>", "<|eot_id|>", "llama3.2", "has no token <|begin_of_text|>"},
		{"<bos>", "<end>", "gemma", "has no token <end_of_turn>"},
		{"<|begin_of_text|>", "<|eot_id|>", "chatml",
			"has no token <|im_end|>, which it needs: use one of llama3, llama3.1, llama3.2, raw"},
		{"<s>", "</s>", "zephyr", ""},
		{"<no>", "</s>", "zephyr", ""}, // zephyr writes no BOS
		{"<no>", "</s>", "mistral-v0.3", "has no token <s>"},
	} {
		_, err := CodecOf(withTokens(t, c.begin, c.end), c.template)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s with %s and %s: %v, want %q", c.template, c.begin, c.end, err, c.says)
		}
	}
}

// TestRawBOS checks that other programs start raw prompts with a BOS if the tokenizer puts one before every text.
//
//nolint:lll // JSON in one piece
func TestRawBOS(t *testing.T) {
	c := withTokens(t, "<s>", "</s>")
	c.Tokenizer.BOS = "<s>" // known, but not put before a text
	codec, err := CodecOf(c, "raw")
	if err != nil || codec.Template.BOS != "" {
		t.Fatalf("BOS %q, %v", codec.Template.BOS, err)
	}
	data, err := c.ReadFile("tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	file["post_processor"] = json.RawMessage(`{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],
		"special_tokens":{"<s>":{"ids":[0]}}}`)
	tokenizer, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"config.json": c.ConfigJSON, "tokenizer.json": tokenizer,
		"chat_template.jinja": []byte("another")}
	if c, err = hf.NewModel(files); err != nil {
		t.Fatal(err)
	}
	if codec, err = CodecOf(c, "raw"); err != nil || codec.Template.BOS != "<s>" {
		t.Fatalf("BOS %q, %v", codec.Template.BOS, err)
	}
	if _, err := codec.Apply(c); err != nil || !strings.HasPrefix(c.Tokenizer.ChatTemplate, "{{- bos_token -}}") ||
		c.Tokenizer.BOS != "<s>" {
		t.Errorf("%+v, %v", c.Tokenizer, err)
	}
}

// TestDType_FollowsStoredWeights checks that a model runs in F32 unless its weights are stored in BF16, which has fewer
// digits than F16. The headers of the files decide, not config.json.
func TestDType_FollowsStoredWeights(t *testing.T) {
	dev := cpu(t)
	from := open(t, "testdata/tiny/base", OpenOptions{DType: tensor.F32})
	source, err := hf.OpenModel("testdata/tiny/base")
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	for stored, want := range map[tensor.DType]tensor.DType{tensor.F16: tensor.F32, tensor.F32: tensor.F32,
		tensor.BF16: tensor.BF16} {
		dir := filepath.Join(t.TempDir(), "model")
		if err := hf.Save(dir, source, dev, from.Model.Params(), hf.SaveOptions{DType: stored}); err != nil {
			t.Fatal(err)
		}
		for _, said := range []string{"float32", "float16", "bfloat16"} {
			config := strings.ReplaceAll(string(source.ConfigJSON), "bfloat16", said)
			if !strings.Contains(config, said) {
				t.Fatalf("%s: no type to change", config)
			}
			if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666); err != nil {
				t.Fatal(err)
			}
			if got := open(t, dir, OpenOptions{}).DType(); got != want {
				t.Errorf("weights in %v, %s in config.json: asked in %v, want %v", stored, said, got, want)
			}
		}
	}
}

// TestNamedTemplate checks that one of a model's own templates can be chosen by name, and what is said if it is not
// there.
func TestNamedTemplate(t *testing.T) {
	const tools = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}" +
		"{% if add_generation_prompt %}[assistant] {% endif %}"
	c := withTokens(t, "<|endoftext|>", "<|im_end|>")
	chatml, err := chat.ByName("chatml")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": "chatml", "default": "chatml", "tool_use": "jinja-"} {
		c.Tokenizer.BOS, c.Tokenizer.EOS = "<|endoftext|>", "<|im_end|>" // which Apply changes
		c.Tokenizer.Tokens = map[string]string{"unk_token": "<|endoftext|>"}
		c.Tokenizer.ChatTemplate = chatml.Jinja()
		c.Tokenizer.ChatTemplates = map[string]string{"default": chatml.Jinja(), "tool_use": tools}
		codec, err := CodecOf(c, name)
		if err != nil || !strings.HasPrefix(codec.Template.Name, want) {
			t.Errorf("%q: %s, %v", name, codec.Template.Name, err)
		}
		if u := codec.Template; u.BOS != "<|endoftext|>" || u.EOS != "<|im_end|>" || u.Tokens["unk_token"] != u.BOS {
			t.Errorf("%q: the template's tokens are %q, %q and %q", name, u.BOS, u.EOS, u.Tokens)
		}
		if changed, err := codec.Apply(c); err != nil || changed != (name == "tool_use") {
			t.Errorf("%q: changed %v, %v", name, changed, err)
		}
		if asked, err := CodecOf(c, ""); err != nil || asked.Template.Name != codec.Template.Name {
			t.Errorf("%q: asked as %s, %v", name, asked.Template.Name, err)
		}
	}
	c.Tokenizer.ChatTemplates = map[string]string{"default": chatml.Jinja(), "tool_use": tools}
	_, err = CodecOf(c, "rag")
	var unknown *UnknownTemplate
	if !errors.As(err, &unknown) || !strings.Contains(err.Error(), `"rag"`) ||
		!strings.Contains(err.Error(), "default, tool_use") || !strings.Contains(err.Error(), "llama3, ") {
		t.Error(err)
	}
	c.Tokenizer.ChatTemplate = ""
	delete(c.Tokenizer.ChatTemplates, "default")
	if _, err := CodecOf(c, ""); !errors.As(err, &unknown) || !strings.Contains(err.Error(), "tool_use") ||
		!strings.Contains(err.Error(), "none of the chat templates") {
		t.Error(err)
	}
	if _, err := CodecOf(c, "tool_use"); err != nil {
		t.Error(err)
	}
	c.Tokenizer.ChatTemplates = nil
	c.TemplateError = errors.New("chat_template is 7")
	if _, err := CodecOf(c, ""); err == nil || !strings.Contains(err.Error(), "chat_template is 7: choose a template") {
		t.Error(err)
	}
	if _, err := CodecOf(c, "chatml"); err != nil {
		t.Error(err)
	}
	c.TemplateError = nil
	if codec, err := CodecOf(c, ""); err != nil || codec.Template.Name != "raw" {
		t.Errorf("none: %s, %v", codec.Template.Name, err)
	}
}
