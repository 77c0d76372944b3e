package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"restyle/dataset"
	"restyle/internal/expect"
)

// TestDocs_QuoteRowsOfDataset checks that docs/gen.md quotes rows of the dataset as they are.
func TestDocs_QuoteRowsOfDataset(t *testing.T) {
	page, err := os.ReadFile("../../docs/gen.md")
	expect.OK(t, err)
	b, err := os.ReadFile("../../data/passive_aggressive_data.json")
	expect.OK(t, err)
	var rows []dataset.Rewritten
	expect.OK(t, json.Unmarshal(b, &rows))
	for _, i := range []int{8, 24, 38} { // one with an input, one as people type, one that is refused
		if quoted := quote(rows[i]); !strings.Contains(string(page), quoted) {
			t.Errorf("docs/gen.md does not quote row %d:\n%s", i, quoted)
		}
	}
}

// quote renders a row as a Markdown quotation.
func quote(r dataset.Rewritten) string {
	var out strings.Builder
	question := dataset.Question(r.Instruction, r.Input)
	fmt.Fprintf(&out, "> **%s**\n>\n", strings.ReplaceAll(question, "\n", "**\n> **"))
	for line := range strings.SplitSeq(r.OutputPassiveAggressive, "\n") {
		fmt.Fprintln(&out, strings.TrimRight("> "+line, " "))
	}
	return out.String()
}
