package expect

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
