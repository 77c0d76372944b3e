package python

import (
	"slices"
	"strings"
)

// LooksLikePython returns nil if src, which [Check] accepts, was meant as Python. Some shell, JavaScript, C, YAML, JSON
// and prose follows Python's grammar by accident. Then the [*SyntaxError] says what gives it away: another interpreter
// on the first line, a function that only other languages have, a semicolon after every statement, or nothing that does
// anything (no definition, loop, import, call, assignment, index or arithmetic on a literal). A source in another
// language without any of these signs passes.
func LooksLikePython(src string) error {
	tokens, err := Tokenize(src)
	if err != nil {
		return err
	}
	if first, _, _ := strings.Cut(src, "\n"); strings.HasPrefix(first, "#!") && !strings.Contains(first, "python") {
		return &SyntaxError{Line: 1, Msg: "the first line names an interpreter other than Python"}
	}
	tokens = significant(tokens)
	if t := foreign(tokens); t != nil {
		return &SyntaxError{Line: t.Line, Msg: t.Text + " is not Python's, and nothing here defines it"}
	}
	if !slices.ContainsFunc(tokens, func(t Token) bool { return t.Kind != End }) {
		return &SyntaxError{Line: 1, Msg: "no statement"}
	}
	if everyLineEndsInSemicolon(tokens) {
		return &SyntaxError{Line: 1, Msg: "every statement ends in a semicolon"}
	}
	for i := range tokens {
		if acts(tokens, i) {
			return nil
		}
	}
	return &SyntaxError{Line: 1, Msg: "no definition, loop, import, call or assignment: a value or prose, not a program"}
}

// foreignNames are functions and objects of other languages. A statement that starts with one of them can be valid
// Python.
var foreignNames = words(`
	alert console cout disp document echo fmt library printf printfn println puts require std strcpy System window
	Console IO JSON Math NSLog
`)

// foreign returns the first of foreignNames that starts a line as a call or object, unless the source seems to define
// the name.
func foreign(tokens []Token) *Token {
	defined := make(map[string]bool)
	for i := range tokens {
		t := &tokens[i]
		if t.Kind != Name || !foreignNames[t.Text] {
			continue
		}
		if tokens[i+1].is("=") || tokens[i+1].is(":") {
			defined[t.Text] = true
		}
		for _, word := range []string{"def", "class", "import", "as", "for", "lambda", "global", ",", "("} {
			defined[t.Text] = defined[t.Text] || i > 0 && tokens[i-1].is(word)
		}
	}
	fresh := true
	for i := range tokens {
		t := &tokens[i]
		if fresh && t.Kind == Name && foreignNames[t.Text] {
			if next := &tokens[i+1]; !defined[t.Text] && (next.is("(") || next.is(".")) {
				return t
			}
		}
		fresh = t.Kind == Newline || t.Kind == Indent || t.Kind == Dedent || t.is(";")
	}
	return nil
}

// everyLineEndsInSemicolon checks the lines that do not start a block. It needs at least one.
func everyLineEndsInSemicolon(tokens []Token) bool {
	lines := 0
	for i := 1; i < len(tokens); i++ {
		if tokens[i].Kind != Newline || tokens[i-1].is(":") {
			continue
		}
		if !tokens[i-1].is(";") {
			return false
		}
		lines++
	}
	return lines > 0
}

// acts reports whether tokens[i] indicates a program rather than a value or prose.
func acts(tokens []Token, i int) bool {
	t := &tokens[i]
	if t.Kind == Name {
		switch t.Text {
		case "def", "class", "for", "while", "with", "import", "lambda", "yield", "await", "try":
			return true
		case "if":
			return i == 0 || tokens[i-1].Kind != Name
		}
	}
	if t.Kind != Op && t.Kind != Name || i == 0 {
		return false
	}
	before, after := &tokens[i-1], &tokens[i+1]
	spaced := before.End != t.Pos
	switch t.Text {
	case "=", "+=", "-=", "*=", "/=", "//=", "%=", ":=", "@=", "&=", "|=", "^=", "<<=", ">>=", "**=":
		return true
	case "(":
		// "word (aside)" is prose, "print (x)" is not.
		return before.isIdentifier() && (!spaced || IsBuiltin(before.Text)) || !spaced && (before.is(")") || before.is("]"))
	case "[":
		return !spaced && (before.isIdentifier() || before.Kind == String || before.is(")") || before.is("]"))
	case "+", "-", "*", "/", "//", "%", "**", "@", "<<", ">>", "&", "|", "^", "<", ">", "<=", ">=", "==", "!=", "in", "is",
		"and", "or":
		// "ls -1" is a command, "x - 1" and "x-1" are not.
		return spaced == (after.Pos != t.End) && (isLiteral(before) || isLiteral(after))
	}
	return false
}

func isLiteral(t *Token) bool {
	return t.Kind == Number || t.Kind == String || t.Kind == FStringStart || t.Kind == FStringEnd || t.is("]") ||
		t.is(")") || t.is("[") || t.is("(") || t.is("}")
}
