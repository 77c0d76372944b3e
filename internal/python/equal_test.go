package python

import (
	"regexp"
	"strings"
	"testing"
)

// pairs are pairs of sources, and whether Equal takes them for the same program.
var pairs = []struct {
	a, b  string
	equal bool
}{
	// Layout and comments.
	{"", "", true},
	{"", "# only a comment\n\n", true},
	{"x = 1", "\ufeff\nx=1 # c\r\n\r\n", true},
	{"if a:\n  b\n  c\n", "if a:\n\tb\n\n# c\n\tc", true},
	{"f(1, 2)", "f(1,  # one\n  2)\n", true},
	{"x = 1 + 2", "x = 1 + \\\n  2", true},
	{"if a:\n  b\n  c\n", "if a:\n  b\nc\n", false},
	{"if a:\n  b\nelse:\n  c", "if a:\n  b\n  c", false},
	{"x = 1\ny = 2", "x = 1", false},
	{"x = 1", "x = 1\ny = 2", false},
	{"x\ny", "x y", false},
	// Names, numbers, operators.
	{"x = y", "x = Y", false},
	{"a + b", "a - b", false},
	{"f(a, b)", "f(b, a)", false},
	{"x = 1_000", "x = 1000", true},
	{"x = 0XfF", "x = 0xFf", true},
	{"x = 1E5J", "x = 1e5j", true},
	{"x = 1", "x = 1.0", false},
	{"x = 10", "x = 1_1", false},
	{"not a", "nota", false},
	{"a is not b", "a is b", false},
	// Strings by value.
	{`'a'`, `"a"`, true},
	{`x = 'a'`, `x = """a"""`, true},
	{`x = 'a' 'b'`, `x = "ab"`, true},
	{"x = ('a'\n  'b')", `x = ("ab")`, true},
	{`x = 'a\nb'`, "x = '''a\nb'''", true},
	{`x = '''a` + "\r\n" + `b'''`, `x = 'a\nb'`, true},
	{`x = 'a\` + "\n" + `b'`, `x = 'ab'`, true},
	{`x = '\x41\u0042\U00000043\104'`, `x = 'ABCD'`, true},
	{`x = '\d\.'`, `x = '\\d\\.'`, true},
	{`x = r'\d'`, `x = '\\d'`, true},
	{`x = r'\''`, `x = "\\'"`, true},
	{`x = 'it\'s'`, `x = "it's"`, true},
	{`x = U'a'`, `x = 'a'`, true},
	{`x = B'a'`, `x = b"\x61"`, true},
	{`x = b'\400'`, `x = b'\0'`, true},
	{`x = '\ud800'`, `x = "\uD800"`, true},
	{`x = '\N{bullet}'`, `x = "\N{BULLET}"`, true},
	{`x = '\xe9'`, `x = 'é'`, true},
	{`'\x'`, ``, false}, // not Python, so not a docstring
	{`"a" '\x'`, `"a"`, false},
	{`'\x41'`, ``, true},
	{`x = 'a'`, `x = 'b'`, false},
	{`x = 'a'`, `x = 'a '`, false},
	{`x = 'a'`, `x = b'a'`, false},
	{`x = 'a'`, `x = u'a'`, false},
	{`x = 'a'`, `x = f'a'`, false},
	{`x = 'a' 'b'`, `x = 'a' b'b'`, false},
	{`x = 'a', 'b'`, `x = 'a' 'b'`, false},
	{`x = '\n'`, `x = '\\n'`, false},
	{`x = '\n'`, `x = r'\n'`, false},
	{`x = '\ud83d\ude00'`, `x = '\U0001f600'`, false},
	{`x = '\N{BULLET}'`, `x = '\\N{BULLET}'`, false},
	{`x = b'\xff{'`, `x = b'\377['`, false},
	{`x = '\x4'`, `x = "\x4"`, false}, // an error in both
	{`x = ''`, `x = None`, false},
	// F-strings.
	{`f'{a}b'`, `f"{ a }" 'b'`, true},
	{`f'a{b}'`, `'a' f"{b}"`, true},
	{`f'{{{a!r:>{w}}}}'`, `F"""{{{a!r:>{w}}}}"""`, true},
	{`f"{x['a']}"`, `f'{x["a"]}'`, true},
	{`f'\x41{b}'`, `f'A{b}'`, true},
	{`rf'\d{b}'`, `f'\\d{b}'`, true},
	{`f'{a=}'`, `f"{a=}"`, true},
	{`f'{a=}'`, `f'{a =}'`, false},
	{`f'{a=}'`, `f'{a}'`, false},
	{`f'{a=!r}'`, `f'{a =!r}'`, false},
	{`f'{a=:>3}'`, `f'{a= :>3}'`, false},
	{`f'{f(a=1)}'`, `f'{f(a = 1)}'`, true},
	{`f'{a}'`, `f'{b}'`, false},
	{`f'{a}'`, `f'{{a}}'`, false},
	{`f'{a}'`, `f'{a!s}'`, false},
	{`f'{a}'`, `f'{a:}'`, false},
	{`f'{a:>3}'`, `f'{a:> 3}'`, false},
	{`f'{a:{b}}'`, `f'{a:b}'`, false},
	{`f'{a}{b}'`, `f'{a} {b}'`, false},
	{`f'{a}' f'{b}'`, `f'{a}{b}'`, true},
	{`f'{{}}'`, `f'{ {} }'`, false},
	{`f"{'a'}"`, `f"{a}"`, false},
	{`{a} f''`, `f'{a}'`, false},
	// Docstrings.
	{"'doc'\nx = 1", "x = 1", true},
	{"'''doc'''; x = 1", "x = 1", true},
	{"def f():\n  'a'\n  return 1", "def f():\n  return 1", true},
	{"def f():\n  ('a' u'b');\n  return 1", "def f():\n  return 1", true},
	{"class A:\n  'a'\n  x = 1", "class A:\n  'b'\n  x = 1", true},
	{"async def f():\n  'a'\n  x", "async def f():\n  x", true},
	{"def f():\n  # c\n\n  'a'\n  x", "def f():\n  x", true},
	{"def f(a,\n  b): # c\n  'a'\n  x", "def f(a, b):\n  x", true},
	{"def f():\n  'a'\n  'b'\n  x", "def f():\n  'b'\n  x", false},
	{"def f():\n  'a'\n  pass", "def f():\n  pass", true},
	{"def f():\n  'a'", "def f():\n  'b'", true},
	{"def f():\n  'a'", "def f():\n  pass", false},
	{"def f():\n  b'a'\n  x", "def f():\n  x", false},
	{"def f():\n  f'a'\n  x", "def f():\n  x", false},
	{"def f():\n  'a'.b\n  x", "def f():\n  x", false},
	{"def f():\n  'a',\n  x", "def f():\n  x", false},
	{"def f():\n  ('a',)\n  x", "def f():\n  x", false},
	{"def f():\n  x\n  'a'", "def f():\n  x", false},
	{"if a:\n  'b'\n  c", "if a:\n  c", false},
	{"if a:\n  'b'\n  c", "if a:\n  'd'\n  c", false},
	{"x = 1\n'a'", "x = 1", false},
	{"x = 1\n'a'", "x = 1\n'b'", false},
	{"for x in y:\n  'a'\n  b", "for x in y:\n  b", false},
	{"@d\ndef f():\n  'a'\n  x", "@d\ndef f():\n  x", true},
	// Stricter than the syntax tree.
	{"x = 16", "x = 0x10", false},
	{"f(a,)", "f(a)", false},
	{"(a)", "a", false},
	{"a; b", "a\nb", false},
	{"if a: b", "if a:\n  b", false},
	{"def f(): 'a'", "def f(): 'b'", false},
	// Not Python.
	{"a = (", "a = (", true},
	{"a = (", "a =  (", false},
	{"'", `"`, false},
	{"a\x00", "a", false},
}

func TestEqual(t *testing.T) {
	for _, p := range pairs {
		for _, s := range [][2]string{{p.a, p.b}, {p.b, p.a}} {
			got, where := Equal(s[0], s[1])
			if got != p.equal || got != (where == "") {
				t.Errorf("%q, %q: %v, %q", s[0], s[1], got, where)
			}
		}
	}
}

// TestPairsAgainstCPython checks that CPython finds every pair equal that Equal does.
func TestPairsAgainstCPython(t *testing.T) {
	var questions []asked
	for _, p := range pairs {
		questions = append(questions, asked{Src: p.a}, asked{Src: p.b})
	}
	verdicts := askCPython(t, questions)
	for i, p := range pairs {
		a, b := verdicts[2*i], verdicts[2*i+1]
		if p.equal && p.a != p.b && (a.Error != "" || b.Error != "" || a.Dump != b.Dump) {
			t.Errorf("%q, %q: equal, but not to CPython (%s%s)", p.a, p.b, a.Error, b.Error)
		}
	}
}

var fence = regexp.MustCompile("(?s)```[a-zA-Z]*\n(.*?)```")

// TestRewritesAgainstCPython compares the verdicts on real sources, and on the code in real rewrites of them.
func TestRewritesAgainstCPython(t *testing.T) {
	sources, rewrites, _ := reference(t)
	var pairs []asked // source, code, source, code, ...
	for i, src := range sources {
		whole := ""
		blocks := fence.FindAllStringSubmatch(rewrites[i], -1)
		for _, b := range blocks {
			pairs = append(pairs, asked{Src: src}, asked{Src: b[1]})
			whole += b[1]
		}
		if len(blocks) > 1 {
			pairs = append(pairs, asked{Src: src}, asked{Src: whole})
		}
	}
	verdicts := askCPython(t, pairs)
	equal, different := 0, 0
	for i := 0; i < len(pairs); i += 2 {
		a, b := verdicts[i], verdicts[i+1]
		if a.Error != "" || b.Error != "" {
			continue
		}
		same, where := Equal(pairs[i].Src, pairs[i+1].Src)
		if same != (a.Dump == b.Dump) {
			t.Errorf("Equal says %v (%s), not so CPython\n%s\n---\n%s", same, where, pairs[i].Src, pairs[i+1].Src)
		}
		if same {
			equal++
		} else {
			different++
		}
	}
	t.Logf("%d pairs: %d equal, %d different", equal+different, equal, different)
}

func FuzzEqual(f *testing.F) {
	_, sources := programs(f)
	for i, src := range sources {
		f.Add(src, sources[(i+1)%len(sources)], 1+i%5)
	}
	for _, p := range pairs {
		f.Add(p.a, p.b, 1)
	}
	f.Fuzz(func(t *testing.T, a, b string, line int) {
		if ok, where := Equal(a, a); !ok {
			t.Fatalf("%q is not equal to itself: %s", a, where)
		}
		ab, _ := Equal(a, b)
		ba, _ := Equal(b, a)
		if ab != ba {
			t.Fatalf("%q, %q: %v, the other way round %v", a, b, ab, ba)
		}
		if _, err := Tokenize(a); err == nil {
			if _, err := units(a); err == nil {
				if ok, where := Equal(a, a+"\n"); !ok && !strings.HasSuffix(a, "\\") {
					t.Fatalf("%q: a line end makes a difference: %s", a, where)
				}
			}
		}
		if ab && a != b && (Check(a) == nil) != (Check(b) == nil) {
			t.Fatalf("%q and %q are equal, but only one is Python", a, b)
		}
		out, err := AddComments(a, map[int]string{line: "a 'remark'"})
		if err != nil {
			return
		}
		if ok, where := Equal(a, out); !ok || !strings.Contains(out, "# a 'remark'") {
			t.Fatalf("%q with a comment on line %d is %q: %s", a, line, out, where)
		}
		if (Check(a) == nil) != (Check(out) == nil) {
			t.Fatalf("%q with a comment on line %d: Check says %v, before %v", out, line, Check(out), Check(a))
		}
	})
}
