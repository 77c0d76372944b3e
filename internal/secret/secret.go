// Package secret keeps API keys and tokens out of logs, errors and files.
package secret

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Redacted replaces a key.
const Redacted = "[redacted]"

// Secret holds a key or token and does not show it: printing, formatting with any verb, marshalling and logging give
// Redacted, or nothing if the secret is empty, as the zero Secret is.
type Secret struct {
	// A function, because fmt prints the unexported fields of a struct that holds a Secret without calling Secret's
	// methods, and follows pointers for some verbs.
	open func() (key string, spelt *forms)
}

// New returns a secret with the key, without the white space around it.
func New(key string) Secret {
	key = strings.TrimSpace(key)
	if key == "" {
		return Secret{}
	}
	spelt := newForms(key)
	return Secret{func() (string, *forms) { return key, spelt }}
}

// Reveal returns the key, or "" if the secret is empty.
func (s Secret) Reveal() string {
	if s.Empty() {
		return ""
	}
	key, _ := s.open()
	return key
}

// Empty reports whether there is no key.
func (s Secret) Empty() bool { return s.open == nil }

// String returns "[redacted]", or "" for the empty secret.
func (s Secret) String() string {
	if s.Empty() {
		return ""
	}
	return Redacted
}

// GoString returns String, for %#v.
func (s Secret) GoString() string { return s.String() }

// Format writes String for every verb and flag.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// MarshalText returns String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON returns String as a JSON string.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(strconv.Quote(s.String())), nil }

// LogValue returns String, for log/slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Safe reports whether a secret may be sent to an address: over https, or to this machine.
func Safe(u *url.URL) bool {
	host := u.Hostname()
	return u.Scheme == "https" || host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		net.ParseIP(host).IsLoopback()
}

// Scrub returns text with the key replaced by "[redacted]": as it is, with percent, \u or \x escapes, in base64 (both
// alphabets, at any offset) and in hexadecimal. It replaces not only the whole key but every run of 8 or more of its
// characters, and its ends around asterisks or dots. It is for logs and errors: a short key may be one of their words,
// and losing that word does no harm. For a key shorter than 4 characters, Scrub replaces only occurrences that are not
// part of a longer word.
func (s Secret) Scrub(text string) string {
	found := s.find(text, false)
	if len(found) == 0 {
		return text
	}
	slices.SortFunc(found, func(a, b span) int { return a.from - b.from })
	var b strings.Builder
	done := 0
	for i := 0; i < len(found); {
		from, to := found[i].from, found[i].to
		for i++; i < len(found) && found[i].from <= to; i++ {
			to = max(to, found[i].to)
		}
		b.WriteString(text[done:from])
		b.WriteString(Redacted)
		done = to
	}
	b.WriteString(text[done:])
	return b.String()
}

// leastSecret is the minimum length of a key that counts as a secret. Users give dummies to servers that need no key
// (ollama, EMPTY, sk-no-key-required).
const leastSecret = 20

// Dummy reports whether there is no key, or one too short for a secret. Such a key may be an ordinary word of any text,
// and the text must not be changed because of it.
func (s Secret) Dummy() bool { return len(s.Reveal()) < leastSecret }

// In reports whether a text gives the key away, in one of the spellings that Scrub knows. It is for data, which is used
// either unchanged or not at all: no text contains a dummy, and a part of a key that consists only of lower-case words
// does not count.
func (s Secret) In(text string) bool { return !s.Dummy() && len(s.find(text, true)) > 0 }

func (s Secret) find(text string, prose bool) []span {
	if s.Empty() {
		return nil
	}
	_, spelt := s.open()
	found := spelt.find(text, nil, prose, nil)
	for _, r := range unescape(text) {
		found = spelt.find(r.text, r.at, prose, found)
	}
	if !prose {
		found = append(found, masked(s.Reveal(), text)...)
	}
	return found
}

// mask matches what servers write in place of the middle of a key.
var mask = regexp.MustCompile(`[*•…]+|\.{3,}`)

// masked finds the ends of key before and after a mask, if together they have at least four characters.
func masked(key, text string) (found []span) {
	for _, m := range mask.FindAllStringIndex(text, -1) {
		before, after := 0, 0
		for n := 1; n < len(key); n++ {
			if strings.HasSuffix(text[:m[0]], key[:n]) {
				before = n
			}
			if strings.HasPrefix(text[m[1]:], key[len(key)-n:]) {
				after = n
			}
		}
		if before+after >= 4 {
			found = append(found, span{m[0] - before, m[1] + after})
		}
	}
	return found
}

type span struct{ from, to int }

// gram is the number of bytes that one lookup compares: they fill a uint64.
const gram = 8

// forms are the spellings of a key.
type forms struct {
	spelt []spelling
	at    map[uint64][]place // the positions of each 8 bytes in the spellings
	short []string           // spellings of less than 8 bytes, matched as a whole
}

type spelling struct {
	text  string
	least int // shorter runs are coincidence
	raw   bool
}

type place struct{ spelling, offset int }

