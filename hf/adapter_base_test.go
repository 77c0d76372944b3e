package hf

import (
	"os"
	"path/filepath"
	"testing"

	"restyle/internal/expect"
	"restyle/tensor"
)

// TestAdapterOn_TakesItsOwnFiles checks which tokenizer and template a base gets with an adapter that has some of the
// files, also when they are saved and read again. The files of a tokenizer belong together.
func TestAdapterOn_TakesItsOwnFiles(t *testing.T) {
	const own, others = `{"eos_token":"own","chat_template":"own"}`, `{"eos_token":"base","chat_template":"base"}`
	for _, test := range []struct {
		name                   string
		adapter, base          map[string]string
		eos, template, special string
	}{
		{"none", nil, map[string]string{"tokenizer_config.json": others}, "base", "base", ""},
		{"settings", map[string]string{"tokenizer_config.json": own},
			map[string]string{"chat_template.jinja": "base", "special_tokens_map.json": "{}"}, "own", "own", "{}"},
		{"settings without a template", map[string]string{"tokenizer_config.json": `{"eos_token":"own"}`},
			map[string]string{"tokenizer_config.json": others}, "own", "base", ""},
		{"template", map[string]string{"chat_template.jinja": "own"},
			map[string]string{"tokenizer_config.json": others}, "base", "own", ""},
		{"named template", map[string]string{"additional_chat_templates/default.jinja": "own"},
			map[string]string{"chat_template.jinja": "base"}, "", "own", ""},
		{"tokenizer", map[string]string{"tokenizer.json": "{}"}, map[string]string{"tokenizer_config.json": others,
			"special_tokens_map.json": "{}"}, "", "base", ""},
	} {
		dir := writeAdapter(t, peftConfig(""), adapterWeights("model.layers.0.self_attn.q_proj.lora_A.weight",
			"model.layers.0.self_attn.q_proj.lora_B.weight", false, tensor.F32))
		for name, text := range test.adapter {
			expect.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
			write(t, filepath.Join(dir, name), text)
		}
		files := map[string][]byte{}
		for name, text := range test.base {
			files[name] = []byte(text)
		}
		var err error
		if files["config.json"], err = os.ReadFile("testdata/tied/config.json"); err != nil {
			t.Fatal(err)
		}
		base, err := NewModel(files)
		expect.OK(t, err)
		c, err := open(t, dir).On(base)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		special, _ := c.ReadFile("special_tokens_map.json")
		if c.Tokenizer.EOS != test.eos || c.Tokenizer.ChatTemplate != test.template || string(special) != test.special {
			t.Errorf("%s: EOS %q, template %q, special tokens %q", test.name, c.Tokenizer.EOS, c.Tokenizer.ChatTemplate,
				special)
		}
		saved, err := newCheckpoint("saved", c.read, c.more)
		if err != nil || saved.Tokenizer.ChatTemplate != test.template {
			t.Errorf("%s: %v: saved with the template %q", test.name, err, saved.Tokenizer.ChatTemplate)
		}
	}
}
