package jinja

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// An Error is a template that cannot be read or that ended in an error.
type Error struct {
	Line    int    // of the template, from one
	Message string // what is wrong; for Raised the template's own words
	Raised  bool   // whether the template itself refuses its input, by raise_exception
}

// Error returns the line and the message.
func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

type kind int

const (
	textToken   kind = iota // template text
	printToken              // {{
	printEnd                // }}
	blockToken              // {%
	blockEnd                // %}
	nameToken               // a name or keyword
	stringToken             // a literal, unescaped
	numberToken             // a *big.Int or float64
	opToken                 // an operator or bracket
	endToken                // the end of the template
)

type token struct {
	kind  kind
	text  string
	value any // of a number
	line  int
}

// lexer cuts a template into tokens, with the white space rules of trim_blocks and lstrip_blocks.
type lexer struct {
	src       string
	at, line  int
	tokens    []token
	lineStart bool // whether the last token ended with a line break
}

var (
	rawBegin = regexp.MustCompile(`^\{%[-+]?\s*raw\s*(-%\}\s*|%\})`)
	rawEnd   = regexp.MustCompile(`\{%([-+]?)\s*endraw\s*(\+%\}|-%\}\s*|%\}\n?)`)
	floats   = regexp.MustCompile(`(?i)^(\d+_)*\d+((\.(\d+_)*\d+)?e[+-]?(\d+_)*\d+|\.(\d+_)*\d+)`)
	integers = regexp.MustCompile(`(?i)^(0b(_?[01])+|0o(_?[0-7])+|0x(_?[\da-f])+|[1-9](_?\d)*|0(_?0)*)`)
	names    = regexp.MustCompile(`^[\pL_][\pL\pM\p{Nd}_]*`)
)

var operators = []string{"**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}",
	">", "<", "=", ".", ":", "|", ",", ";"}

func lex(text string) []token {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	l := lexer{src: strings.TrimSuffix(text, "\n"), line: 1, lineStart: true}
	for l.at < len(l.src) {
		l.text()
	}
	l.add(token{kind: endToken, text: "end of template"})
	return l.tokens
}

func (l *lexer) add(t token) {
	t.line = l.line
	l.tokens = append(l.tokens, t)
}

// skip advances by n bytes.
func (l *lexer) skip(n int) {
	l.line += strings.Count(l.src[l.at:l.at+n], "\n")
	l.at += n
	l.lineStart = strings.HasSuffix(l.src[:l.at], "\n")
}

func (l *lexer) fail(format string, args ...any) {
	panic(&Error{Line: l.line, Message: message(format, args)})
}

// opening returns the index of the next {{, {% or {#, or -1.
func opening(s string) int {
	for at := 0; ; at++ {
		i := strings.IndexByte(s[at:], '{')
		if i < 0 || at+i+1 >= len(s) {
			return -1
		}
		if at += i; strings.IndexByte("{%#", s[at+1]) >= 0 {
			return at
		}
	}
}

// text reads text up to the next tag, and the tag.
func (l *lexer) text() {
	rest := l.src[l.at:]
	n := opening(rest)
	if n < 0 {
		l.add(token{kind: textToken, text: rest})
		l.skip(len(rest))
		return
	}
	tag := rest[n+1]
	sign := byte(0)
	if n+2 < len(rest) && (rest[n+2] == '-' || rest[n+2] == '+') {
		sign = rest[n+2]
	}
	if text := l.before(rest[:n], sign, tag != '{'); text != "" {
		l.add(token{kind: textToken, text: text})
	}
	l.skip(n)
	if raw := rawBegin.FindString(rest[n:]); raw != "" {
		l.skip(len(raw))
		l.raw()
		return
	}
	width := 2
	if sign != 0 {
		width = 3
	}
	switch tag {
	case '#':
		l.comment(width)
	case '{':
		l.add(token{kind: printToken})
		l.skip(width)
		l.tag("}}", printEnd, false)
	default:
		l.add(token{kind: blockToken})
		l.skip(width)
		l.tag("%}", blockEnd, true)
	}
}

// before returns the text before a tag: without its trailing white space if the sign is -, and without the blanks of
// its last line if a block or comment starts that line.
func (l *lexer) before(text string, sign byte, block bool) string {
	if sign == '-' {
		return strings.TrimRightFunc(text, IsSpace)
	}
	if sign == '+' || !block {
		return text
	}
	start := strings.LastIndexByte(text, '\n') + 1
	if (start > 0 || l.lineStart) && strings.TrimLeftFunc(text[start:], IsSpace) == "" {
		return text[:start]
	}
	return text
}

func (l *lexer) raw() {
	rest := l.src[l.at:]
	m := rawEnd.FindStringSubmatchIndex(rest)
	if m == nil {
		l.fail("the end of a raw block is missing: write {%% endraw %%}")
	}
	sign := byte(0)
	if m[2] < m[3] {
		sign = rest[m[2]]
	}
	if text := l.before(rest[:m[0]], sign, true); text != "" {
		l.add(token{kind: textToken, text: text})
	}
	l.skip(m[1])
}

