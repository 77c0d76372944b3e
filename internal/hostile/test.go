package hostile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A Test is a test with one of the Texts.
type Test struct {
	*testing.T
	Text string
	JSON string // Text as a JSON string
	Dir  string // an empty directory for this test
}

// Each runs test once for each of the Texts.
func Each(t *testing.T, test func(t *Test)) {
	t.Helper()
	for name, text := range Texts {
		t.Run(name, func(t *testing.T) {
			quoted, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			test(&Test{t, text, string(quoted), t.TempDir()})
		})
	}
}

// Write creates a file in Dir and returns its path. It skips the test if the file system does not allow Text in a name.
func (t *Test) Write(name, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.Dir, name)
	err := os.WriteFile(path, []byte(content), 0o600)
	if err != nil && strings.Contains(filepath.Base(name), t.Text) {
		t.Skip("this file system does not take the name: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Look fails the test if a terminal would obey anything in the outputs of what.
func (t *Test) Look(what string, outputs ...string) {
	t.Helper()
	for _, output := range outputs {
		if found := Found(output, false); found != "" {
			t.Errorf("%s: %s", what, found)
		}
	}
}

// LookAt does what Look does, for files.
func (t *Test) LookAt(paths ...string) {
	t.Helper()
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Look(filepath.Base(path), string(b))
	}
}
