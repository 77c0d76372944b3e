package python

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A mutation is an edit of a program. It returns the program unchanged if it finds nothing to edit.
type mutation struct {
	name     string
	harmless bool // the edit does not change the program's meaning
	edit     func(r *rand.Rand, src string) string
}

var mutations = []mutation{
	{"comment", true, addRandomComment},
	{"blank line", true, func(r *rand.Rand, s string) string { return insertLine(r, s, "") }},
	{"comment line", true, func(r *rand.Rand, s string) string { return insertLine(r, s, "  # why not") }},
	{"white space line", true, func(r *rand.Rand, s string) string { return insertLine(r, s, " \t ") }},
	{"indent width", true, reindent},
	{"quotes", true, requote},
	{"trailing space", true, trailingSpace},
	{"line ends", true, func(r *rand.Rand, s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }},
	{"docstring changed", true, func(r *rand.Rand, s string) string { return docstring(r, s, true) }},
	{"docstring added", true, func(r *rand.Rand, s string) string { return docstring(r, s, false) }},
	{"spaces between tokens", true, respace},
	{"rename", false, replaceToken(Name, func(r *rand.Rand, s string) string { return s + "_" })},
	{"number", false, replaceToken(Number, func(r *rand.Rand, s string) string { return "1" + s })},
	{"operator", false, replaceToken(Op, otherOperator)},
	{"string text", false, replaceToken(String, editString)},
	{"string prefix", false, replaceToken(String, func(r *rand.Rand, s string) string {
		return pick(r, "b", "r", "u", "f",
			"U", "R") + s
	})},
	{"f-string text", false, replaceToken(FStringMiddle, func(r *rand.Rand, s string) string { return s + "x" })},
	{"keyword", false, replaceToken(Name, func(r *rand.Rand, s string) string {
		return pick(r, "if", "else", "def", "in", "not", "print", "None", "yield", "lambda")
	})},
	{"token dropped", false, func(r *rand.Rand, s string) string {
		return editTokens(r, s,
			func(a, b string) string { return b })
	}},
	{"token doubled", false, func(r *rand.Rand, s string) string {
		return editTokens(r, s, func(a, b string) string { return a + " " + a + " " + b })
	}},
	{"tokens swapped", false, func(r *rand.Rand, s string) string {
		return editTokens(r, s, func(a, b string) string { return b + " " + a })
	}},
	{"line dropped", false, func(r *rand.Rand, s string) string {
		return editLine(r, s,
			func(l string) string { return "" })
	}},
	{"line doubled", false, func(r *rand.Rand, s string) string {
		return editLine(r, s, func(l string) string {
			return l +
				l
		})
	}},
	{"line dedented", false, func(r *rand.Rand, s string) string {
		return editLine(r, s, func(l string) string { return strings.TrimPrefix(strings.TrimPrefix(l, "    "), "\t") })
	}},
	{"line indented", false, func(r *rand.Rand, s string) string {
		return editLine(r, s, func(l string) string { return "    " + l })
	}},
	{"cut short", false, func(r *rand.Rand, s string) string { return strings.ToValidUTF8(s[:r.IntN(len(s)+1)], "") }},
	{"arguments swapped", false, swapArguments},
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

func addRandomComment(r *rand.Rand, src string) string {
	lines := 1 + strings.Count(src, "\n")
	for range 10 {
		out, err := AddComments(src, map[int]string{1 + r.IntN(lines): `obviously, "x" isn't 'y'`})
		if err == nil {
			return out
		}
	}
	return src
}

// freeLines returns the lines that do not start inside a string and are not joined to the line before.
func freeLines(src string) []int {
	tokens, err := Tokenize(src)
	if err != nil {
		return nil
	}
	open := openLines(tokens)
	var free []int
	for n, line := range splitLines(src) {
		if !open[n] && (n == 0 || !strings.HasSuffix(strings.TrimRight(splitLines(src)[n-1], "\r\n"), `\`)) && line != "" {
			free = append(free, n)
		}
	}
	return free
}

func insertLine(r *rand.Rand, src, line string) string {
	free := freeLines(src)
	if len(free) == 0 {
		return src
	}
	n := free[r.IntN(len(free))]
	lines := splitLines(src)
	return strings.Join(lines[:n], "") + line + "\n" + strings.Join(lines[n:], "")
}

func trailingSpace(r *rand.Rand, src string) string {
	tokens, err := Tokenize(src)
	if err != nil {
		return src
	}
	open := openLines(tokens)
	lines := splitLines(src)
	for i, line := range lines {
		code := strings.TrimRight(line, "\r\n")
		if !open[i+1] && !strings.HasSuffix(code, `\`) && r.IntN(2) == 0 {
			lines[i] = code + pick(r, " ", "  ", "\t") + line[len(code):]
		}
	}
	return strings.Join(lines, "")
}

// reindent gives every block of the program another width of indentation.
func reindent(r *rand.Rand, src string) string {
	tokens, err := Tokenize(src)
	if err != nil {
		return src
	}
	unit := pick(r, " ", "  ", "\t", "      ")
	var b strings.Builder
	last, depth, fresh := 0, 0, true
	for _, t := range tokens {
		switch t.Kind {
		case Indent:
			depth++
			continue
		case Dedent:
			depth--
			continue
		case Comment, NL:
			if fresh {
				continue // its own indentation does not matter
			}
		}
		if fresh && t.Kind != End {
			start := 1 + strings.LastIndexAny(src[:t.Pos], "\r\n")
			if strings.Trim(src[start:t.Pos], " \t") == "" && start >= last &&
				!strings.HasSuffix(strings.TrimRight(src[:start], "\r\n"), `\`) {
				b.WriteString(src[last:start] + strings.Repeat(unit, depth))
				last = t.Pos
			}
		}
		fresh = t.Kind == Newline
	}
	b.WriteString(src[last:])
	return b.String()
}

// rewrite replaces the text of the tokens for which edit returns something else.
func rewrite(src string, tokens []Token, edit func(t Token) string) string {
	var b strings.Builder
	last := 0
	for _, t := range tokens {
		if t.Pos < last || t.End == t.Pos {
			continue
		}
		b.WriteString(src[last:t.Pos] + edit(t))
		last = t.End
	}
	return b.String() + src[last:]
}

// requote writes strings in other ways with the same value.
func requote(r *rand.Rand, src string) string {
	tokens, err := Tokenize(src)
	if err != nil {
		return src
	}
	inside := 0 // number of enclosing f-strings, whose fields take no backslash before 3.12
	return rewrite(src, tokens, func(t Token) string {
		if t.Kind == FStringStart {
			inside++
		}
		if t.Kind == FStringEnd {
			inside--
		}
		if t.Kind != String || inside > 0 {
			return t.Text
		}
		s := literal(t.Text)
		if s.raw || strings.ContainsAny(s.body, `\'"`+"\r") {
			return t.Text
		}
		prefix := t.Text[:strings.IndexAny(t.Text, `'"`)]
		body := strings.ReplaceAll(s.body, "\n", `\n`)
		switch r.IntN(5) {
		case 0:
			return prefix + "'" + body + "'"
		case 1:
			return prefix + `"` + body + `"`
		case 2:
			return prefix + `"""` + body + `"""`
		case 3:
			if body != "" && body[0] < 0x80 && body[0] != '\\' {
				return prefix + fmt.Sprintf(`"\x%02x`, body[0]) + body[1:] + `"`
			}
		}
		return prefix + "'''" + s.body + "'''"
	})
}

// docstring changes the text of a docstring, or adds one to a block that has none.
func docstring(r *rand.Rand, src string, change bool) string {
	tokens, err := Tokenize(src)
	if err != nil {
		return src
	}
	tokens = significant(tokens)
	header := false
	var at []int
	for i, t := range tokens {
		if i == 0 || tokens[i-1].Kind == Newline || tokens[i-1].Kind == Dedent || tokens[i-1].Kind == Indent {
			if t.Kind != Indent && t.Kind != Dedent {
				header = t.is("def") || t.is("class")
			}
		}
		if t.Kind == Indent && header {
			if (tokens[i+1].Kind == String && tokens[i+2].Kind == Newline && !literal(tokens[i+1].Text).bytes) == change &&
				(change || tokens[i+1].Kind != String && !tokens[i+1].is("(")) {
				at = append(at, i+1)
			}
		}
	}
	if len(at) == 0 {
		return src
	}
	t := tokens[at[r.IntN(len(at))]]
	start := 1 + strings.LastIndexAny(src[:t.Pos], "\r\n")
	if change {
		return src[:t.Pos] + `"""Something else.` + "\n\nAt length.\n" + `"""` + src[t.End:]
	}
	return src[:t.Pos] + `'added "doc"'` + "\n" + src[start:t.Pos] + src[t.Pos:]
}

// respace changes the space between the tokens of a line.
func respace(r *rand.Rand, src string) string {
	tokens, err := Tokenize(src)
	if err != nil {
		return src
	}
	depth := 0
	return rewrite(src, tokens, func(t Token) string {
		if t.Kind == FStringStart {
			depth++
		}
		if t.Kind == FStringEnd {
			depth--
		}
		if t.Kind == Op && depth == 0 && r.IntN(3) == 0 {
			return t.Text + "  "
		}
		return t.Text
	})
}

func replaceToken(kind Kind, edit func(*rand.Rand, string) string) func(*rand.Rand, string) string {
	return func(r *rand.Rand, src string) string {
		tokens, err := Tokenize(src)
		if err != nil {
			return src
		}
		var of []Token
		for _, t := range tokens {
			if t.Kind == kind {
				of = append(of, t)
			}
		}
		if len(of) == 0 {
			return src
		}
		t := of[r.IntN(len(of))]
		return src[:t.Pos] + edit(r, t.Text) + src[t.End:]
	}
}

func otherOperator(r *rand.Rand, s string) string {
	return pick(r, "+", "-", "*", "/", "//", "<", "<=", "==", "!=", "=", "+=", ",", ".", ":", "(", ")", "[", "]", "{", "}",
		"@", "->", ":=", "**", ";", "...", "~", "|")
}

func editString(r *rand.Rand, s string) string {
	i := strings.IndexAny(s, `'"`) + 1
	if len(s) > i+1 && s[i] == s[i-1] && len(s) >= i+5 {
		i += 2
	}
	return s[:i] + pick(r, " ", "x", `\n`, `\t`, `\\`, `\d`, "{", "é") + s[i:]
}

// editTokens changes how two adjacent tokens are joined.
func editTokens(r *rand.Rand, src string, join func(a, b string) string) string {
	tokens, err := Tokenize(src)
	if err != nil {
		return src
	}
	var at []int
	for i := 1; i < len(tokens); i++ {
		a, b := tokens[i-1], tokens[i]
		if a.Text != "" && b.Text != "" && a.Kind != Indent && a.Kind != FStringMiddle && b.Kind != FStringMiddle {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return src
	}
	i := at[r.IntN(len(at))]
	return src[:tokens[i-1].Pos] + join(tokens[i-1].Text, tokens[i].Text) + src[tokens[i].End:]
}

func editLine(r *rand.Rand, src string, edit func(string) string) string {
	lines := splitLines(src)
	if len(lines) == 0 {
		return src
	}
	n := r.IntN(len(lines))
	lines[n] = edit(lines[n])
	return strings.Join(lines, "")
}

// swapArguments swaps the single tokens on both sides of a comma.
func swapArguments(r *rand.Rand, src string) string {
	tokens, err := Tokenize(src)
	if err != nil {
		return src
	}
	var at []int
	for i := 1; i+1 < len(tokens); i++ {
		a, b := tokens[i-1], tokens[i+1]
		if tokens[i].is(",") && (a.Kind == Name || a.Kind == Number || a.Kind == String) &&
			(b.Kind == Name || b.Kind == Number || b.Kind == String) {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return src
	}
	i := at[r.IntN(len(at))]
	a, b := tokens[i-1], tokens[i+1]
	return src[:a.Pos] + b.Text + src[a.End:b.Pos] + a.Text + src[b.End:]
}

// mutate makes rounds mutants of each kind from each source, and drops those that did not change.
func mutate(sources []string, rounds int, seed uint64) (mutants []mutant) {
	r := rand.New(rand.NewPCG(seed, 1))
	for _, src := range sources {
		for _, m := range mutations {
			for range rounds {
				if out := m.edit(r, src); out != src {
					mutants = append(mutants, mutant{m, src, out})
				}
			}
		}
	}
	return mutants
}

type mutant struct {
	mutation
	before, after string
}

// TestHarmlessEdits checks that edits that cannot change a program are accepted. It needs no Python.
func TestHarmlessEdits(t *testing.T) {
	_, sources := programs(t)
	n := 0
	for _, m := range mutate(sources, 6, 2) {
		if !m.harmless {
			continue
		}
		n++
		if ok, where := Equal(m.before, m.after); !ok {
			t.Errorf("%s: %s\n%s\n---\n%s", m.name, where, m.before, m.after)
		}
	}
	if n < 2000 {
		t.Errorf("only %d edits tried", n)
	}
}

// TestMutantsAgainstCPython compares the verdicts of Check and Equal with ast.parse and ast.dump on thousands of edits.
func TestMutantsAgainstCPython(t *testing.T) {
	_, sources := programs(t)
	t.Run("programs", func(t *testing.T) { compareMutants(t, sources, 3) })
	t.Run("reference", func(t *testing.T) {
		real, _, _ := reference(t)
		var parsing []string
		for _, s := range real {
			if Check(s) == nil {
				parsing = append(parsing, s)
			}
		}
		compareMutants(t, parsing, 1)
	})
}

func compareMutants(t *testing.T, sources []string, rounds int) {
	mutants := mutate(sources, rounds, 1)
	var questions []asked
	index := make(map[string]int)
	ask := func(src string) {
		if _, ok := index[src]; !ok {
			index[src] = len(questions)
			questions = append(questions, asked{Src: src})
		}
	}
	for _, m := range mutants {
		ask(m.before)
		ask(m.after)
	}
	verdicts := askCPython(t, questions)
	var equal, different, broken, stricter, newer int
	byName := make(map[string]int)
	for _, m := range mutants {
		before, after := verdicts[index[m.before]], verdicts[index[m.after]]
		if err := Check(m.after); (err == nil) != (after.Error == "") {
			if err == nil && strings.Contains(after.Error, "f-string") {
				newer++ // python3 older than 3.12
			} else {
				t.Errorf("%s: Check says %v, CPython %q\n%s", m.name, err, after.Error, m.after)
			}
		}
		same, where := Equal(m.before, m.after)
		switch {
		case after.Error != "":
			broken++
			if same && !strings.Contains(after.Error, "f-string") {
				t.Errorf("%s: equal to a source that does not parse, %s\n%s", m.name, after.Error, m.after)
			}
		case same && before.Dump != after.Dump:
			t.Errorf("%s: equal, but not to CPython\n%s\n---\n%s", m.name, m.before, m.after)
		case !same && m.harmless && before.Dump == after.Dump:
			t.Errorf("%s: not equal, but to CPython: %s\n%s\n---\n%s", m.name, where, m.before, m.after)
		case before.Dump != after.Dump:
			if m.harmless {
				t.Errorf("%s: no harmless edit\n%s\n---\n%s", m.name, m.before, m.after)
			}
			different++
		case same:
			equal++
		default:
			stricter++
			byName[m.name]++
		}
	}
	t.Logf("%d edits of %d programs: %d equal, %d different, %d not Python, %d equal only to CPython %v, %d f-strings "+
		"that python3 cannot read",
		len(mutants), len(sources), equal, different, broken, stricter, byName, newer)
}