func (l *lexer) comment(width int) {
	begin := l.line
	rest := l.src[l.at+width:]
	end := strings.Index(rest, "#}")
	if width == 3 && end < 0 && strings.HasPrefix(l.src[l.at+2:], "-#}") {
		l.skip(2)
		end, width = 1, 0
	}
	if end < 0 {
		l.line = begin
		l.fail("the end of a comment is missing: write #}")
	}
	l.skip(width + end)
	sign := l.src[l.at-1]
	if width+end <= 2 {
		sign = 0
	}
	l.after(2, sign, true)
}

// after moves past the end of a tag, of n bytes, and past the white space that belongs to it.
func (l *lexer) after(n int, sign byte, block bool) {
	rest := l.src[l.at+n:]
	switch {
	case sign == '-':
		n += len(rest) - len(strings.TrimLeftFunc(rest, IsSpace))
	case sign != '+' && block && strings.HasPrefix(rest, "\n"):
		n++
	}
	l.skip(n)
}

// tag reads the tokens of a tag up to its end.
func (l *lexer) tag(end string, as kind, block bool) {
	open := ""
	for {
		rest := l.src[l.at:]
		if blank := len(rest) - len(strings.TrimLeftFunc(rest, IsSpace)); blank > 0 {
			l.skip(blank)
			continue
		}
		if rest == "" {
			l.fail("the template ends inside a tag: write %s", end)
		}
		if open == "" {
			sign := byte(0)
			if rest[0] == '-' || rest[0] == '+' && block {
				sign = rest[0]
				rest = rest[1:]
			}
			if strings.HasPrefix(rest, end) {
				l.add(token{kind: as, text: map[string]string{"}}": "end of print statement",
					"%}": "end of statement block"}[end]})
				l.after(len(l.src[l.at:])-len(rest)+len(end), sign, block)
				return
			}
		}
		open = l.one(open)
	}
}

// one reads a token inside a tag. open has the brackets that are still open.
func (l *lexer) one(open string) string {
	rest := l.src[l.at:]
	if isDecimal(rest[0]) {
		l.number(rest)
		return open
	}
	if s := names.FindString(rest); s != "" {
		l.add(token{kind: nameToken, text: s})
		l.skip(len(s))
		return open
	}
	if rest[0] == '"' || rest[0] == '\'' {
		s := literal(rest)
		if s == "" {
			l.fail("a string has no end: close it with %c", rest[0])
		}
		l.add(token{kind: stringToken, text: l.unescape(s[1 : len(s)-1])})
		l.skip(len(s))
		return open
	}
	for _, op := range operators {
		if !strings.HasPrefix(rest, op) {
			continue
		}
		switch op {
		case "(", "[", "{":
			if open += op; len(open) > maxDepth {
				l.fail("brackets nested more than %d deep", maxDepth)
			}
		case ")", "]", "}":
			want := map[string]string{")": "(", "]": "[", "}": "{"}[op]
			if !strings.HasSuffix(open, want) || open == "" {
				l.fail("unexpected %q", op)
			}
			open = open[:len(open)-1]
		}
		l.add(token{kind: opToken, text: op})
		l.skip(len(op))
		return open
	}
	l.fail("unexpected character %q", []rune(rest)[:1])
	return ""
}

// number reads a number, which starts with a digit.
func (l *lexer) number(rest string) {
	t := token{kind: numberToken, text: floats.FindString(rest)}
	if t.text != "" {
		t.value, _ = strconv.ParseFloat(strings.ReplaceAll(t.text, "_", ""), 64)
	} else {
		t.text = integers.FindString(rest)
		if len(t.text) > maxDigits {
			l.fail("an integer of %d digits: at most %d", len(t.text), maxDigits)
		}
		t.value, _ = new(big.Int).SetString(strings.ReplaceAll(t.text, "_", ""), 0)
	}
	l.add(t)
	l.skip(len(t.text))
}

// literal returns the string literal at the start of s with its quotes, or "" if it has no end.
func literal(s string) string {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return s[:i+1]
		}
	}
	return ""
}

var escapes = map[byte]string{'\n': "", '\\': `\`, '\'': "'", '"': `"`, 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n",
	'r': "\r", 't': "\t", 'v': "\v"}

// unescape reads a string literal as Python does.
func (l *lexer) unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if text, is := escapes[s[i]]; is {
			b.WriteString(text)
			continue
		}
		digits, base := 0, 16
		switch c := s[i]; {
		case c == 'x':
			digits = 2
		case c == 'u':
			digits = 4
		case c == 'U':
			digits = 8
		case '0' <= c && c <= '7':
			base, digits = 8, 1
			for digits < 3 && i+digits < len(s) && '0' <= s[i+digits] && s[i+digits] <= '7' {
				digits++
			}
			i--
		case c == 'N':
			l.fail(`the escape \N in a string is not supported: write the character itself, or \u and its four digits`)
		case c >= utf8.RuneSelf: // Jinja2 has made it the text of an escape
			r, n := utf8.DecodeRuneInString(s[i:])
			b.WriteString(escapeOf(r))
			i += n - 1
			continue
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
			continue
		}
		if i+1+digits > len(s) {
			l.fail("an escape in a string is too short")
		}
		n, err := strconv.ParseUint(s[i+1:i+1+digits], base, 32)
		if err != nil || !utf8.ValidRune(rune(n)) {
			l.fail("an escape in a string is no character: %q", s[i:i+1+digits])
		}
		b.WriteRune(rune(n))
		i += digits
	}
	return b.String()
}

// IsSpace reports whether a rune is Python's white space: Unicode's and the four ASCII separators.
func IsSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }
