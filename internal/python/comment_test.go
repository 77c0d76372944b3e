package python

import (
	"strings"
	"testing"
)

func TestAddComments(t *testing.T) {
	for _, c := range []struct {
		src     string
		remarks map[int]string
		want    string
	}{
		{"x = 1\ny = 2\n", map[int]string{2: "bold"}, "x = 1\ny = 2  # bold\n"},
		{"x = 1", map[int]string{1: " # neat #"}, "x = 1  # neat"},
		{"x = 1  \t\r\ny\r\n", map[int]string{1: "a", 2: "b"}, "x = 1  # a\r\ny  # b\r\n"},
		{"x = 1  # old\n", map[int]string{1: "new"}, "x = 1  # old  # new\n"},
		{"f(1,\n  2)\n", map[int]string{1: "one", 2: "two"}, "f(1,  # one\n  2)  # two\n"},
		{"x = '''a\nb'''\n", map[int]string{2: "end"}, "x = '''a\nb'''  # end\n"},
		{"a\n\nb", map[int]string{2: "gap"}, "a\n# gap\nb"},
		{"if a:\n  b # c\\\n", map[int]string{1: "hm: \"x\" – ça"}, "if a:  # hm: \"x\" – ça\n  b # c\\\n"},
		{"x\n", nil, "x\n"},
		{"x\ry", map[int]string{2: "cr"}, "x\ry  # cr"},
		{"a\nb\nc", map[int]string{3: "coding: latin-1"}, "a\nb\nc  # coding: latin-1"},
	} {
		got, err := AddComments(c.src, c.remarks)
		if err != nil || got != c.want {
			t.Errorf("%q, %v: %q, %v", c.src, c.remarks, got, err)
		}
	}
	for _, c := range []struct {
		src     string
		line    int
		remark  string
		message string
	}{
		{"x\n", 0, "a", "line 0: the source has 1 lines"},
		{"x\n", 2, "a", "line 2: the source has 1 lines"},
		{"", 1, "a", "line 1: the source has 0 lines"},
		{"x\n", -1, "a", "line -1"},
		{"x = '''a\nb'''\n", 1, "a", "line 1 ends inside a string"},
		{"x = f'''{a\n}b\n'''\n", 2, "a", "line 2 ends inside a string"},
		{"x = f'''{a\n}b\n'''\n", 1, "a", "line 1 ends inside a string"},
		{"x = 'a\\\nb'\n", 1, "a", "line 1 ends inside a string"},
		{"x = 1 + \\\n2\n", 1, "a", "line 1: it ends in a backslash"},
		{"x\n", 1, "a\nb", "line 1: \"a\\nb\" is not one line"},
		{"x\n", 1, "a\rb", "is not one line"},
		{"x\n", 1, "a\u2028b", "is not one line"},
		{"x\n", 1, "a\x00b", "is not one line"},
		{"x\n", 1, "a\xffb", "is not one line"},
		{"x\n", 1, " # ", "line 1: the remark is empty"},
		{"x\n", 1, "coding=latin-1", "encoding"},
		{"#!/usr/bin/python\nx\n", 1, "a", "interpreter"},
		{"x = (\n", 1, "a", "never closed"},
	} {
		got, err := AddComments(c.src, map[int]string{c.line: c.remark})
		if err == nil || got != "" || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%q, line %d, %q: %q, %v", c.src, c.line, c.remark, got, err)
		}
	}
}

// TestAddCommentsEverywhere checks a remark on every line of every program that can have one.
func TestAddCommentsEverywhere(t *testing.T) {
	names, sources := programs(t)
	for i, src := range sources {
		remarks := make(map[int]string)
		for n := range splitLines(src) {
			if _, err := AddComments(src, map[int]string{n + 1: "well"}); err == nil {
				remarks[n+1] = "as you wish"
			}
		}
		out, err := AddComments(src, remarks)
		if err != nil {
			t.Errorf("%s: %v", names[i], err)
		}
		if n := strings.Count(out, "  # as you wish") + strings.Count(out, "\n# as you wish"); n < len(remarks)-1 ||
			len(remarks)*2 < len(splitLines(src)) {
			t.Errorf("%s: %d remarks for %d of %d lines", names[i], n, len(remarks), len(splitLines(src)))
		}
		if err := Check(out); err != nil {
			t.Errorf("%s: %v\n%s", names[i], err, out)
		}
	}
}
