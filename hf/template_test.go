package hf

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"restyle/internal/expect"
)

//nolint:lll // JSON in one piece
func TestSetTemplate(t *testing.T) {
	files := map[string][]byte{
		"config.json":            []byte(smallConfig),
		"tokenizer_config.json":  []byte(`{"z":1.50,"chat_template":"old","bos_token":"<s>","a":"<&>","chat_template":"older"}`),
		"generation_config.json": []byte(`{"temperature":0.70,"eos_token_id":5}`),
		"chat_template.jinja":    []byte("old"),
		"tokenizer.json":         []byte("{}"),
	}
	c, err := NewModel(files)
	expect.OK(t, err)
	expect.OK(t, c.SetTemplate(ChatTemplate{Jinja: "{{ '<new>' }}\n", BOS: "<x>", EOS: "</x>", End: 7}))
	for name, want := range map[string]string{
		"tokenizer_config.json": "{\n  \"z\": 1.50,\n  \"chat_template\": \"{{ '<new>' }}\\n\",\n  \"bos_token\": " +
			"\"<s>\",\n  \"a\": \"<&>\",\n" +
			"  \"chat_template\": \"{{ '<new>' }}\\n\",\n  \"eos_token\": \"</x>\"\n}\n",
		"generation_config.json": "{\n  \"temperature\": 0.70,\n  \"eos_token_id\": [\n    7,\n    5\n  ]\n}\n",
		"chat_template.jinja":    "{{ '<new>' }}\n",
		"tokenizer.json":         "{}",
		"config.json":            smallConfig,
	} {
		if got, err := c.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v, want %q", name, got, err, want)
		}
	}
	if want := (TokenizerConfig{ChatTemplate: "{{ '<new>' }}\n", BOS: "<s>", EOS: "</x>"}); !cmp.Equal(c.Tokenizer, want) {
		t.Errorf("%+v", c.Tokenizer)
	}
	if !slices.Equal(c.Generation.EOS, []int32{7, 5}) || c.Generation.Temperature != 0.7 {
		t.Errorf("%+v", c.Generation)
	}

	// What the model has by now stays.
	if err := c.SetTemplate(ChatTemplate{Jinja: "x", BOS: "<y>", EOS: "</y>", End: 7}); err != nil ||
		!cmp.Equal(c.Tokenizer, TokenizerConfig{ChatTemplate: "x", BOS: "<s>", EOS: "</x>"}) {
		t.Errorf("%+v, %v", c.Tokenizer, err)
	}

	// Setting the same end again does not add it twice. Without an end, nothing is added.
	for _, end := range []int32{7, -1} {
		if err := c.SetTemplate(ChatTemplate{Jinja: "x", End: end}); err != nil ||
			!slices.Equal(c.Generation.EOS, []int32{7, 5}) {
			t.Errorf("end %d: %v, %v", end, c.Generation.EOS, err)
		}
	}
}

// TestTemplateError tells a chat template that cannot be used from other mistakes in its file.
func TestTemplateError(t *testing.T) {
	for config, want := range map[string]bool{`{"bos_token":7}`: false, `{"chat_template":7}`: true,
		`{"bos_token":7,"chat_template":"x"}`: false, `{"bos_token":7,"chat_template":8}`: true,
		`{"chat_template":"x"}`: false} {
		files := map[string][]byte{"config.json": []byte(smallConfig), "tokenizer_config.json": []byte(config)}
		c, err := NewModel(files)
		if err != nil || (c.TemplateError != nil) != want {
			t.Fatalf("%s: %v, %v", config, c.TemplateError, err)
		}
		files["chat_template.jinja"] = []byte("y")
		if c, err = NewModel(files); err != nil || c.TemplateError != nil || c.Tokenizer.ChatTemplate != "y" {
			t.Errorf("%s, and a file: %q, %v, %v", config, c.Tokenizer.ChatTemplate, c.TemplateError, err)
		}
	}
}

// TestSetTemplateWithoutFiles checks that a model without either file gets both, and keeps the end tokens of
// config.json.
func TestSetTemplateWithoutFiles(t *testing.T) {
	config := strings.Replace(smallConfig, "{", `{"eos_token_id":[3,4],`, 1)
	c, err := NewModel(map[string][]byte{"config.json": []byte(config)})
	expect.OK(t, err)
	expect.OK(t, c.SetTemplate(ChatTemplate{Jinja: "x", BOS: "<s>", End: 2}))
	data, err := c.ReadFile("tokenizer_config.json")
	if err != nil || string(data) != "{\n  \"bos_token\": \"<s>\",\n  \"chat_template\": \"x\"\n}\n" {
		t.Errorf("%q, %v", data, err)
	}
	if !slices.Equal(c.Generation.EOS, []int32{2, 3, 4}) {
		t.Errorf("%v", c.Generation.EOS)
	}
}

