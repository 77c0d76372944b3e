package teacher

import (
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/internal/hostile"
)

// FuzzSplit puts code into an answer in every way that Markdown has for fences, and checks that it comes back byte for
// byte, and that it does so again from the rewrite.
func FuzzSplit(f *testing.F) {
	f.Add("if x:\n    y()", "z = '''\n```\n'''", 3, uint8(0))
	f.Add("a\r\n\tb\n", "", 1, uint8(1))
	f.Add("~~~\n    ~~~~\n", "```python\nx\n```", 6, uint8(2))
	f.Add("\n\n", " ```", 0, uint8(7))
	f.Fuzz(func(t *testing.T, first, second string, spaces int, form uint8) {
		indent := strings.Repeat(" ", (spaces%13+13)%13)
		if form&4 != 0 {
			indent = "\t" + indent
		}
		codes := []string{first, second}
		var answer strings.Builder
		answer.WriteString("The words before, which are no code:\n")
		for i, code := range codes {
			mark := "```"
			if form>>i&1 != 0 {
				mark = "~~~"
			}
			for strings.Contains(code, mark) {
				mark += mark[:1]
			}
			answer.WriteString("- and\n\n" + indent + mark + "python\n")
			for line := range strings.Lines(code + "\n") {
				answer.WriteString(indent + line)
			}
			answer.WriteString(indent + mark + "\n")
		}
		var p Parts
		hostile.Within(t, hostile.Linear(answer.Len()), func() { p = split(answer.String() + "The end, of the words too.") })
		if !slices.Equal(p.Blocks, codes) || p.Other != "" {
			t.Fatalf("%q became %q in %q", codes, p.Blocks, answer.String())
		}
		text, err := p.join("So.\n\n[[CODE_1]]\n\nAnd.\n\n[[CODE_2]]\n\nThere.")
		expect.OK(t, err)
		var kept []string
		for _, piece := range splitFences(text) {
			if piece.code {
				kept = append(kept, piece.text)
			}
		}
		if !slices.Equal(kept, codes) {
			t.Fatalf("%q became %q in the rewrite %q", codes, kept, text)
		}
	})
}

// TestStrayFences checks fences that do not start their lines: their code would be lost, so the row is unfit.
func TestStrayFences(t *testing.T) {
	const code = "```python\ndef longer_than_forty(characters):\n    return characters\n```\n"
	for _, c := range []struct {
		answer string
		stray  bool
	}{
		{"So:\n" + code, false},
		{"So:\n- ```python\n  x = 1\n  ```\n" + code, true},
		{"So:\n" + code + "> ~~~\n> x = 1\n> ~~~\n", true},
		{"So:\n" + code + "1. ```\n   x = 1\n   ```\n", true},
		{"So:\n" + code + "- a\n  > - ```js\n", true},
		{"So:\n" + code + "- ``` is a fence, `x` is a name\n", false},
		{"So:\n" + code + "- a ``` in a line\n", false},
	} {
		candidate := newCandidate(passiveAggressive(t), "Why?", split(c.answer), "")
		pass, why := sourceIsCode(candidate)
		if pass == c.stray || c.stray && !strings.Contains(why, "behind the mark") {
			t.Errorf("%q: %v, %s", c.answer, pass, why)
		}
	}
}

// TestUnfenced_IsReadAsCode checks that an answer without a fence says that it was read as code.
func TestUnfenced_IsReadAsCode(t *testing.T) {
	for answer, says := range map[string]bool{"Paris is the capital.": true, "```python\nParis is the\n```\n": false} {
		pass, why := sourceIsCode(newCandidate(passiveAggressive(t), "Why?", split(answer), ""))
		if pass || strings.Contains(why, "it has no fenced code and is not Python: line 1") != says {
			t.Errorf("%q: %v, %s", answer, pass, why)
		}
	}
}
