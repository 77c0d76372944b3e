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

type settingError struct{ error }

func (settingError) Setting() string { return "threads" }

// TestWords holds what the small functions return to what they say in their comments.
func TestWords(t *testing.T) {
	long, cut := strings.Repeat("x", 61), strings.Repeat("é", 29)+"xxé"
	names := strings.Fields(strings.Repeat("n ", 22))
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{os.WriteFile(path("a"), nil, 0o600), os.WriteFile(path("b"), nil, 0o600),
		os.Symlink("a", path("link"))} {
		expect.OK(t, err)
	}
	usage := Usagef("--x %d: %w", 7, io.EOF)
	_, isUsage := errors.AsType[*UsageError](usage)
	for i, c := range [][2]any{
		{usage.Error(), "--x 7: EOF"}, {isUsage, true}, {errors.Is(usage, io.EOF), true},
		{NameFlag(io.EOF), io.EOF},
		{NameFlag(fmt.Errorf("x: %w", settingError{io.EOF})).Error(), "x: EOF (--threads)"},
		{CheckDevice("cuda:x").Error(), `--device "cuda:x": must be auto, cpu, cuda, cuda:N or emulated`},
		{CheckDevice("cuda:65536") == nil, false}, {CheckDevice("gpu") == nil, false}, {CheckDevice("") == nil, false},
		{CheckThreads(-1).Error(), "--threads -1: must be from 1 to 1024, or 0 for all"},
		{CheckThreads(MaxThreads+1) == nil, false},
		{Count(0, "row"), "0 rows"}, {Count(1, "row"), "1 row"}, {Count(2, "row"), "2 rows"},
		{Some(nil), ""}, {Some(names[:2]), "n, n"}, {Some(names[:20]), strings.Repeat("n, ", 19) + "n"},
		{Some(names[:21]), strings.Repeat("n, ", 20) + "and 1 more"}, {Some(names), strings.Repeat("n, ", 20) + "and 2 more"},
		{Some([]string{long, long[:60]}), long[:60] + "…, " + long[:60]}, {Some([]string{cut + "xx"}), cut[:60] + "…"},
		{SameFile(path("a"), path("a")), true}, {SameFile(path("a"), path("link")), true},
		{SameFile(path("a"), path("b")), false}, {SameFile(path("a"), path("none")), false},
		{SameFile(path("none"), path("a")), false}, {SameFile(path("none"), path("./none")), true},
		{strings.HasSuffix(Version(), " go1") || strings.Contains(Version(), " go1."), true},
		{isDir(dir), true}, {isDir(path("a")), false}, {isDir(path("none")), false},
		{(*Paths)(&names).Set(" ") == nil, false}, {fmt.Sprint((*Paths)(&[]string{"a", "b"})), "[a b]"},
		{fmt.Sprint((*Files)(&[]string{"a"})), "[a]"},
		{Nearest("abcd", []string{"abxx", "abcx", "abcy"}), "abcx"},
		{Nearest("abcde", []string{"abcxx"}), "abcxx"}, {Nearest("abcd", []string{"abxx"}), ""},
		{Nearest("abcde", []string{"abxxx"}), ""}, {strings.Join(words("A1-b_C 2"), "|"), "a1|b|c|2"},
		{Shorten("one two", 7), "one two"}, {Shorten("one two", 6), "one t…"}, {expandTabs("a\tb\tcde\tf"), "a   b   cde f"},
		{expandTabs("\tabcd\te"), "    abcd    e"}, {badLine([]byte("A=b\nC \"d\n")), ": line 2"},
		{badLine([]byte(strings.Repeat("A=b\n", 998) + "C \"d\n")), ": line 999"},
		{badLine([]byte(strings.Repeat("A=b\n", 1000) + "C \"d")), ""},
		{withoutUser("a"), "a"}, {withoutUser("http://u:p@a/x, b"), "http://a/x,b"},
		{withoutUser("a@\x7f"), "(not an address)"},
	} {
		if c[0] != c[1] {
			t.Errorf("case %d: %v, want %v", i, c[0], c[1])
		}
	}
	for _, name := range []string{"auto", "cpu", "cuda", "emulated", "cuda:0", "cuda:65535"} {
		if err := CheckDevice(name); err != nil {
			t.Error(err)
		}
	}
	for _, n := range []int{0, 1, MaxThreads} {
		if err := CheckThreads(n); err != nil {
			t.Error(err)
		}
	}
	var out bytes.Buffer
	if err := PrintJSON(&out, 7); err != nil || out.String() != "7\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	for what, err := range map[string]error{"JSON": PrintJSON(broken{}, 7), "no JSON": PrintJSON(&out, func() {}),
		"rows": PrintRows(broken{}, [][2]string{{"a", "b"}}), "cells": PrintCells(broken{}, []string{"a"})} {
		if err == nil {
			t.Errorf("%s: the error is lost", what)
		}
	}
}

