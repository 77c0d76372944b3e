package main

import (
	"os"
	"strings"
	"testing"
)

// TestTypedRows_AnswersAreRight runs the answers to questions of typed.tsv. With RESTYLE_LONG it runs them all.
func TestTypedRows_AnswersAreRight(t *testing.T) {
	needPython(t)
	about, err := readTopics()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := typedRows(about)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 300 {
		t.Errorf("%d questions, want 300", len(rows))
	}
	if os.Getenv("RESTYLE_LONG") == "" {
		rows = some(newDraw(1, "sample"), 40, 40, rows)
	}
	for i, row := range rows {
		if row.group != "typed" {
			t.Errorf("%q is of the group %q", row.Instruction, row.group)
		}
		if rows[i].words = row.words; row.words && i%2 == 0 { // as a model may write
			if strings.Contains(row.Output, "\n") {
				rows[i].Output = "Sure, here it is:\n\n```python\n" + row.Output + "\n```\n\nWhile input is if for."
			} else {
				rows[i].Output = "A first sentence.\n\n" + row.Output + "\n\nIs there more?"
			}
		}
	}
	if err := verify(t.Context(), rows); err != nil {
		t.Error(err)
	}
}
