package python

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"restyle/internal/hostile"
	"restyle/internal/linear"
)

// compareTokens reports the first difference.
func compareTokens(t *testing.T, src string, want, got []spokenWord) {
	t.Helper()
	for _, w := range want {
		if w.Kind == "ERRORTOKEN" { // tokenize before 3.12 splits names at combining marks
			return
		}
	}
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Errorf("token %d is %v, CPython has %v\n%.500s", i, got[min(i, len(got)):min(i+1, len(got))],
				want[min(i, len(want)):min(i+1, len(want))], src)
			return
		}
	}
}

func TestProgramsAgainstCPython(t *testing.T) {
	_, sources := programs(t)
	var crlf []string
	for _, s := range sources {
		crlf = append(crlf, strings.ReplaceAll(s, "\n", "\r\n"))
	}
	compareWithCPython(t, "programs", append(sources, crlf...))
}

// checkTokens checks what must be true of the tokens of every source: they are in order, and there are only white space
// and joined lines between them.
func checkTokens(t *testing.T, src string, tokens []Token, whole bool) {
	t.Helper()
	last := 0
	for _, k := range tokens {
		if k.Pos < last || k.End < k.Pos || src[k.Pos:k.End] != k.Text {
			t.Fatalf("%q: token %+v after offset %d", src, k, last)
		}
		if gap := strings.TrimPrefix(src[last:k.Pos], "\ufeff"); strings.Trim(gap, " \t\f\\\r\n") != "" {
			t.Fatalf("%q: %q lies before %+v", src, gap, k)
		}
		if want := 1 + countLines(src[:k.Pos]); k.Line != want {
			t.Fatalf("%q: %+v is on line %d", src, k, want)
		}
		last = k.End
	}
	if whole && (len(tokens) == 0 || tokens[len(tokens)-1].Kind != End) {
		t.Fatalf("%q: no end", src)
	}
}

func TestTokenPositions(t *testing.T) {
	_, sources := programs(t)
	for _, s := range snippets(t) {
		sources = append(sources, s.src)
	}
	for _, src := range sources {
		tokens, err := Tokenize(src)
		checkTokens(t, src, tokens, err == nil)
	}
}

// TestTokenize_TakesLinearTime checks that long lines of any kind take linear time and no deep recursion.
func TestTokenize_TakesLinearTime(t *testing.T) {
	for _, unit := range []string{"(", "[]", "()", "'", `"`, "''", `"""`, " ", "\t", "\\", "\\\n", "\n", "#", "f'{",
		"f'{x}'", "f\"\"", "{", "}", "f'''{f'", "0", "0_", "1.", "a.", "a(", "-", "not ",
		"lambda:", "x if y else ", "x,", "x=", "x;", "*", "a[", "if x:\n", "if x:", " \n", "else", "\r", "\x0c", "é", "\\N{",
		"'\\N{a}'", "f'{x=}'", "with (", "with (a)", "match a:", "match(", "case", "@a\n",
		"def f(a,", "'' ", "b'' ", "f'{a:{", "x.y", "$", "await ", "yield ", "a:b=", "for a in ", "[a for a in b]", "f'{{",
		"f'\\", "import a.", "elif x: y\n"} {
		linear.Test(t, strconv.Quote(unit), 1<<12, func(n int) {
			s := strings.Repeat(unit, n/len(unit))
			Check(s)
			Check("x = (" + s)
			Check("f'''" + s + "{" + s)
			Identifiers(s)
			Equal(s, s+"x")
		})
	}
}

func FuzzTokenize(f *testing.F) {
	_, sources := programs(f)
	for _, s := range snippets(f) {
		sources = append(sources, s.src)
	}
	for _, src := range sources {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		var tokens []Token
		var err error
		// A token of one byte takes 64, in a list that doubles.
		hostile.Within(t, hostile.Linear(4*len(src)), func() { tokens, err = Tokenize(src) })
		checkTokens(t, src, tokens, err == nil)
		var syntax *SyntaxError
		for _, err := range []error{err, Check(src), LooksLikePython(src)} {
			if err != nil && (!errors.As(err, &syntax) || syntax.Line < 1 || syntax.Line > 1+countLines(src)) {
				t.Errorf("%q: %v", src, err)
			}
		}
		if err != nil && Check(src) == nil {
			t.Errorf("%q: accepted without tokens", src)
		}
		Identifiers(src)
	})
}
