package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenInput opens regular files and other things. OpenInput must not wait for a pipe without a writer, otherwise
// this test would not end.
func TestOpenInput(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("file"), []byte("text"), 0o600), os.Symlink("file", at("link")),
		unix.Mkfifo(at("pipe"), 0o600), os.Symlink("pipe", at("link to a pipe"))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"file": "", "link": "", ".": "not a file but a directory", "pipe": "not a file but a named pipe",
		"link to a pipe": "not a file but a named pipe", "none": "no such file",
	} {
		data, err := ReadInput(at(name))
		if want == "" && (err != nil || string(data) != "text") {
			t.Errorf("%s: %q, %v", name, data, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), at(name))) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadInput(at("none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := OpenInput("/dev/null"); err == nil || !strings.Contains(err.Error(), "a device") {
		t.Error(err)
	}
}
