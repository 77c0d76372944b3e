package tokenizer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonReader reads JSON text without building a tree: it reads a vocabulary of a hundred thousand entries and its
// merges in place. Small values go to encoding/json as a whole.
type jsonReader struct {
	data []byte
	at   int
	buf  []byte // the last unescaped string
}

func (r *jsonReader) errorf(format string, args ...any) error {
	return fmt.Errorf("not the JSON of a tokenizer.json, at byte %d: %s", r.at, fmt.Sprintf(format, args...))
}

// next skips white space and returns the next byte without consuming it, or 0 at the end.
func (r *jsonReader) next() byte {
	for r.at < len(r.data) {
		switch c := r.data[r.at]; c {
		case ' ', '\n', '\t', '\r':
			r.at++
		default:
			return c
		}
	}
	return 0
}

func (r *jsonReader) expect(c byte) error {
	if got := r.next(); got != c || r.at == len(r.data) {
		return r.errorf("want %q, found %s", c, r.found())
	}
	r.at++
	return nil
}

func (r *jsonReader) found() string {
	if r.at >= len(r.data) {
		return "the end: the file is cut short"
	}
	c, _ := utf8.DecodeRune(r.data[r.at:])
	return strconv.QuoteRune(c)
}

// object calls each for every key of an object. each must read the value, and may use the key until then.
func (r *jsonReader) object(each func(key []byte) error) error {
	return r.list('{', '}', func() error {
		key, err := r.str()
		if err != nil {
			return err
		}
		if err := r.expect(':'); err != nil {
			return err
		}
		return each(key)
	})
}

// array calls each for every element of an array, which it must read.
func (r *jsonReader) array(each func() error) error { return r.list('[', ']', each) }

func (r *jsonReader) list(open, end byte, each func() error) error {
	if err := r.expect(open); err != nil {
		return err
	}
	if r.next() == end {
		r.at++
		return nil
	}
	for {
		if err := each(); err != nil {
			return err
		}
		if r.next() != ',' {
			return r.expect(end)
		}
		r.at++
	}
}

// str reads a string. The result is valid until the next string is read.
func (r *jsonReader) str() ([]byte, error) {
	if err := r.expect('"'); err != nil {
		return nil, err
	}
	for i := r.at; i < len(r.data); i++ {
		switch c := r.data[i]; {
		case c == '"':
			s := r.data[r.at:i]
			r.at = i + 1
			return s, nil
		case c == '\\':
			return r.escaped(i)
		case c < ' ':
			r.at = i
			return nil, r.errorf("a control character inside a string")
		}
	}
	r.at = len(r.data)
	return nil, r.errorf("a string without an end: the file is cut short")
}

// escaped reads the rest of a string that has a backslash at i.
func (r *jsonReader) escaped(i int) ([]byte, error) {
	r.buf = append(r.buf[:0], r.data[r.at:i]...)
	for r.at = i; r.at < len(r.data); {
		c := r.data[r.at]
		r.at++
		switch {
		case c == '"':
			return r.buf, nil
		case c < ' ':
			return nil, r.errorf("a control character inside a string")
		case c != '\\':
			r.buf = append(r.buf, c)
		default:
			char, err := r.escape()
			if err != nil {
				return nil, err
			}
			r.buf = utf8.AppendRune(r.buf, char)
		}
	}
	return nil, r.errorf("a string without an end: the file is cut short")
}

// escapes has the characters that may follow a backslash, and what they mean.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape reads an escape after its backslash.
func (r *jsonReader) escape() (rune, error) {
	if r.at < len(r.data) {
		c := r.data[r.at]
		if escapes[c] != 0 {
			r.at++
			return rune(escapes[c]), nil
		}
		if char, ok := r.hex(r.at); ok {
			r.at += 5
			if !utf16.IsSurrogate(char) {
				return char, nil
			}
			if r.at < len(r.data) && r.data[r.at] == '\\' {
				if low, ok := r.hex(r.at + 1); ok {
					if char = utf16.DecodeRune(char, low); char != utf8.RuneError {
						r.at += 6
						return char, nil
					}
				}
			}
			return 0, r.errorf("half a surrogate pair in a string")
		}
	}
	return 0, r.errorf("a backslash in a string before %s", r.found())
}

// hex reads "u" and four hexadecimal digits.
func (r *jsonReader) hex(at int) (rune, bool) {
	if at+5 > len(r.data) || r.data[at] != 'u' {
		return 0, false
	}
	var n rune
	for _, c := range r.data[at+1 : at+5] {
		switch {
		case '0' <= c && c <= '9':
			n = n<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			n = n<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}

// id reads a number that is a valid token id.
func (r *jsonReader) id() (int32, error) {
	r.next()
	start, n := r.at, int32(0)
	for ; r.at < len(r.data) && '0' <= r.data[r.at] && r.data[r.at] <= '9'; r.at++ {
		if n = n*10 + int32(r.data[r.at]-'0'); n > maxID {
			return 0, r.errorf("an id above %d, more than this package can hold", maxID)
		}
	}
	if r.at == start {
		return 0, r.errorf("want a token's id, found %s", r.found())
	}
	return n, nil
}

// extent is the position of a value in the file.
type extent struct{ from, to int }

// skip skips a value.
func (r *jsonReader) skip() (extent, error) {
	r.next()
	start, depth := r.at, 0
	for r.at < len(r.data) {
		switch r.data[r.at] {
		case '"':
			if err := r.skipString(); err != nil {
				return extent{}, err
			}
		case '{', '[':
			depth++
			r.at++
		case '}', ']':
			depth--
			r.at++
		case ',', ' ', '\n', '\t', '\r', ':':
			r.at++
		default: // a number or a literal
			for r.at < len(r.data) && !delimits[r.data[r.at]] {
				r.at++
			}
		}
		if depth <= 0 {
			return extent{start, r.at}, nil
		}
	}
	return extent{}, r.errorf("a value without an end: the file is cut short")
}

// delimits has the bytes that end a number or a literal.
var delimits = [256]bool{',': true, '}': true, ']': true, ':': true, '"': true, ' ': true, '\n': true, '\t': true,
	'\r': true, '{': true, '[': true}

func (r *jsonReader) skipString() error {
	for i := r.at + 1; i < len(r.data); i++ {
		switch r.data[i] {
		case '\\':
			i++
		case '"':
			r.at = i + 1
			return nil
		}
	}
	r.at = len(r.data)
	return r.errorf("a string without an end: the file is cut short")
}

// value decodes a small value into v. what names its key in errors.
func (r *jsonReader) value(what string, v any) error {
	s, err := r.skip()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(r.data[s.from:s.to], v); err != nil {
		return fmt.Errorf("%s, at byte %d: %w", what, s.from, err)
	}
	return nil
}
