package teacher

import (
	"reflect"
	"strings"
	"testing"

	"restyle/internal/hostile"
	"restyle/voice"
)

// TestDeeds checks what is said of a piece of code, kind by kind, and what is not because the code does more of it.
func TestDeeds(t *testing.T) {
	type deeds = map[string][][2]string
	one := func(kind, first, second string) deeds { return deeds{kind: {{first, second}}} }
	for _, c := range []struct {
		code string
		kind string
		want deeds // of this kind alone
	}{
		{"def f(a):\n    return a + 1\n", "return", one("return", "f", "a + 1")},
		{"def f(a):\n    if a:\n        return 1\n    return a\n", "return", deeds{}},
		{"def f(a):\n    if a:\n        return\n    return a\n", "return", deeds{}},
		{"def f(a):\n    if a: return 1\n    return a\n", "return", deeds{}},
		{"def f(a): return a\n", "return", deeds{}},
		{"def f(a):\n    if a:\n        raise B\n    return a\n", "return", deeds{}},
		{"def f(a):\n    yield a\n    return a\n", "return", deeds{}},
		{"def f(a):\n    return a\n\ndef g(a):\n    return -a\n", "return", deeds{"return": {{"f", "a"}, {"g", "-a"}}}},
		{"for a, b in zip(c, d):\n    print(a)\n", "loop", one("loop", "a, b", "zip(c, d)")},
		{"for a in b:\n    if a:\n        break\n", "loop", deeds{}},
		{"for a in b:\n    for c in a:\n        print(c)\n", "loop", deeds{}},
		{"def f(b):\n    for a in b:\n        return a\n", "loop", deeds{}},
		{"c = [a for a in b]\nfor a in c:\n    print(a)\n", "loop", deeds{}},
		{"while a < 3:\n    a += 1\n", "await", one("await", "a < 3", "")},
		{"while True:\n    a += 1\n", "await", deeds{}},
		{"while a < 3:\n    break\n", "await", deeds{}},
		{"if a:\n    b = 1\n", "test", one("test", "a", "")},
		{"if a:\n    b = 1\nelif c:\n    b = 2\n", "test", deeds{}},
		{"if a:\n    b = c if d else e\n", "test", deeds{}},
		{"print(a + b)\n", "print", one("print", "a + b", "")},
		{"print(a, b)\n", "print", deeds{}},
		{"print(a)\nprint(b)\n", "print", deeds{}},
		{"if a:\n    print(b)\n", "print", deeds{}},
		{"def print_all(a):\n    print(a)\n", "print", deeds{}},
		{"if a:\n    print(\"no\")\n", "say", one("say", "\"no\"", "")},
		{"a = b.split()\n", "assign", one("assign", "a", "b.split()")},
		{"a, b = divmod(c, d)\n", "unpack", one("unpack", "a, b", "divmod(c, d)")},
		{"a, b = divmod(c, d)\n", "assign", deeds{}},
		{"a, b = c\na, b = b, a\n", "unpack", deeds{}},
		{"a, b = c\nfor b in d:\n    print(b)\n", "unpack", deeds{}},
		{"for a in b:\n    if a:\n        a = c(d)\n", "assign", deeds{}},
		{"a = [1, 2]\n", "assign", deeds{}},
		{"a = c(d); e()\n", "assign", deeds{}},
		{"a = b = c(d)\n", "assign", deeds{}},
		{"a = c(d)\na = a + 1\n", "assign", deeds{}},
		{"a = c(d)\na.sort()\n", "assign", deeds{}},
		{"a = c(d)\na[0] = 1\n", "assign", deeds{}},
		{"a = 0\nfor b in c:\n    a += b\n", "start", one("start", "a", "0")},
		{"a = 0\nfor b in c:\n    a += b\n", "fix", deeds{}},
		{"a = 0\nfor b in c:\n    a += b\n", "step", one("step", "a += b", "")},
		{"a = 0\na += 1\n", "step", deeds{}},
		{"a = 7\nprint(a)\n", "fix", one("fix", "a", "7")},
		{"a = 7\nprint(a)\n", "start", deeds{}},
		{"a = 7\nfor a in b:\n    print(a)\n", "fix", deeds{}},
		{"a = 7\nfor b, a in c:\n    print(a)\n", "fix", deeds{}},
		{"a = 7\na, b = b, c\n", "fix", deeds{}},
		{"a = 7\nb, a, c = d\n", "fix", deeds{}},
		{"a = 7\nb = lambda a: a\n", "fix", deeds{}},
		{"a = 7\ndef f(a):\n    return a\n", "fix", deeds{}},
		{"a = 7\nwith open(b) as a:\n    pass\n", "fix", deeds{}},
		{"a = 7\ndel a\n", "fix", deeds{}},
		{"a = 7\nif (a := b):\n    pass\n", "fix", deeds{}},
		{"a = 7\nfor b in range(a):\n    print(b)\n", "fix", one("fix", "a", "7")},
		{"a.append(b + 1)\n", "append", one("append", "b + 1", "a")},
		{"raise ValueError(\"no\")\n", "raise", one("raise", "ValueError", "")},
		{"try:\n    a()\nexcept KeyError:\n    pass\n", "catch", one("catch", "KeyError", "")},
		{"class A(B):\n    pass\n", "derive", one("derive", "A", "B")},
		{"class A(B, C):\n    pass\n", "derive", deeds{}},
		{"class A:\n    def __init__(self, b):\n        self.b = b\n", "keep", one("keep", "A", "b")},
		{"class A:\n    def f(self, b):\n        self.b = b\n", "keep", deeds{}},
		{"@dataclass\nclass A:\n    b: int\n", "keep", one("keep", "A", "b")},
		{"class A:\n    b: int\n", "keep", deeds{}},
		{"def f(a, b):\n    pass\n", "take", one("take", "f", "`a` and `b`")},
		{"class A:\n    def f(self, a):\n        pass\n", "take", one("take", "f", "`a`")},
		{"def f(a, b=2):\n    pass\n", "take", deeds{}},
		{"def f(a, b=2):\n    pass\n", "default", one("default", "b", "2")},
		{"def f(*a):\n    pass\n", "take", deeds{}},
	} {
		var f voice.Facts
		readCode(&f, c.code)
		got := deeds{}
		if len(f.Deeds[c.kind]) > 0 {
			got[c.kind] = f.Deeds[c.kind]
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %v, want %v", c.code, got, c.want)
		}
	}
}

