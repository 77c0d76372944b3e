package cli

import (
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	f := New("x", "", io.Discard)
	f.Group("All")
	f.Add(new(bool), "quick", "")
	f.Add(new(string), "only", "")
	f.Add(new(int), "threads", "")
	for _, c := range []struct{ args, flags, paths string }{
		{"a b", "", "a b"},
		{"a --quick b", "--quick", "a b"},
		{"--only x a -threads 2 b", "--only x -threads 2", "a b"},
		{"--only=x a", "--only=x", "a"},
		{"a --quick -- --only x", "--quick", "a --only x"},
		{"- a --only", "--only", "- a"},
		{"--unknown a", "--unknown", "a"},
	} {
		flags, paths := split(f.FlagSet, strings.Fields(c.args))
		if !slices.Equal(flags, strings.Fields(c.flags)) || !slices.Equal(paths, strings.Fields(c.paths)) {
			t.Errorf("%s: flags %q, paths %q", c.args, flags, paths)
		}
	}
}

// TestShellQuote checks that a shell reads a quoted word as it was, and that a plain one has no quotes.
func TestShellQuote(t *testing.T) {
	words := []string{"out", "runs/out-1", "a b", "it's", "", "~", "$HOME", "a;b", "50%", "ü", "*", "a\nb", "\\"}
	for _, word := range words {
		quoted := ShellQuote(word)
		got, err := exec.Command("sh", "-c", "printf %s "+quoted).Output()
		if err != nil || string(got) != word {
			t.Errorf("%q: sh reads %s as %q, %v", word, quoted, got, err)
		}
	}
	if got := ShellQuote("runs/50%-ü"); got != "runs/50%-ü" {
		t.Errorf("a plain word became %s", got)
	}
}
