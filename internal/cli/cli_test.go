package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"restyle/internal/expect"
)

func sample(out *bytes.Buffer) (*Flags, *int, *List, *time.Duration) {
	rows, urls, wait := 576, List{}, time.Minute
	f := New("tool", "\ntool does it.\n", out, out)
	f.Group("First")
	f.Add(&rows, "rows", "how many `N`")
	f.Group("Second")
	f.Add(&urls, "base-url", "where, as a `URL`")
	f.Env("base-url", "TOOL_URL")
	var name, note string
	f.Add(&name, "name", "a `name`")
	f.Add(&note, "note", "a `text`; empty for none")
	f.MayBeEmpty("note")
	f.Add(&wait, "wait", strings.Repeat("a long explanation that has to be wrapped ", 5))
	return f, &rows, &urls, &wait
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		env  string
		code int
		done bool
		says string
		urls string
	}{
		{"nothing", nil, "", Done, false, "", "[]"},
		{"environment", nil, "http://a, http://b", Done, false, "", "[http://a http://b]"},
		{"flag wins", []string{"--base-url", "http://c"}, "http://a", Done, false, "", "[http://c]"},
		{"repeated", []string{"--base-url", "http://c", "-base-url=http://d"}, "", Done, false, "", "[http://c http://d]"},
		{"unknown flag", []string{"--row"}, "", Usage, true,
			"tool: there is no flag --row; did you mean --rows?\nsee tool -h", "[]"},
		{"bad value", []string{"--rows", "many"}, "", Usage, true, `tool: --rows "many": must be a whole number`, "[]"},
		{"argument", []string{"out.json"}, "", Usage, true, `unexpected argument "out.json"`, "[]"},
		{"argument that is a flag", []string{"rows", "3"}, "", Usage, true, "did you mean --rows?", "[]"},
		{"empty list", []string{"--base-url", " ,"}, "", Usage, true, `--base-url " ,": it is empty`, "[]"},
		{"empty text", []string{"--name", " "}, "", Usage, true, "tool: --name is empty", "[]"},
		{"text that may be empty", []string{"--note="}, "", Done, false, "", "[]"},
		{"blank environment", nil, " ", Done, false, "", "[]"},
		{"help", []string{"-h"}, "", Done, true, "--rows N", "[]"},
	} {
		t.Setenv("TOOL_URL", c.env)
		var out bytes.Buffer
		f, _, urls, _ := sample(&out)
		code, done := f.Parse(c.args)
		if code != c.code || done != c.done || !strings.Contains(out.String(), c.says) || urls.String() != c.urls {
			t.Errorf("%s: %d %v %q %v", c.name, code, done, out.String(), urls)
		}
		if lines := strings.Count(out.String(), "\n"); c.code == Usage && lines > 2 {
			t.Errorf("%s: %d lines for one mistake", c.name, lines)
		}
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	f, _, _, _ := sample(&out)
	f.Parse([]string{"--help"})
	text := out.String()
	last := -1
	for _, want := range []string{"tool does it.", "First", "--rows N", "(default 576)", "Second", "--base-url URL",
		"(environment TOOL_URL)", "--wait duration", "(default 1m0s)"} {
		at := strings.Index(text, want)
		if at <= last {
			t.Errorf("%q is missing or out of order in\n%s", want, text)
		}
		last = at
	}
	for line := range strings.SplitSeq(text, "\n") {
		if len(line) > 100 {
			t.Errorf("a line of %d characters: %q", len(line), line)
		}
	}
}

// TestHelp_StandardOutput checks that the help goes to standard output, and what is wrong to standard error.
func TestHelp_StandardOutput(t *testing.T) {
	for arg, want := range map[string]string{"-h": "help|", "--help": "help|", "--x": "|error", "x": "|error"} {
		var stdout, stderr bytes.Buffer
		f := New("tool", "tool does it.", &stdout, &stderr)
		f.Group("All")
		f.Add(new(int), "rows", "")
		f.Parse([]string{arg})
		got := "|"
		if strings.HasPrefix(stdout.String(), "tool does it.") {
			got = "help" + got
		}
		if strings.Contains(stderr.String(), "see tool -h") {
			got += "error"
		}
		if got != want || stdout.Len() > 0 && stderr.Len() > 0 {
			t.Errorf("%s: %q and %q", arg, stdout.String(), stderr.String())
		}
	}
}

// TestHelp_Defaults checks that the help shows defaults that depend on other flags, wherever these are.
func TestHelp_Defaults(t *testing.T) {
	for _, args := range [][]string{{"-h", "--model", "b"}, {"--model", "b", "--wrong", "-h"}} {
		var out bytes.Buffer
		f := New("tool", "tool does it.", &out, io.Discard)
		model, rate := "a", 0.5
		f.Group("All")
		f.Add(&model, "model", "")
		f.Add(&rate, "rate", "how fast")
		f.Defaults(func() map[string]string { return map[string]string{"rate": "that of " + model} })
		if code, done := f.Parse(args); code != Done || !done || !strings.Contains(out.String(), "(default that of b)") {
			t.Errorf("%v: %d, %s", args, code, out.String())
		}
	}
}

// TestHelp_ImportantFlagsFirst checks that the most important flags are at the beginning of the help, and nowhere else
// in it.
func TestHelp_ImportantFlagsFirst(t *testing.T) {
	var out bytes.Buffer
	f, _, _, _ := sample(&out)
	f.First("Most used", "wait", "rows")
	f.Parse([]string{"-h"})
	text := out.String()
	most, wait, rows, second := strings.Index(text, "\nMost used\n"), strings.Index(text, "--wait"),
		strings.Index(text, "--rows"), strings.Index(text, "\nSecond\n")
	if !(0 <= most && most < wait && wait < rows && rows < second) || strings.Count(text, "--wait") != 1 ||
		strings.Contains(text, "\nFirst\n") {
		t.Errorf("the help is\n%s", text)
	}
}

// TestFiles_Patterns checks patterns: what matches is added in the order of names, and a file with such a name is that
// file.
func TestFiles_Patterns(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.jsonl", "a.jsonl", "c.json", "[x].json", "x.json"} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	for _, c := range []struct {
		flag, want, says string
	}{
		{"*.jsonl", "a.jsonl b.jsonl", ""},
		{"[x].json", "[x].json", ""},
		{"[cx].json", "c.json x.json", ""},
		{"none.json", "none.json", ""},
		{"*.csv", "", "no file matches"},
		{"[a", "", "syntax error in pattern"},
	} {
		var files Files
		err := files.Set(filepath.Join(dir, c.flag))
		var names []string
		for _, f := range files {
			names = append(names, filepath.Base(f))
		}
		if got := strings.Join(names, " "); got != c.want || (err != nil) != (c.says != "") ||
			err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s is %q, %v, want %q, %s", c.flag, got, err, c.want, c.says)
		}
	}
	if err := new(Files).Set(" "); err == nil {
		t.Error("an empty path was taken")
	}
}

func TestText(t *testing.T) {
	full := errors.New("disk full")
	for _, c := range []struct {
		err  error
		want string
	}{
		{full, "disk full"},
		{errors.Join(full, errors.New("another"), full), "disk full\nanother"},
		{errors.Join(fmt.Errorf("log: %w", full), full), "log: disk full\ndisk full"},
	} {
		if got := Text(c.err); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
