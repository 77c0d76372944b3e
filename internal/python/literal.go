package python

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// stringLiteral is a str or bytes literal, split into parts.
type stringLiteral struct {
	body       string // between the quotes, as written
	raw, bytes bool
	unicode    bool // prefix u in lower case, which ast keeps (but not U)
}

// literal splits the text of a String token into parts.
func literal(text string) stringLiteral {
	n := strings.IndexAny(text, `'"`)
	prefix, quoted := text[:n], text[n:]
	quotes := 1
	if len(quoted) >= 6 && quoted[0] == quoted[1] && quoted[1] == quoted[2] {
		quotes = 3
	}
	return stringLiteral{
		body:    quoted[quotes : len(quoted)-quotes],
		raw:     strings.ContainsAny(prefix, "rR"),
		bytes:   strings.ContainsAny(prefix, "bB"),
		unicode: prefix == "u",
	}
}

// Marks in decoded values for what UTF-8 cannot represent. They are not UTF-8, so they equal nothing else.
const (
	markName      = "\xff" // a \N escape: its name follows, in braces
	markSurrogate = "\xfe" // half a surrogate pair: four hexadecimal digits follow
)

// decode returns the value of the literal.
func (s stringLiteral) decode() (string, error) {
	if s.bytes {
		for _, r := range s.body {
			if r >= utf8.RuneSelf {
				return "", fmt.Errorf("%q in a bytes literal, which takes ASCII only", r)
			}
		}
	}
	body := unixLines(s.body)
	if s.raw || strings.IndexByte(body, '\\') < 0 {
		return body, nil
	}
	return unescape(body, s.bytes)
}

// decodeMiddle returns the value of literal text in an f-string.
func decodeMiddle(text string, raw bool) (string, error) {
	text = unixLines(text)
	if strings.ContainsAny(text, "{}") {
		text = undouble(text, raw)
	}
	if raw || strings.IndexByte(text, '\\') < 0 {
		return text, nil
	}
	return unescape(text, false)
}

// undouble replaces two braces with one, except in \N escapes.
func undouble(s string, raw bool) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && !raw && strings.HasPrefix(s[i+1:], "N{"):
			end := i + strings.IndexByte(s[i:], '}')
			b.WriteString(s[i:end])
			i = end
		case s[i] == '\\' && i+1 < len(s) && s[i+1] != '{' && s[i+1] != '}':
			b.WriteByte(s[i])
			i++
		case (s[i] == '{' || s[i] == '}') && i+1 < len(s) && s[i+1] == s[i]:
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// unixLines makes every line end with LF, as Python does before it reads a source.
func unixLines(s string) string {
	if strings.IndexByte(s, '\r') < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

var simpleEscapes = map[byte]string{
	'\n': "", '\\': "\\", '\'': "'", '"': "\"",
	'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v",
}

// unescape replaces the escapes in s. It keeps an unknown escape, including the backslash.
func unescape(s string, bytes bool) (string, error) {
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			i++
			continue
		}
		rest := s[i+1:]
		if rest == "" {
			return "", errors.New("a backslash at the end of a string's text")
		}
		c := rest[0]
		width := 0 // hexadecimal digits that must follow
		switch simple, ok := simpleEscapes[c]; {
		case ok:
			b.WriteString(simple)
			i += 2
			continue
		case '0' <= c && c <= '7':
			n := 1
			for n < 3 && n < len(rest) && '0' <= rest[n] && rest[n] <= '7' {
				n++
			}
			code, _ := strconv.ParseUint(rest[:n], 8, 16)
			if bytes {
				b.WriteByte(byte(code))
			} else {
				b.WriteRune(rune(code))
			}
			i += 1 + n
			continue
		case c == 'x':
			width = 2
		case c == 'u' && !bytes:
			width = 4
		case c == 'U' && !bytes:
			width = 8
		case c == 'N' && !bytes:
			end := strings.IndexByte(rest, '}')
			if !strings.HasPrefix(rest, "N{") || end < 3 {
				return "", errors.New(`a \N escape without a name in braces`)
			}
			b.WriteString(markName + strings.ToUpper(rest[1:end+1]))
			i += 1 + end + 1
			continue
		default:
			b.WriteByte('\\')
			i++
			continue
		}
		code, err := strconv.ParseUint(rest[1:min(1+width, len(rest))], 16, 32)
		if err != nil || len(rest) < 1+width {
			return "", fmt.Errorf(`\%c needs %d hexadecimal digits`, c, width)
		}
		switch {
		case bytes:
			b.WriteByte(byte(code))
		case code > utf8.MaxRune:
			return "", fmt.Errorf(`\%s is beyond the last character, \U0010ffff`, rest[:1+width])
		case 0xd800 <= code && code <= 0xdfff:
			fmt.Fprintf(&b, markSurrogate+"%04x", code)
		default:
			b.WriteRune(rune(code))
		}
		i += 2 + width
	}
	return b.String(), nil
}