// TestNamedTemplates checks that templates in files replace all of tokenizer_config.json's, as in transformers 5.24.
func TestNamedTemplates(t *testing.T) {
	const listed = `{"chat_template":[{"name":"rag","template":"old rag"},{"name":"default","template":"old"}]}`
	for _, c := range []struct {
		name  string
		files map[string]string
		text  string // of the default
		named map[string]string
	}{
		{"a list", map[string]string{"tokenizer_config.json": listed}, "old",
			map[string]string{"rag": "old rag", "default": "old"}},
		{"a file", map[string]string{"tokenizer_config.json": listed, "chat_template.jinja": "new"}, "new", nil},
		{"more files", map[string]string{"tokenizer_config.json": listed, "chat_template.jinja": "new",
			"additional_chat_templates/tool_use.jinja": "tools", "additional_chat_templates/notes.txt": "x",
			"additional_chat_templates/deep/er.jinja": "x"}, "new", map[string]string{"default": "new", "tool_use": "tools"}},
		{"more files alone", map[string]string{"tokenizer_config.json": listed,
			"additional_chat_templates/tool_use.jinja": "tools"}, "", map[string]string{"tool_use": "tools"}},
	} {
		fsys := fstest.MapFS{"config.json": {Data: []byte(smallConfig)}}
		for name, text := range c.files {
			fsys[name] = &fstest.MapFile{Data: []byte(text)}
		}
		files := source{fsys, "here"}
		m, err := newCheckpoint("m", files.readText, files.moreTemplates())
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if m.Tokenizer.ChatTemplate != c.text || !maps.Equal(m.Tokenizer.ChatTemplates, c.named) {
			t.Errorf("%s: %+v", c.name, m.Tokenizer)
		}
		if text, ok := m.Tokenizer.Template(DefaultTemplate); ok != (c.text != "") || text != c.text {
			t.Errorf("%s: the default is %q, %v", c.name, text, ok)
		}
		for name, want := range c.named {
			if text, ok := m.Tokenizer.Template(name); !ok || text != want {
				t.Errorf("%s: %s is %q, %v", c.name, name, text, ok)
			}
		}
		if _, ok := m.Tokenizer.Template("none"); ok {
			t.Errorf("%s: a template that is not there", c.name)
		}
	}
}

// TestSpecialTokensMap checks the tokens that templates know, which special_tokens_map.json may name.
func TestSpecialTokensMap(t *testing.T) {
	const special = `{"bos_token":{"content":"<s>"},"eos_token":null,"pad_token":"<pad>",` +
		`"additional_special_tokens":["<x>"]}`
	for _, c := range []struct {
		config, special string
		want            TokenizerConfig
	}{
		{"", special, TokenizerConfig{BOS: "<s>", Tokens: map[string]string{"pad_token": "<pad>"}}},
		{`{"eos_token":"</s>","unk_token":"<unk>","pad_token":"p"}`, special,
			TokenizerConfig{BOS: "<s>", Tokens: map[string]string{"pad_token": "<pad>", "unk_token": "<unk>"}}},
		{`{"eos_token":"</s>","added_tokens_decoder":{}}`, special, TokenizerConfig{EOS: "</s>"}},
		{`{"eos_token":"</s>"}`, "{", TokenizerConfig{EOS: "</s>"}},
	} {
		files := map[string][]byte{"config.json": []byte(smallConfig), "special_tokens_map.json": []byte(c.special)}
		if c.config != "" {
			files["tokenizer_config.json"] = []byte(c.config)
		}
		m, err := NewModel(files)
		expect.OK(t, err)
		if diff := cmp.Diff(c.want, m.Tokenizer); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.config, diff)
		}
	}
}

// TestTokensOfFiles compares the tokens that templates know with what tokenizer/testdata/make_files.py recorded.
func TestTokensOfFiles(t *testing.T) {
	for line := range strings.Lines(expect.Read(t, "../tokenizer/testdata/files.jsonl")) {
		var row struct {
			Name  string
			Files map[string]json.RawMessage
			Names map[string]string
		}
		expect.OK(t, json.Unmarshal([]byte(line), &row))
		files := map[string][]byte{"config.json": []byte(smallConfig)}
		for name, data := range row.Files {
			files[name] = data
		}
		m, err := NewModel(files)
		if err != nil {
			t.Fatalf("%s: %v", row.Name, err)
		}
		got := map[string]string{"bos_token": m.Tokenizer.BOS, "eos_token": m.Tokenizer.EOS}
		maps.Copy(got, m.Tokenizer.Tokens)
		maps.DeleteFunc(got, func(_, text string) bool { return text == "" })
		if !maps.Equal(got, row.Names) {
			t.Errorf("%s: %v, want %v", row.Name, got, row.Names)
		}
	}
}

// TestNamedTemplatesFromHub checks that further templates are downloaded.
func TestNamedTemplatesFromHub(t *testing.T) {
	r := repositoryOf(t, "testdata/tied")
	r.files["additional_chat_templates/tool_use.jinja"] = []byte("tools")
	c, err := Open(t.Context(), r.open(t), "owner/name")
	expect.OK(t, err)
	defer c.Close()
	if text, ok := c.Tokenizer.Template("tool_use"); !ok || text != "tools" {
		t.Errorf("%+v", c.Tokenizer)
	}
}
