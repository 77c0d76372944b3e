package expect

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Read returns the contents of a file.
func Read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// File writes a file in a temporary directory of the test and returns its path.
func File(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// InCache copies directories into a new hub cache, each as the repository that is its key, and makes that cache the
// one that commands read, offline. It needs a test that is not parallel.
func InCache(t testing.TB, repositories map[string]string) {
	t.Helper()
	cache, commit := t.TempDir(), strings.Repeat("1", 40)
	for id, dir := range repositories {
		repository := filepath.Join(cache, "models--"+strings.ReplaceAll(id, "/", "--"))
		err := errors.Join(os.CopyFS(filepath.Join(repository, "snapshots", commit), os.DirFS(dir)),
			os.Mkdir(filepath.Join(repository, "refs"), 0o777),
			os.WriteFile(filepath.Join(repository, "refs", "main"), []byte(commit), 0o666))
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HF_HUB_CACHE", cache)
	t.Setenv("HF_HUB_OFFLINE", "1")
}

// Reference returns a path in the directory that RESTYLE_REFERENCE names: recorded outputs of other programs, and real
// files. It skips the test if the variable is empty or the path does not exist.
func Reference(t testing.TB, elem ...string) string {
	t.Helper()
	root := os.Getenv("RESTYLE_REFERENCE")
	if root == "" {
		t.Skip("RESTYLE_REFERENCE is not set")
	}
	path := filepath.Join(append([]string{root}, elem...)...)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s does not exist", path)
	}
	return path
}

// Recordings returns the files below the directory that RESTYLE_REFERENCE names whose names match the pattern, wherever
// they are: another directory of the same form may have other names. It skips the test if there are none.
func Recordings(t testing.TB, pattern string) (files []string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(Reference(t))
	if err == nil {
		err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if is, _ := filepath.Match(pattern, filepath.Base(path)); is && err == nil && !e.IsDir() {
				files = append(files, path)
			}
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("%s has no %s", root, pattern)
	}
	return files
}

// A Chat is a recording of a chat template: conversations, what the template makes of them, and their tokens.
type Chat struct {
	Name string // of the template
	File string
	// Tokenizer is the tokenizer.json that the conversations were encoded with, or "" if they have no tokens.
	Tokenizer string
}

// Chats returns the recordings of chat templates below the directory that RESTYLE_REFERENCE names: files NAME.jsonl of
// conversations with options. Their tokenizers are in ../tokenizer. It skips the test if there are none.
func Chats(t testing.TB) (chats []Chat) {
	t.Helper()
	for _, file := range Recordings(t, "*.jsonl") {
		dir, name := filepath.Split(file)
		text := Read(t, file)
		first, _, _ := strings.Cut(text, "\n")
		var row struct{ Messages, Options json.RawMessage }
		_, err := os.Stat(dir + "template.jinja") // a template of its own, which package jinja compares
		if err == nil || json.Unmarshal([]byte(first), &row) != nil || row.Messages == nil || row.Options == nil {
			continue
		}
		c := Chat{Name: strings.TrimSuffix(name, ".jsonl"), File: file}
		if strings.Contains(text, `"ids":`) {
			marker := regexp.MustCompile(`<\|(im_start|start_header_id)\|>`).FindString(text) // messages begin with it
			c.Tokenizer = TokenizerWith(t, marker, dir+"../tokenizer")
		}
		chats = append(chats, c)
	}
	if len(chats) == 0 {
		t.Skip("there are no recordings of chat templates")
	}
	return chats
}

// TokenizerWith returns the only tokenizer.json that has the token, in a directory or one below it.
func TokenizerWith(t testing.TB, token, dir string) string {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "*", "tokenizer.json"))
	own, _ := filepath.Glob(filepath.Join(dir, "tokenizer.json"))
	files = slices.DeleteFunc(append(files, own...), func(file string) bool {
		return !strings.Contains(Read(t, file), `"`+token+`"`)
	})
	if token == "" || len(files) != 1 {
		t.Fatalf("%s: the tokenizers that have the token %q are %q, want one", dir, token, files)
	}
	return files[0]
}

// Lines calls check with each line of a JSONL file, which may have no fields but T's.
func Lines[T any](t testing.TB, path string, check func(line int, row T)) {
	t.Helper()
	n := 0
	for line := range strings.Lines(Read(t, path)) {
		n++
		var row T
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&row); err != nil {
			t.Fatalf("%s:%d: %v", path, n, err)
		}
		check(n, row)
	}
	if n == 0 {
		t.Fatalf("%s: no lines", path)
	}
}
