package python

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// pair is a pair of sources, and whether Equal takes them for the same program.
type pair struct {
	equal bool
	a, b  string
}

// pairs returns the pairs in testdata/pairs.txt.
func pairs(t testing.TB) (list []pair) {
	t.Helper()
	text, err := os.ReadFile("testdata/pairs.txt")
	expect.OK(t, err)
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		var p pair
		if _, err := fmt.Sscanf(line, "%t %q %q", &p.equal, &p.a, &p.b); err != nil {
			t.Fatalf("pairs.txt:%d: %v", i+1, err)
		}
		list = append(list, p)
	}
	return list
}

func TestEqual(t *testing.T) {
	for _, p := range pairs(t) {
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
	list := pairs(t)
	for _, p := range list {
		questions = append(questions, asked{Src: p.a}, asked{Src: p.b})
	}
	verdicts := askCPython(t, questions)
	for i, p := range list {
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
	for _, p := range pairs(f) {
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
