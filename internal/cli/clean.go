package cli

import (
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Clean makes text from outside safe to print: line breaks become \n, and other control characters, with which a text
// could move the cursor or rename the window, become visible. So do bytes that are not UTF-8, and what a reader cannot
// see and with which a line could pose as another: marks of direction, separators, tags, fillers and soft hyphens. The
// joiners and variation selectors of scripts and emoji stay.
func Clean(s string) string {
	if !strings.ContainsFunc(s, unsafe) && utf8.ValidString(s) {
		return s
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case !unsafe(r):
			return r
		case r == '\r':
			return '\n'
		case r < ' ':
			return '␀' + r
		case r == 0x7f:
			return '␡'
		}
		return utf8.RuneError
	}, s)
}

func unsafe(r rune) bool {
	switch {
	case r < ' ':
		return r != '\n' && r != '\t'
	case r < 0x7f, r == 0x200c, r == 0x200d: // joiners
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) &&
		!unicode.Is(unicode.Prepended_Concatenation_Mark, r) // such as Arabic's sign of a year, which is seen
}

// Cell makes text from outside safe for a cell of a CSV file: what [Clean] returns, in one line, with an apostrophe
// before what a spreadsheet would run as a formula.
func Cell(text string) string {
	text = strings.Join(strings.Fields(Clean(text)), " ")
	if r, _ := utf8.DecodeRuneInString(text); strings.ContainsRune("=+-@＝＋－＠", r) {
		return "'" + text
	}
	return text
}

// CleanWriter returns a writer that cleans text (see [Clean]) and writes it to w. A command wraps its output and error
// streams once, so that no name, error or answer from outside reaches a terminal or a log unchanged. Its own control
// sequences go to [Raw].
//
// A character may be split across two writes. The writer is safe for concurrent use.
func CleanWriter(w io.Writer) io.Writer { return &cleanWriter{w: w} }

type cleanWriter struct {
	mu   sync.Mutex
	w    io.Writer
	rest []byte // the first bytes of an incomplete character
}

func (p *cleanWriter) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := append(p.rest, b...)
	end := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if c := text[len(text)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(text[len(text)-i:]) {
				end -= i
			}
			break
		}
	}
	out := Clean(string(text[:end]))
	p.rest = append([]byte(nil), text[end:]...)
	if _, err := io.WriteString(p.w, out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Unwrap returns the writer below.
func (p *cleanWriter) Unwrap() io.Writer { return p.w }

// Raw returns the innermost writer of those that have a method Unwrap, such as a CleanWriter's.
func Raw(w io.Writer) io.Writer {
	for {
		u, ok := w.(interface{ Unwrap() io.Writer })
		if !ok {
			return w
		}
		w = u.Unwrap()
	}
}