// FuzzDeeds reads any code: what is said of it is in it.
func FuzzDeeds(f *testing.F) {
	f.Add("class A(B):\n    def f(self, a=1):\n        for b in c: return b\n")
	f.Add("a, b = b, a; del a\nx: int = (lambda y: y)(1)\nprint(f\"{x!r}\")\n")
	f.Fuzz(func(t *testing.T, code string) {
		var facts voice.Facts
		hostile.Within(t, hostile.Linear(8*len(code)), func() { // each check tokenizes the code anew
			facts = voice.Facts{}
			readCode(&facts, code)
		})
		for kind, deeds := range facts.Deeds {
			for _, d := range deeds {
				for i, text := range d {
					if (kind != "take" || i == 0) && !strings.Contains(code, text) {
						t.Errorf("%s: %q is not in %q", kind, text, code)
					}
				}
			}
		}
	})
}

// TestReadQuestion checks which numbers and words of a question can be spoken of.
func TestReadQuestion(t *testing.T) {
	for _, c := range []struct {
		instruction, input, code string
		numbers, words           [][2]string
	}{
		{"Add 3 and 12.", "", "print(3 + 12)\n", [][2]string{{"3"}, {"12"}}, nil},
		{"Use -3, 2.5, v2 and 1234567.", "", "", nil, nil},
		{"Print \"walrus\" and \"a pig\".", "", "print(\"walrus\", \"a pig\")\n", nil, [][2]string{{"walrus"}}},
		{"Print \"walrus\" in capitals.", "", "print(\"WALRUS\")\n", nil, nil},
		{"Print it.", "[\"Ann\", \"Rosa\"]", "print([\"Ann\", \"Rosa\"])\n", nil, nil},
		{"Print it.", "[\"Ann\", \"rose\"]", "print([\"Ann\", \"rose\"])\n", nil, [][2]string{{"rose"}}},
		{"Print it.", "the quick horse", "print(\"the quick horse\")\n", nil, [][2]string{{"quick"}, {"horse"}}},
		{"Print it.", "the quick horse", "print(input())\n", nil, nil},
		{"Print it.", "class Horse:\n    pass", "print(\"class Horse:\")\n", nil, nil},
	} {
		var f voice.Facts
		readQuestion(&f, c.instruction, c.input, []string{c.code})
		if !reflect.DeepEqual(f.Deeds["number"], c.numbers) || !reflect.DeepEqual(f.Deeds["word"], c.words) {
			t.Errorf("%q, %q: %v", c.instruction, c.input, f.Deeds)
		}
	}
}
