package python

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIdentifiers(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"", ""},
		{"# nothing\n'names in strings'", ""},
		{"import os.path as p, sys", "os os.path path p sys"},
		{"from a.b import c", "a a.b b c"},
		{"def f(x: int = y, *args, k=None): return self . name.strip()",
			"f x int y args k self self.name self.name.strip name strip"},
		{"call(key=1)(2).attr.more[i].last", "call key attr more i last"},
		{"if x is not None and True: pass", "x"},
		{"f'{value.real!r:>{width}}{{no}}'", "value value.real real r width"},
		{"match x:\n case Point(y=0): _", "match x case Point y _"},
		{"größe = 名前", "größe 名前"},
		{"a.\\\nb", "a a.b b"},
		{"(a\n.b)", "a a.b b"},
		{"a.b = 'unclosed", "a a.b b"},
		{"x[0].y.z", "x y z"},
		{strings.Repeat("a.", 150) + "a", strings.TrimSuffix(dots("a", 100), " ")},
	} {
		got := slices.Sorted(maps.Keys(Identifiers(c.src)))
		want := strings.Fields(c.want)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
			t.Errorf("%q: %s", c.src, diff)
		}
	}
}

func TestKnownNames(t *testing.T) {
	for _, c := range []struct {
		name    string
		is      func(string) bool
		yes, no string
	}{
		{"IsKeyword", IsKeyword, "if None True async await lambda nonlocal", "match case type _ print none self"},
		{"IsBuiltin", IsBuiltin, "print len range ValueError KeyboardInterrupt NotImplemented __name__ __import__ " +
			"ExceptionGroup", "if None append os foo __init__ xrange unicode"},
		{"IsMethod", IsMethod, "append strip __init__ items read bit_length __enter__ splitlines add_note",
			"push frobnicate len __foo__"},
	} {
		for _, s := range strings.Fields(c.yes) {
			if !c.is(s) {
				t.Errorf("%s(%q) is false", c.name, s)
			}
		}
		for _, s := range append(strings.Fields(c.no), "", " ", "\n") {
			if c.is(s) {
				t.Errorf("%s(%q) is true", c.name, s)
			}
		}
	}
}

func TestLiterals(t *testing.T) {
	for _, c := range []struct {
		src  string
		want []string
	}{
		{"", nil},
		{"x = 1_0 + 'a\\n' \"b\" + b'\\x41' # 'c' 2", []string{"1_0", "a\n", "b", "A"}},
		{"'''doc'''\nf'a{{}}{x:>{3}}b{\"c\"}' rf'\\d{y}' ''", []string{"doc", "a{}", ">", "3", "b", "c", `\d`}},
		{"x = 5\ny = 'unclosed", []string{"5"}},
		{"'\\x' 'a'", []string{"a"}},
	} {
		if diff := cmp.Diff(c.want, Literals(c.src)); diff != "" {
			t.Errorf("%q: %s", c.src, diff)
		}
	}
}

func TestLooksLikePython(t *testing.T) {
	for _, src := range []string{
		"print('Hello')", "print (x)", "x = 5", "x += 1", "import this", "[i for i in x]", "lambda x: x", "s[::-1]", "2 + 2",
		"x ** 2", "x-1", "x % 2 == 0", "'a' * 3", "f(x)(y)", "x[0]", "def f(): pass", "class A: pass", "if x: y",
		"from a import *", "#!/usr/bin/env python3\nprint(1)", "x = 5; y = 6", "import pdb; pdb.set_trace()",
		"def f():\n    window.destroy()\n\nwindow = Tk()\n", "from rich import console\nconsole.print('x')",
		"def puts(x): print(x)\nputs(1)", "def f(document):\n    document.save()",
		"'doc'\nf()", "a and b()", "\"{}\".format(x)", "with a: b",
	} {
		if err := Check(src); err != nil {
			t.Errorf("%q: %v", src, err)
		}
		if err := LooksLikePython(src); err != nil {
			t.Errorf("%q: %v", src, err)
		}
	}
	for _, src := range []string{
		"", "# comment", "'''only text'''", "Hello", "25", "-1", "False", "medium", "True\nFalse", "[1, 2, 3]", "{'a': 1}",
		"{ firstName: 'John' }", "name: John\nage: 30", "Output: 'NaN'",
		"ls", "ls -lt", "ls -1", "date >> log.txt", "du -sh", "#!/bin/sh\nls - l", "#!/bin/bash\nx=5", "console.log('x');",
		"System.out.println(\"x\");", "document.getElementById('a').b = 'c';", "printf(\"x\\n\");",
		"fmt.Println(x)", "x = 5;\ny = 6;", "alert('x');", "puts(x)", "word (aside)", "yes and no", "this is it",
		"not applicable", "\"a\", \"b\"",
	} {
		if err := Check(src); err != nil {
			t.Errorf("%q should obey the grammar: %v", src, err)
		}
		if err := LooksLikePython(src); err == nil {
			t.Errorf("%q passes for Python", src)
		}
	}
	if LooksLikePython("'") == nil {
		t.Error("a source without tokens passes for Python")
	}
	names, sources := programs(t)
	for i, src := range sources {
		if err := LooksLikePython(src); err != nil {
			t.Errorf("%s: %v", names[i], err)
		}
	}
}

// dots returns name, name.name and so on up to n names.
func dots(name string, n int) string {
	all := ""
	for i := range n {
		all += strings.Repeat(name+".", i) + name + " "
	}
	return all
}
