package main

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the lists of flags and commands in docs/chat.md again")

// TestDocs checks that docs/chat.md lists the same flags and commands as -h and /help.
func TestDocs(t *testing.T) {
	const path = "../../docs/chat.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var flags, commands bytes.Buffer
	if code, done := defaults().flags(&flags).Parse([]string{"-h"}); code != 0 || !done {
		t.Fatalf("-h: %d", code)
	}
	if err := (&chatter{notes: &commands}).help(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	want := string(page)
	for name, list := range map[string]string{"flags": flags.String(), "commands": commands.String()} {
		begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
		before, rest, ok := strings.Cut(want, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no place for the %s", path, name)
		}
		want = before + begin + "```\n" + list + "```\n" + end + after
	}
	if want == string(page) {
		return
	}
	if !*update {
		t.Fatalf("%s is not up to date: go test ./cmd/chat -run TestDocs -update", path)
	}
	if err := os.WriteFile(path, []byte(want), 0o666); err != nil {
		t.Fatal(err)
	}
}
