package dataset

import (
	"context"
	"fmt"
	"io"
	"os"
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
