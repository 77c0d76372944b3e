package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"restyle/dataset"
	"restyle/dataset/output"
)

var update = flag.Bool("update", false, "rewrite the parts of docs/gen.md that quote the help and the data")

// TestReadme checks that docs/gen.md quotes the rows of the dataset and the help text as they are.
func TestReadme(t *testing.T) {
	var help bytes.Buffer
	if code, done := defaults().flags(&help, &help).Parse([]string{"-h"}); code != 0 || !done {
		t.Fatalf("-h: %d", code)
	}
	for _, c := range []struct{ path, part, body string }{
		{"../../docs/gen.md", "rows", quotedRows(t, 62, 71, 81)}, // from different places, one of them with an input
		{"../../docs/gen.md", "flags", "```\n" + help.String() + "```\n"},
	} {
		text, err := os.ReadFile(c.path)
		if err != nil {
			t.Fatal(err)
		}
		want := part(t, c.path, string(text), c.part, c.body)
		if want == string(text) {
			continue
		}
		if !*update {
			t.Fatalf("%s is not up to date: go test ./cmd/gen -run TestReadme -update", c.path)
		}
		if _, err := output.WriteFile(c.path, []byte(want)); err != nil {
			t.Fatal(err)
		}
		os.Remove(c.path + ".bak")
	}
}

// part replaces the text between the markers <!-- name --> and <!-- /name -->.
func part(t *testing.T, path, text, name, body string) string {
	before, rest, ok := strings.Cut(text, "<!-- "+name+" -->\n")
	_, after, ok2 := strings.Cut(rest, "<!-- /"+name+" -->\n")
	if !ok || !ok2 {
		t.Fatalf("%s has no part %q", path, name)
	}
	return before + "<!-- " + name + " -->\n" + body + "<!-- /" + name + " -->\n" + after
}

// quotedRows renders the rows at these indices as Markdown quotations.
func quotedRows(t *testing.T, indices ...int) string {
	b, err := os.ReadFile("../../data/passive_aggressive_data.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []dataset.Rewritten
	if err := json.Unmarshal(b, &rows); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, i := range indices {
		r := rows[i]
		question := dataset.Question(r.Instruction, r.Input)
		fmt.Fprintf(&out, "> **%s**\n>\n", strings.ReplaceAll(question, "\n", "**\n> **"))
		for line := range strings.SplitSeq(r.OutputPassiveAggressive, "\n") {
			fmt.Fprintln(&out, strings.TrimRight("> "+line, " "))
		}
		out.WriteString("\n")
	}
	return out.String()
}
