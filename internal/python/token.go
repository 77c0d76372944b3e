// Package python parses Python source in Go: it splits source into tokens, checks whether it is Python, and proves that
// two pieces of code are the same program apart from comments, layout, docstrings and quotes.
//
// It follows the lexical rules and the grammar of the Python 3.11 language reference, and accepts the additions of 3.12
// (nested f-strings, type parameters, the type statement). [Tokenize] is the lexer, [Check] the grammar, and
// [Equal] the proof; the other functions read their tokens. The package executes nothing and keeps nothing between
// calls. Every function takes time linear in the source.
package python

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Kind is the kind of a token. The kinds are the same as in CPython's tokenize module. F-strings are split into parts,
// as in CPython since 3.12.
type Kind uint8

const (
	End           Kind = iota // after the last token, always there
	Name                      // identifier or keyword
	Number                    // integer, float or imaginary literal
	String                    // str or bytes literal with prefix and quotes, not an f-string
	FStringStart              // prefix and opening quotes of an f-string
	FStringMiddle             // literal text in an f-string or in a format specifier, as written
	FStringEnd                // closing quotes of an f-string
	Op                        // operator or delimiter; also the braces, "!" and ":" of an f-string's fields
	Comment                   // from "#" to the end of the line
	Newline                   // end of a logical line; empty if the source ends without a line end
	NL                        // end of a physical line that ends no logical line: blank, comment only, or inside brackets
	Indent                    // the white space at the start of a deeper block
	Dedent                    // empty; one per block that ends
)

// A Token is one lexical element. Its Text is src[Pos:End] of the source that it came from.
type Token struct {
	Kind     Kind
	Text     string
	Pos, End int // byte offsets
	Line     int // line of Pos, from 1
}

// A SyntaxError says why a source is not Python, and where.
type SyntaxError struct {
	Line int // from 1
	Msg  string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Msg) }

// CPython's limits. The first also bounds the recursion of the grammar.
const (
	maxBrackets = 200
	maxIndents  = 100
)

// Tokenize splits src into tokens. The last one has the kind End. A line ends at LF, CR LF or CR. Tokenize skips a
// byte-order mark at the start, and compares identifiers as written, without Unicode normalization. The error is a
// [*SyntaxError]: invalid UTF-8, a NUL byte, a character or number that no token can contain, a literal that is not
// closed, a bracket without its partner, inconsistent indentation, more than 200 nested brackets or 100 nested blocks.
// With an error, Tokenize returns the tokens before it.
func Tokenize(src string) ([]Token, error) {
	l := &lexer{src: src, line: 1, fresh: true, indents: []column{{}}, tokens: make([]Token, 0, len(src)/4+1)}
	if err := l.run(); err != nil {
		return l.tokens, err
	}
	return l.tokens, nil
}

// column is the width of an indentation: with tabs to the next multiple of 8, and with tabs of width 1. If the two
// widths order lines differently, the meaning depends on the reader's tab stops, and Python rejects the lines.
type column struct{ wide, narrow int }

type bracket struct {
	open byte
	line int
}

type lexer struct {
	src     string
	pos     int
	line    int
	fresh   bool // at the start of a logical line, before its indentation is read
	tokens  []Token
	open    []bracket
	indents []column
}

func (l *lexer) fail(line int, format string, args ...any) error {
	return &SyntaxError{Line: line, Msg: fmt.Sprintf(format, args...)}
}

// emit appends the token that ends at end, and moves to that position.
func (l *lexer) emit(kind Kind, end int) {
	text := l.src[l.pos:end]
	l.tokens = append(l.tokens, Token{Kind: kind, Text: text, Pos: l.pos, End: end, Line: l.line})
	l.pos = end
	if kind == Newline || kind == NL {
		if text != "" {
			l.line++
		}
	} else if kind == String || kind == FStringMiddle || kind == Indent {
		l.line += countLines(text)
	}
}

// countLines counts the line ends in s.
func countLines(s string) int {
	return strings.Count(s, "\n") + strings.Count(s, "\r") - strings.Count(s, "\r\n")
}