func newForms(key string) *forms {
	f := &forms{at: map[uint64][]place{}}
	f.add(key, gram, true)
	f.add(hex.EncodeToString([]byte(key)), 2*gram, false)
	f.add(strings.ToUpper(hex.EncodeToString([]byte(key))), 2*gram, false)
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		// The key may start at any of three offsets in the encoded text; the characters that also depend on its neighbors are
		// omitted.
		for shift, skip := range []int{0, 2, 3} {
			text := enc.EncodeToString(append(make([]byte, shift), key...))
			if (shift+len(key))%3 != 0 {
				text = text[:len(text)-1]
			}
			if len(text) > skip {
				f.add(text[skip:], 11, false)
			}
		}
	}
	return f
}

func (f *forms) add(text string, least int, raw bool) {
	if len(text) < gram {
		if raw || len(text) >= 4 {
			f.short = append(f.short, text)
		}
		return
	}
	if slices.ContainsFunc(f.spelt, func(s spelling) bool { return s.text == text }) {
		return
	}
	f.spelt = append(f.spelt, spelling{text, min(least, len(text)), raw})
	var g uint64
	for i := range len(text) {
		g = g<<8 | uint64(text[i])
		// For a key that repeats itself, a few of its positions are enough.
		if i >= gram-1 && len(f.at[g]) < 16 {
			f.at[g] = append(f.at[g], place{len(f.spelt) - 1, i - gram + 1})
		}
	}
}

// find appends the spans of text that spell the key. at maps offsets in text to offsets in the caller's text; it is nil
// if they are the same.
func (f *forms) find(text string, at []int, prose bool, found []span) []span {
	mark := func(from, to int) {
		if at != nil {
			from, to = at[from], at[to]
		}
		found = append(found, span{from, to})
	}
	if !prose {
		for _, s := range f.short {
			for from := 0; ; {
				i := strings.Index(text[from:], s)
				if i < 0 {
					break
				}
				from += i + len(s)
				if len(s) >= 4 || standsAlone(text, from-len(s), from) {
					mark(from-len(s), from)
				}
			}
		}
	}
	var g uint64
	for i, seen := 0, 0; i < len(text); i++ {
		g = g<<8 | uint64(text[i])
		if seen++; seen < gram {
			continue
		}
		from, longest := i-gram+1, 0
		for _, p := range f.at[g] {
			s, n := f.spelt[p.spelling], gram
			for from+n < len(text) && p.offset+n < len(s.text) && text[from+n] == s.text[p.offset+n] {
				n++
			}
			if n < s.least || prose && s.raw && n < len(s.text) && isWords(text[from:from+n]) {
				continue
			}
			longest = max(longest, n)
		}
		if longest > 0 {
			mark(from, from+longest)
			// Another run may start within the last few bytes of this one.
			i = max(i, from+longest-gram)
			seen = 0
		}
	}
	return found
}

// standsAlone reports whether text[from:to] has no letter or digit directly before or after it.
func standsAlone(text string, from, to int) bool {
	word := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	after, _ := utf8.DecodeRuneInString(text[to:])
	return !word(before) && !word(after)
}

func isWords(s string) bool {
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz-_") == ""
}

// decoded is one reading of a text. at gives, for every byte of the reading and for its end, the offset in the original
// text.
type decoded struct {
	text string
	at   []int
}

// unescape returns the readings of a text with escapes. In one, %41, \u0041 and \x41 are resolved. Since what looks
// like an escape may be the end of something else, directly followed by a key (such as the 9 of "%29"), another reading
// joins the last characters of every escape, as they are, and the start of what follows, one after the other.
func unescape(text string) []decoded {
	if !strings.Contains(text, "%") && !strings.Contains(text, `\`) {
		return nil
	}
	type escape struct{ from, to, next int } // next is an offset in plain
	var escapes []escape
	plain := make([]byte, 0, len(text))
	at := make([]int, 0, len(text)+1)
	for i := 0; i < len(text); {
		skip, digits := 1, 0
		switch {
		case text[i] == '%':
			digits = 2
		case strings.HasPrefix(text[i:], `\x`):
			skip, digits = 2, 2
		case strings.HasPrefix(text[i:], `\u`):
			skip, digits = 2, 4
		}
		at = append(at, i)
		if i+skip+digits <= len(text) {
			if n, err := strconv.ParseUint(text[i+skip:i+skip+digits], 16, 32); err == nil && n < 0x80 {
				plain = append(plain, byte(n))
				escapes = append(escapes, escape{i, i + skip + digits, len(plain)})
				i += skip + digits
				continue
			}
		}
		plain = append(plain, text[i])
		i++
	}
	at = append(at, len(text))

	var tails []byte
	var tailsAt []int
	for _, e := range escapes {
		for i := e.from + 1; i < e.to; i++ {
			tails, tailsAt = append(tails, text[i]), append(tailsAt, i)
		}
		// Longer runs are found in plain, whatever comes before them.
		end := min(e.next+2*gram, len(plain))
		tails, tailsAt = append(tails, plain[e.next:end]...), append(tailsAt, at[e.next:end]...)
		tails, tailsAt = append(tails, 0), append(tailsAt, at[end]) // no key continues across a NUL
	}
	return []decoded{{string(plain), at}, {string(tails), append(tailsAt, len(text))}}
}
