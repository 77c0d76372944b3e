package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/chat"
	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/expect"
)

// TestTemplateIsSaved checks that a model is saved with the chat template that it was trained with, whatever its base
// had.
func TestTemplateIsSaved(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain.txt")
	expect.OK(t, os.WriteFile(plain, []byte(strings.Repeat("To be, or not to be. ", 200)), 0o666))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--template", "zephyr"}, "zephyr"},
		{[]string{"--template", "raw"}, "raw"},
		{[]string{"--template", "chatml"}, "chatml"},
		{nil, "chatml"},
		{[]string{"--text", plain}, "raw"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		args := append(small(t, out, "--max-steps", "1", "--samples", "0"), c.args...)
		if c.want == "raw" && c.args[0] == "--text" {
			args = append([]string{"--model", tinyBase, "--out", out, "--benchmark-log", "", "--seq", "64", "--max-steps", "1",
				"--samples", "0"}, c.args...)
		}
		o := must(t, cli.Done, args...)
		if said := strings.Contains(o.stdout, "which the result is saved with"); said != (c.want != "chatml") {
			t.Errorf("%v: said of another template: %v\n%v", c.args, said, o)
		}
		m, err := hf.Open(t.Context(), nil, out)
		expect.OK(t, err)
		defer m.Close()
		l, err := infer.CodecOf(m, "")
		if err != nil || l.Template.Name != c.want {
			t.Errorf("%v: asked as %q, %v", c.args, l.Template.Name, err)
		}
		// Both places where other programs look have the same template; a file that needed no change is unchanged.
		settings, err := hf.ParseTokenizerConfig(readFile(t, filepath.Join(out, "tokenizer_config.json")))
		expect.OK(t, err)
		family, err := chat.Detect(settings.ChatTemplate)
		if err != nil || family.Name != c.want {
			t.Errorf("%v: tokenizer_config.json has the template of %q, %v", c.args, family.Name, err)
		}
		if same := string(readFile(t, filepath.Join(out, "tokenizer_config.json"))) == string(readFile(t,
			filepath.Join(tinyBase, "tokenizer_config.json"))); same != (c.want == "chatml") {
			t.Errorf("%v: tokenizer_config.json is as it was: %v", c.args, same)
		}
	}
}

// TestTemplateNeedsTokens checks that a template whose tokens the tokenizer lacks is refused before anything is
// written.
func TestTemplateNeedsTokens(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	o := must(t, cli.Failed, small(t, out, "--template", "llama3")...)
	if !strings.Contains(o.stderr, "has no token <|eot_id|>") {
		t.Error(o)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("the directory was made")
	}
}

// TestNamedTemplate trains with one of the base model's own templates, by its name.
func TestNamedTemplate(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	expect.OK(t, os.CopyFS(base, os.DirFS(tinyBase)))
	const short = "{% for m in messages %}[{{ m.role }}]{{ m.content }}<|im_end|>{% endfor %}" +
		"{% if add_generation_prompt %}[assistant]{% endif %}"
	file := filepath.Join(base, "additional_chat_templates", "short.jinja")
	expect.OK(t, os.MkdirAll(filepath.Dir(file), 0o777))
	expect.OK(t, os.WriteFile(file, []byte(short), 0o666))
	want, err := chat.Detect(short)
	expect.OK(t, err)
	out := filepath.Join(t.TempDir(), "out")
	args := append(small(t, out, "--max-steps", "1", "--samples", "0"), "--model", base)
	must(t, cli.Done, append(args, "--template", "short")...)
	m, err := hf.Open(t.Context(), nil, out)
	expect.OK(t, err)
	defer m.Close()
	if l, err := infer.CodecOf(m, ""); err != nil || l.Template.Name != want.Name {
		t.Errorf("asked as %q, %v, want %q", l.Template.Name, err, want.Name)
	}
	o := must(t, cli.Usage, append(args, "--template", "long")...)
	if !strings.Contains(o.stderr, "--template: ") || !strings.Contains(o.stderr, "short") ||
		!strings.Contains(o.stderr, "chatml") {
		t.Error(o)
	}
}