// TestSuggestions asks for flags by the names that they have elsewhere, by each way in which one is found.
func TestSuggestions(t *testing.T) {
	for name, want := range map[string]string{
		"acc": "accumulate", "tokens": "max-tokens", "to": "", "ken": "",
		"gradient-accumulation": "accumulate", "batched": "batch",
		"thread_count": "threads", "max-new-tokens": "max-tokens", "max-length": "", "device-batch": "batch",
		"batch-device": "device", "micro": "", "warmup": "", "the-first": "lr", "after-the-warmup": "schedule",
		"only-x": "only", "lrx": "lr", "de": "", "dev": "device", "wai": "wait", "my-lr": "", "lrxyz": "",
	} {
		if want != "" {
			want = "; did you mean --" + want + "?"
		}
		if got := several().suggestion(name); got != want {
			t.Errorf("--%s: %q, want %q", name, got, want)
		}
	}
}

// TestGiven sets flags of every type on the command line and in the environment.
func TestGiven(t *testing.T) {
	for _, c := range []struct{ args, seven, says string }{
		{"", "", ""}, {"--n 3", "", ""}, {"", "7", ""}, {"--n 3", "7", ""},
		{"", "x", "tool: the environment variable SEVEN does not fit --n:"}, {"--text=", "x", "tool: --text is empty"},
		{"--big=x", "", `--big "x": must be a whole number`},
	} {
		t.Setenv("SEVEN", c.seven)
		var out bytes.Buffer
		f := New("tool", "", &out, &out)
		n, big, share, list, text, wait := 1, int64(2), 0.5, []string{"a"}, "t", time.Second
		f.Group("All")
		for name, v := range map[string]any{"n": &n, "big": &big, "share": &share, "list": &list, "text": &text,
			"wait": &wait} {
			f.Add(v, name, "")
		}
		f.Env("n", "SEVEN")
		args := append(strings.Fields(c.args), "--big=9999999999", "--share=2", "--list=b,c", "--wait=3s")
		code, done := f.Parse(args)
		if c.says != "" {
			if code != Usage || !done || !strings.Contains(out.String(), c.says) {
				t.Errorf("%q: %d, %q", c, code, out.String())
			}
			continue
		}
		want := map[string]int{"": 1, " ": 1, "7": 7}[c.seven]
		if c.args != "" {
			want = 3
		}
		if done || n != want || f.ByEnv("n") != (want == 7) || f.Given("n") != (want != 1) || f.Given("text") ||
			f.ByEnv("text") || !f.Given("big") || big != 9999999999 || share != 2 || fmt.Sprint(list) != "[a b c]" ||
			wait != 3*time.Second || text != "t" {
			t.Errorf("%q: %d, by the environment %v; %v %v %v %v", c, n, f.ByEnv("n"), big, share, list, wait)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a flag of a type without flags")
		}
	}()
	several().Add(new(uint), "u", "")
}

// TestStatusLineAgain draws a second task, clears twice, and draws until something is over.
func TestStatusLineAgain(t *testing.T) {
	s, line := newScreen(t, 40)
	line.DrawBar(400, 400, "first")
	line.DrawBar(1, 10, "second")
	if got := s.lines()[0]; !strings.Contains(got, "(1/10) second") {
		t.Errorf("the second task is drawn as %q", got)
	}
	line.DrawBar(2, 10, "a text of 19 columns")
	narrow := s.lines()[0]
	line.DrawBar(2, 10, "short")
	if got := s.lines()[0]; got != strings.Replace(narrow, "a text of 19 columns", "short", 1) || len(narrow) < 39 {
		t.Errorf("%q, and then %q: the bar has grown again", narrow, got)
	}
	s.resize(60)
	line.DrawBar(3, 10, "short")
	if got := s.lines()[0]; got != "30% |████            | (3/10) short" {
		t.Errorf("on a wider terminal the bar is %q", got)
	}
	line.DrawUntil(false, "on")
	if got := s.lines()[0]; got != "on" {
		t.Errorf("before the end: %q", got)
	}
	line.DrawUntil(true, "off")
	var out bytes.Buffer
	line.W = &out
	line.Clear()
	fmt.Fprint(line, "text")
	if got := strings.Join(s.lines(), ""); got != "" || out.String() != "text" {
		t.Errorf("at the end: %q, and a line that is clear is cleared again: %q", got, out.String())
	}
}
