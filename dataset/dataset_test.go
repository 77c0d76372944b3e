package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	switch {
	case IsChild() && os.Getenv(misbehave) != "":
		os.Exit(badChild(os.Getenv(misbehave)))
	case IsChild():
		os.Exit(ChildMain())
	case os.Getenv(writeForever) != "":
		os.Exit(writer(os.Getenv(writeForever)))
	case os.Getenv(mutate) != "":
		os.Exit(mutations())
	}
	os.Exit(m.Run())
}

// write makes a file in a folder of the test's own.
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

// all reads a source to its end.
func all(spec string, o Options) (rows []Row, s *Source, err error) {
	s, err = Open(context.Background(), spec, o)
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	for {
		row, err := s.Next()
		if err == io.EOF {
			return rows, s, nil
		}
		if err != nil {
			return rows, s, err
		}
		rows = append(rows, row)
	}
}

// wantError fails unless err says all of the words, in one line of bearable length.
func wantError(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	text := err.Error()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("error %q does not say %q", text, w)
		}
	}
	if len(text) > 1500 || strings.Contains(text, "\n") {
		t.Errorf("error is not one short line: %q", text)
	}
}

// reference is the path of a real file that is not part of the module.
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

// growth is by how many bytes what is kept in the heap has grown, at most, when f calls look. What the collector has yet to
// free does not count: how much that is depends on when it ran.
func growth(f func(look func())) int {
	kept := func() int {
		runtime.GC()
		runtime.GC() // pools lose what they hold the second time
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before, most := kept(), 0
	f(func() { most = max(most, kept()-before) })
	return most
}

// sampleRows are those of testdata/make.py.
func sampleRows() []Row {
	var rows []Row
	for i := range 40 {
		r := Row{Index: i, Instruction: fmt.Sprintf("Write a function that adds %d to a number.", i), Output: fmt.Sprintf("def add(n):\n    return n + %d\n", i)}
		if i%3 == 0 {
			r.Input = fmt.Sprintf("n = %d", i)
		}
		if i == 7 {
			r.Instruction = "Grüße aus 東京 🙂: print it."
		}
		rows = append(rows, r)
	}
	return rows
}
