package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestMain(m *testing.M) {
	switch {
	case IsChild() && os.Getenv(misbehave) != "":
		os.Exit(badChild(os.Getenv(misbehave)))
	case IsChild():
		os.Exit(ChildMain())
	case os.Getenv(mutate) != "":
		os.Exit(mutations())
	}
	os.Exit(m.Run())
}

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

// sampleRows returns the rows that testdata/make.py writes.
func sampleRows() []Row {
	var rows []Row
	for i := range 40 {
		r := Row{Index: i, Instruction: fmt.Sprintf("Write a function that adds %d to a number.", i),
			Output: fmt.Sprintf("def add(n):\n    return n + %d\n", i)}
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
