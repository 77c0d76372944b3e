package python

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// next reads one token, or the white space before a token or before the end.
func (l *lexer) next() error {
	for l.pos < len(l.src) && strings.IndexByte(" \t\f", l.src[l.pos]) >= 0 {
		l.pos++
	}
	if l.pos == len(l.src) {
		return nil
	}
	c := l.src[l.pos]
	switch {
	case c == '#':
		l.comment()
	case c == '\n' || c == '\r':
		end := l.pos + lineEnd(l.src, l.pos)
		if len(l.open) > 0 {
			l.emit(NL, end)
		} else {
			l.emit(Newline, end)
			l.fresh = true
		}
	case c == '\\':
		n := lineEnd(l.src, l.pos+1)
		if n == 0 || l.pos+1+n == len(l.src) {
			return l.fail(l.line, "a backslash that continues no line")
		}
		l.pos += 1 + n
		l.line++
	case isDigit(c) || c == '.' && l.pos+1 < len(l.src) && isDigit(l.src[l.pos+1]):
		return l.number()
	case c == '"' || c == '\'':
		return l.quoted(0)
	case isNameStart(l.src[l.pos:]):
		end := nameEnd(l.src, l.pos)
		if n := end - l.pos; n <= 2 && end < len(l.src) && (l.src[end] == '"' || l.src[end] == '\'') &&
			isPrefix(l.src[l.pos:end]) {
			return l.quoted(n)
		}
		l.emit(Name, end)
	default:
		return l.operator()
	}
	return nil
}

