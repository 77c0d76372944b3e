package main

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"restyle/internal/cli"
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
	if code, done := defaults().flags(&flags, &flags).Parse([]string{"-h"}); code != 0 || !done {
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

// TestSample checks that the embedded model still begins its answer as docs/chat.md shows it. The page's is in bf16; in
// fp32 the words are the same, and the rounding of a machine is a thousandth of that which did not change them.
func TestSample(t *testing.T) {
	page, err := os.ReadFile("../../docs/chat.md")
	if err != nil {
		t.Fatal(err)
	}
	const question, answer = `\$ go run ./cmd/chat (--base starter [^"]*) --prompt "([^"]*)"\n`, `\nlog [^\n]*\n(.*?)\n…`
	sample := regexp.MustCompile("(?s)" + question + ".*?" + answer).FindSubmatch(page)
	if sample == nil {
		t.Fatal("docs/chat.md has no answer of the embedded model")
	}
	args := append(strings.Fields(string(sample[1])), "--dtype", "fp32", "--log", "", "--prompt", string(sample[2]))
	o := invoke(t, "", args...)
	got, want := strings.Fields(o.stdout), strings.Fields(string(sample[3]))
	if o.code != cli.Done || len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("docs/chat.md shows another answer than\n%s%s", o.stdout, o.stderr)
	}
}
