package training

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// write writes a file to a temporary directory and returns its path.
func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// reference returns the path of a real file that is not part of the module.
func reference(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("RESTYLE_REFERENCE")
	if dir == "" {
		t.Skip("RESTYLE_REFERENCE is not set: no real files to read")
	}
	path := filepath.Join(dir, "data", name)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		t.Skipf("%s is not there", path)
	}
	return path
}