// lineEnd returns the length of the line end at i, or 0 if there is none.
func lineEnd(s string, i int) int {
	switch {
	case i >= len(s):
		return 0
	case s[i] == '\n':
		return 1
	case s[i] == '\r' && i+1 < len(s) && s[i+1] == '\n':
		return 2
	case s[i] == '\r':
		return 1
	}
	return 0
}

func (l *lexer) run() error {
	if i := strings.IndexByte(l.src, 0); i >= 0 {
		return l.fail(1+countLines(l.src[:i]), "a NUL byte, which no Python source may contain")
	}
	for i, r := range l.src {
		if r == utf8.RuneError && !strings.HasPrefix(l.src[i:], string(utf8.RuneError)) {
			return l.fail(1+countLines(l.src[:i]), "bytes that are not UTF-8")
		}
	}
	if strings.HasPrefix(l.src, "\ufeff") {
		l.pos = len("\ufeff")
	}
	for l.pos < len(l.src) {
		if l.fresh {
			if err := l.indentation(); err != nil {
				return err
			}
			continue
		}
		if err := l.next(); err != nil {
			return err
		}
	}
	if n := len(l.open); n > 0 {
		return l.fail(l.open[n-1].line, "%q was never closed", l.open[n-1].open)
	}
	if !l.fresh {
		l.emit(Newline, l.pos)
	}
	for range len(l.indents) - 1 {
		l.emit(Dedent, l.pos)
	}
	l.emit(End, l.pos)
	return nil
}

// indentation reads the start of a line: all of a blank or comment line, otherwise the white space, and emits Indent or
// Dedent tokens.
func (l *lexer) indentation() error {
	var at, continued column
	i := l.pos
measure:
	for i < len(l.src) {
		switch l.src[i] {
		case ' ':
			at.wide++
			at.narrow++
		case '\t':
			at.wide = at.wide/8*8 + 8
			at.narrow++
		case '\f':
			at = column{}
		case '\\':
			// A backslash joins the next line to this one, and the indentation of the next line is the one that counts.
			n := lineEnd(l.src, i+1)
			if n == 0 || i+1+n == len(l.src) {
				return l.fail(l.line, "a backslash that continues no line")
			}
			if continued == (column{}) {
				continued = at
			}
			i += n
		default:
			break measure
		}
		i++
	}
	if i == len(l.src) {
		l.skip(i)
		return nil
	}
	if n := lineEnd(l.src, i); n > 0 {
		l.skip(i)
		l.emit(NL, i+n)
		return nil
	}
	if l.src[i] == '#' {
		l.skip(i)
		l.comment()
		l.emit(NL, l.pos+lineEnd(l.src, l.pos))
		return nil
	}
	if continued != (column{}) {
		at = continued
	}
	l.fresh = false
	return l.block(at, i)
}

// block compares the indentation of a line, whose text starts at text, with the indentation of the enclosing blocks.
func (l *lexer) block(at column, text int) error {
	top := l.indents[len(l.indents)-1]
	switch {
	case at.wide > top.wide:
		if at.narrow <= top.narrow {
			return l.fail(l.line, "tabs and spaces mixed so that the indentation depends on the tab width")
		}
		if len(l.indents) > maxIndents {
			return l.fail(l.line, "more than %d blocks inside each other", maxIndents)
		}
		l.indents = append(l.indents, at)
		l.emit(Indent, text)
		return nil
	case at.wide < top.wide:
		l.skip(text)
		for at.wide < top.wide {
			l.indents = l.indents[:len(l.indents)-1]
			top = l.indents[len(l.indents)-1]
			l.emit(Dedent, text)
		}
		if at.wide != top.wide {
			return l.fail(l.line, "indentation that matches no block outside")
		}
	}
	if at.narrow != top.narrow {
		return l.fail(l.line, "tabs and spaces mixed so that the indentation depends on the tab width")
	}
	l.skip(text)
	return nil
}

// skip moves past white space and joined lines.
func (l *lexer) skip(to int) {
	l.line += countLines(l.src[l.pos:to])
	l.pos = to
}