func (l *lexer) comment() {
	end := strings.IndexAny(l.src[l.pos:], "\r\n")
	if end < 0 {
		end = len(l.src) - l.pos
	}
	l.emit(Comment, l.pos+end)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isNameStart(s string) bool {
	if c := s[0]; c < utf8.RuneSelf {
		return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z'
	}
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.In(r, unicode.L, unicode.Nl, unicode.Other_ID_Start)
}

// nameEnd returns the end of the identifier characters that start at i.
func nameEnd(s string, i int) int {
	for i < len(s) {
		c := s[i]
		if c == '_' || isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if c < utf8.RuneSelf || !unicode.In(r, unicode.L, unicode.Nl, unicode.Other_ID_Start, unicode.Mn, unicode.Mc,
			unicode.Nd, unicode.Pc, unicode.Other_ID_Continue) {
			break
		}
		i += n
	}
	return i
}

// isPrefix reports whether s, one or two letters, may come before a string's quotes.
func isPrefix(s string) bool {
	switch strings.ToLower(s) {
	case "r", "u", "b", "f", "br", "rb", "fr", "rf":
		return true
	}
	return false
}

// digits returns the end of the digits that start at i. Single underscores may separate the digits.
func digits(s string, i int, base int) int {
	is := func(i int) bool {
		if i >= len(s) {
			return false
		}
		c := s[i] | 0x20
		return isDigit(s[i]) && int(s[i]-'0') < base || base == 16 && 'a' <= c && c <= 'f'
	}
	if !is(i) {
		return i
	}
	for is(i) || s[min(i, len(s)-1)] == '_' && is(i+1) {
		i++
	}
	return i
}

func (l *lexer) number() error {
	s, i := l.src, l.pos
	base := 10
	if s[i] == '0' && i+1 < len(s) {
		switch s[i+1] | 0x20 {
		case 'x':
			base = 16
		case 'o':
			base = 8
		case 'b':
			base = 2
		}
	}
	if base != 10 {
		i += 2
		if i < len(s) && s[i] == '_' {
			i++
		}
		end := digits(s, i, base)
		if end == i {
			return l.fail(l.line, "%q begins a number in base %d but has no digits", s[l.pos:i], base)
		}
		return l.endNumber(end)
	}
	i = digits(s, i, 10)
	whole := s[l.pos:i]
	integer := true
	if i < len(s) && s[i] == '.' {
		integer = false
		i = digits(s, i+1, 10)
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		if end := digits(s, j, 10); end > j {
			i, integer = end, false
		}
	}
	if i < len(s) && s[i]|0x20 == 'j' {
		i, integer = i+1, false
	}
	if integer && whole[0] == '0' && strings.Trim(whole, "0_") != "" {
		return l.fail(l.line, "%q has leading zeros; an octal number is written 0o", whole)
	}
	return l.endNumber(i)
}

// endNumber emits the number that ends at end, unless the characters after it make it invalid. A keyword may follow
// without a space.
func (l *lexer) endNumber(end int) error {
	rest := l.src[end:]
	if rest != "" && (isDigit(rest[0]) || isNameStart(rest)) {
		if !hasAnyPrefix(rest, []string{"and", "else", "for", "if", "in", "is", "not", "or"}) {
			return l.fail(l.line, "%q is not a number", l.src[l.pos:nameEnd(l.src, end)])
		}
	}
	l.emit(Number, end)
	return nil
}

// quoted reads a string whose prefix of n letters starts here.
func (l *lexer) quoted(n int) error {
	s, i := l.src, l.pos+n
	quote := s[i : i+1]
	if strings.HasPrefix(s[i:], quote+quote+quote) {
		quote = s[i : i+3]
	}
	i += len(quote)
	prefix := strings.ToLower(s[l.pos : l.pos+n])
	if strings.Contains(prefix, "f") {
		l.emit(FStringStart, i)
		return l.fstring(quote, strings.Contains(prefix, "r"), l.line, false)
	}
	for i < len(s) {
		switch {
		case s[i] == quote[0] && strings.HasPrefix(s[i:], quote):
			l.emit(String, i+len(quote))
			return nil
		case s[i] == '\\':
			i += 1 + max(1, lineEnd(s, i+1))
		case len(quote) == 1 && lineEnd(s, i) > 0:
			return l.fail(l.line, "a string that is not closed on its line")
		default:
			i++
		}
	}
	if len(quote) == 1 {
		return l.fail(l.line, "a string that is not closed on its line")
	}
	return l.fail(l.line, "a string that is never closed")
}

// fstring reads the text and the fields of an f-string that started on line start, up to its closing quotes. In a
// format specifier, it reads up to the brace that ends the field.
func (l *lexer) fstring(quote string, raw bool, start int, spec bool) error {
	s, i := l.src, l.pos
	middle := func() {
		if i > l.pos {
			l.emit(FStringMiddle, i)
		}
	}
	for i < len(s) {
		c := s[i]
		switch {
		case c == quote[0] && strings.HasPrefix(s[i:], quote):
			if spec {
				return l.fail(l.line, "an f-string field without its closing brace")
			}
			middle()
			l.emit(FStringEnd, i+len(quote))
			return nil
		case !spec && (strings.HasPrefix(s[i:], "{{") || strings.HasPrefix(s[i:], "}}")):
			i += 2
		case c == '{':
			middle()
			if err := l.field(quote, raw, start); err != nil {
				return err
			}
			i = l.pos
		case c == '}':
			middle()
			if spec {
				return nil
			}
			return l.fail(l.line, "a single '}' in an f-string; a brace as text is written twice")
		case c == '\\' && !raw && strings.HasPrefix(s[i+1:], "N{"):
			end := strings.IndexAny(s[i:], "}\r\n")
			if end < 0 || s[i+end] != '}' {
				return l.fail(l.line, `a \N escape without its closing brace`)
			}
			i += end + 1
		case c == '\\' && i+1 < len(s) && (s[i+1] == '{' || s[i+1] == '}'):
			i++ // the backslash is text, and the brace is an ordinary brace
		case c == '\\':
			i += 1 + max(1, lineEnd(s, i+1))
		case len(quote) == 1 && lineEnd(s, i) > 0:
			return l.fail(start, "an f-string that is not closed on its line")
		default:
			i++
		}
	}
	return l.fail(start, "an f-string that is never closed")
}

// field reads one {expression=!conversion:specifier} of an f-string.
func (l *lexer) field(quote string, raw bool, start int) error {
	if err := l.operator(); err != nil { // the opening brace
		return err
	}
	for level := len(l.open); l.pos < len(l.src); {
		c := l.src[l.pos]
		inside := len(l.open) > level
		switch {
		case c == ' ' || c == '\t' || c == '\f':
			l.pos++
		case inside || strings.IndexByte("}:!", c) < 0 || strings.HasPrefix(l.src[l.pos:], "!="):
			if err := l.next(); err != nil {
				return err
			}
		case c == '}':
			return l.operator()
		case c == '!':
			l.emit(Op, l.pos+1)
		default:
			l.emit(Op, l.pos+1)
			if err := l.fstring(quote, raw, start, true); err != nil {
				return err
			}
			return l.operator()
		}
	}
	return l.fail(start, "an f-string that is never closed")
}

// The operators of three and two characters. The method operator has the operators of one character.
var (
	operators3 = []string{"**=", "//=", ">>=", "<<=", "..."}
	operators2 = []string{"**", "//", ">>", "<<", "<=", ">=", "==", "!=", "->", "+=", "-=", "*=", "/=", "%=", "&=", "|=",
		"^=", "@=", ":="}
)

func (l *lexer) operator() error {
	rest := l.src[l.pos:]
	c := rest[0]
	n := 1
	switch {
	case c == '(' || c == '[' || c == '{':
		if len(l.open) == maxBrackets {
			return l.fail(l.line, "more than %d brackets inside each other", maxBrackets)
		}
		l.open = append(l.open, bracket{c, l.line})
	case c == ')' || c == ']' || c == '}':
		top := len(l.open) - 1
		if top < 0 {
			return l.fail(l.line, "%q closes nothing", c)
		}
		if b := l.open[top]; strings.IndexByte("([{", b.open) != strings.IndexByte(")]}", c) {
			return l.fail(l.line, "%q does not close the %q of line %d", c, b.open, b.line)
		}
		l.open = l.open[:top]
	case len(rest) > 1 && strings.IndexByte("*/<>=.", rest[1]) < 0 && strings.IndexByte("+-*/%&|^~<>,:;.=@", c) >= 0:
		// The common case of the next three, without the search.
	case strings.HasPrefix(rest, "<>"):
		return l.fail(l.line, `"<>" is Python 2; write !=`)
	case hasAnyPrefix(rest, operators3):
		n = 3
	case hasAnyPrefix(rest, operators2):
		n = 2
	case strings.IndexByte("+-*/%&|^~<>,:;.=@", c) < 0:
		r, _ := utf8.DecodeRuneInString(rest)
		return l.fail(l.line, "%q, which no Python token may contain", r)
	}
	l.emit(Op, l.pos+n)
	return nil
}

func hasAnyPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}
