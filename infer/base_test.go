package infer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"restyle/hf/hub"
)

func TestBaseOfDirectory(t *testing.T) {
	dir := t.TempDir()
	card := filepath.Join(dir, "README.md")
	if got := baseIn(dir); got != "" {
		t.Errorf("no card names %q", got)
	}
	for text, want := range map[string]string{
		"---\nbase_model:\n- owner/name\n---\n": "owner/name", "---\nbase_model: \"a/b\"\n---\n": "a/b",
		"# base_model: x\n": "", "---\n---\nbase_model: x": "", "": "",
	} {
		if err := os.WriteFile(card, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := baseIn(dir); got != want {
			t.Errorf("%q names %q, want %q", text, got, want)
		}
	}
	// run.json comes first if it names a base model.
	run := filepath.Join(dir, "run.json")
	for _, c := range []struct{ text, want string }{
		{`{"base_model": "/models/llama", "settings": {}}`, "/models/llama"},
		{`{"settings": {}}`, "a/b"},
		{`{"base_model": 1}`, "a/b"},
		{"", "a/b"}, // the last one: what follows needs a run.json that names nothing
	} {
		if err := errors.Join(os.WriteFile(card, []byte("---\nbase_model: a/b\n---\n"), 0o644),
			os.WriteFile(run, []byte(c.text), 0o644)); err != nil {
			t.Fatal(err)
		}
		if got := baseIn(dir); got != c.want {
			t.Errorf("run.json %q names %q, want %q", c.text, got, c.want)
		}
	}
	// So does export.json.
	if err := os.WriteFile(filepath.Join(dir, "export.json"), []byte(`{"base_model": "/models/tuned"}`),
		0o644); err != nil {
		t.Fatal(err)
	}
	if got, want := baseIn(dir), "/models/tuned"; got != want {
		t.Errorf("export.json names %q, want %q", got, want)
	}
	// A pipe without a writer is no card, and is not waited for.
	err := errors.Join(os.Remove(run), os.Remove(filepath.Join(dir, "export.json")), os.Remove(card),
		syscall.Mkfifo(card, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if got := baseIn(dir); got != "" {
		t.Errorf("a pipe names %q", got)
	}
}

// TestBaseOf finds the base of models in a directory and on the hub.
func TestBaseOf(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	const commit = "1111111111111111111111111111111111111111"
	write := func(path, text string) {
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, file := range map[string]string{"with": "README.md", "without": "config.json"} {
		repo := filepath.Join(cache, "models--owner--"+name)
		write(filepath.Join(repo, "refs", "main"), commit)
		write(filepath.Join(repo, "snapshots", commit, file), "---\nbase_model: a/b\n---\n")
	}
	write(filepath.Join(cache, "models--owner--adapter", "refs", "main"), commit)
	write(filepath.Join(cache, "models--owner--adapter", "snapshots", commit, "README.md"), "---\nbase_model: a/b\n---\n")
	write(filepath.Join(cache, "models--owner--adapter", "snapshots", commit, "adapter_config.json"),
		`{"base_model_name_or_path": "c/d"}`)
	write(filepath.Join(dir, "here", "export.json"), `{"base_model": "`+dir+`"}`)
	write(filepath.Join(dir, "gone", "export.json"), `{"base_model": "`+dir+`/base"}`)
	write(filepath.Join(dir, "adapter", "adapter_config.json"), `{"base_model_name_or_path": "../here"}`)
	write(filepath.Join(dir, "recorded", "adapter_config.json"), `{"base_model_name_or_path": "c/d"}`)
	write(filepath.Join(dir, "recorded", "restyle_adapter.json"), `{"base_model": "a/b"}`)
	write(filepath.Join(dir, "mlx", "adapter_config.json"), `{"model": "e/f"}`)
	write(filepath.Join(dir, "windows", "adapter_config.json"), `{"base_model_name_or_path": "C:\\Users\\a"}`)
	h := &hub.Hub{Cache: cache, Offline: true}
	for _, c := range []struct{ name, want, err string }{
		{dir + "/here", dir, ""},
		{dir + "/gone", "", dir + "/gone was made from the model in " + dir + "/base, which is not there any more"},
		{dir + "/adapter", dir + "/here", ""},
		{dir + "/recorded", "a/b", ""},
		{dir + "/mlx", "e/f", ""},
		{dir + "/windows", "", dir + `/windows was made from the model in C:\Users\a, which is not there any more`},
		{dir, "", ""},
		{"owner/with", "a/b", ""},
		{"owner/without", "", ""},
		{"owner/adapter", "c/d", ""},
		{"owner/absent", "", `there is no directory "owner/absent", and the hub: `},
		{"starter", "", ""},
		{"no-such-directory", "", ""},
	} {
		got, err := BaseOf(t.Context(), h, c.name)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}
