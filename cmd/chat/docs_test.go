package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
)

// TestDocs_HaveEveryCommand checks that docs/chat.md has every command that /help lists.
func TestDocs_HaveEveryCommand(t *testing.T) {
	page, err := os.ReadFile("../../docs/chat.md")
	expect.OK(t, err)
	var help bytes.Buffer
	expect.OK(t, (&chatter{notes: &help}).help(t.Context(), ""))
	commands := regexp.MustCompile(`(?m)^  (/\w+)`).FindAllStringSubmatch(help.String(), -1)
	if len(commands) < 10 {
		t.Fatalf("/help lists only %v", commands)
	}
	for _, c := range commands {
		if !strings.Contains(string(page), "| `"+c[1]) {
			t.Errorf("docs/chat.md has no %s", c[1])
		}
	}
}

// TestDocs_SampleAnswer checks that the embedded model still starts its answer as docs/chat.md shows it. The page's
// answer is in bf16; in fp32 the words are the same, and the rounding of a machine is a thousandth of that which did
// not change them.
func TestDocs_SampleAnswer(t *testing.T) {
	page, err := os.ReadFile("../../docs/chat.md")
	expect.OK(t, err)
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
