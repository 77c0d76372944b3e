package main

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the part of docs/train.md that follows from the code")

// TestDocs checks that docs/train.md quotes the current help text.
func TestDocs(t *testing.T) {
	const path, begin, end = "../../docs/train.md", "<!-- flags -->\n", "<!-- /flags -->\n"
	var help bytes.Buffer
	_, flags := newOptions(&help, &help)
	if code, done := flags.Parse([]string{"-h"}); code != 0 || !done {
		t.Fatalf("-h: %d", code)
	}
	text := string(readFile(t, path))
	before, rest, ok := strings.Cut(text, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the flags", path)
	}
	want := before + begin + "```\n" + help.String() + "```\n" + end + after
	if want == text {
		return
	}
	if !*update {
		t.Fatalf("%s is not up to date: go test ./cmd/train -run TestDocs -update", path)
	}
	if err := os.WriteFile(path, []byte(want), 0o666); err != nil {
		t.Fatal(err)
	}
}
