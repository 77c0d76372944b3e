package jinja

import (
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// A Span is the bytes [Start, End) of a text that came from the input.
type Span struct {
	Start, End int
	Source     int // as given to Text or Parse
}

// Str is a string that knows which of its bytes came from the input; the template wrote the others.
type Str struct {
	s    string
	in   []Span // in order, without overlap
	safe bool   // Markup: HTML that needs no escaping
}

// own returns text of the template's.
func own(s string) Str { return Str{s: s} }

// from returns a text made from others. All of it is input if one of them has input.
func from(s string, of ...Str) Str {
	for _, v := range of {
		if len(v.in) > 0 && s != "" {
			return Str{s: s, in: []Span{{0, len(s), v.in[0].Source}}}
		}
	}
	return Str{s: s}
}

// cut returns the bytes [i, j).
func (a Str) cut(i, j int) Str {
	if i >= j {
		return Str{safe: a.safe}
	}
	out := Str{s: a.s[i:j], safe: a.safe}
	first := sort.Search(len(a.in), func(k int) bool { return a.in[k].End > i })
	for _, p := range a.in[first:] {
		if p.Start >= j {
			break
		}
		out.in = append(out.in, Span{max(p.Start, i) - i, min(p.End, j) - i, p.Source})
	}
	return out
}

// builder joins strings.
type builder struct {
	in *interp
	b  strings.Builder
	sp []Span
}

func (b *builder) add(s Str) {
	at := b.b.Len()
	b.in.pay(itemBytes)
	b.in.spend(len(s.s) + spanBytes*len(s.in))
	if at+len(s.s) > maxString {
		fail("a text of more than %d bytes", maxString)
	}
	b.b.WriteString(s.s)
	for _, p := range s.in {
		p.Start, p.End = p.Start+at, p.End+at
		if n := len(b.sp); n > 0 && b.sp[n-1].End == p.Start && b.sp[n-1].Source == p.Source {
			b.sp[n-1].End = p.End
		} else {
			b.sp = append(b.sp, p)
		}
	}
}

func (b *builder) str() Str { return Str{s: b.b.String(), in: b.sp} }

func (in *interp) cat(all ...Str) Str {
	b := builder{in: in}
	for _, s := range all {
		b.add(s)
	}
	return b.str()
}

// slowly is the factor by which mapping a text takes longer than reading it.
const slowly = 16

// mapped maps a text whose bytes do not keep their origins.
func (in *interp) mapped(s Str, f func(string) string) Str {
	in.pay(slowly * len(s.s))
	out := from(f(s.s), s)
	in.spend(len(out.s))
	return out
}

// each maps pieces of s whose bytes share an origin. whole is the result of mapping all of s: if the pieces do not
// add up to it, all of it counts as input.
func (in *interp) each(s Str, f func(string) string) Str {
	in.pay(slowly * len(s.s))
	whole := f(s.s)
	in.spend(len(whole))
	if len(s.in) == 0 {
		return Str{s: whole, safe: s.safe}
	}
	b := builder{in: in}
	at := 0
	for _, p := range s.in {
		b.add(own(f(s.s[at:p.Start])))
		b.add(from(f(s.s[p.Start:p.End]), s.cut(p.Start, p.End)))
		at = p.End
	}
	b.add(own(f(s.s[at:])))
	out := b.str()
	if out.s != whole {
		out = from(whole, s)
	}
	out.safe = s.safe
	return out
}

func (a Str) trim(left, right bool, space func(rune) bool) Str {
	i, j := 0, len(a.s)
	if left {
		i = j - len(strings.TrimLeftFunc(a.s, space))
	}
	if right {
		j = max(i, len(strings.TrimRightFunc(a.s, space)))
	}
	return a.cut(i, j)
}

// points returns the offsets of the code points, and the end.
func (in *interp) points(s string) []int {
	n := length(s)
	in.spend(8 * (n + 1))
	at := make([]int, 0, n+1)
	for i := range s {
		at = append(at, i)
	}
	return append(at, len(s))
}

// offset returns the offset of code point n, or the end of s.
func offset(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

func length(s string) int { return utf8.RuneCountInString(s) }

// split cuts at sep, from the left or the right, at most n times if n is not negative.
func (in *interp) split(s Str, sep string, n int, right bool) []any {
	var out []any
	from, to := 0, len(s.s)
	for n != 0 {
		at := strings.Index(s.s[from:to], sep)
		if right {
			at = strings.LastIndex(s.s[from:to], sep)
		}
		if at < 0 {
			break
		}
		n--
		at += from
		if right {
			out = in.push(out, s.cut(at+len(sep), to))
			to = at
		} else {
			out = in.push(out, s.cut(from, at))
			from = at + len(sep)
		}
	}
	out = in.push(out, s.cut(from, to))
	if right {
		slices.Reverse(out)
	}
	return out
}

// fields splits at white space.
func (in *interp) fields(s Str, n int, right bool) []any {
	var out []any
	from, to := 0, len(s.s)
	for {
		if right {
			to = from + len(strings.TrimRightFunc(s.s[from:to], IsSpace))
		} else {
			from = to - len(strings.TrimLeftFunc(s.s[from:to], IsSpace))
		}
		if from == to {
			break
		}
		at := strings.IndexFunc(s.s[from:to], IsSpace)
		if right {
			at = strings.LastIndexFunc(s.s[from:to], IsSpace)
		}
		if at < 0 || n == 0 {
			out = in.push(out, s.cut(from, to))
			break
		}
		n--
		at += from
		if right {
			_, w := utf8.DecodeRuneInString(s.s[at:])
			out = in.push(out, s.cut(at+w, to))
			to = at
		} else {
			out = in.push(out, s.cut(from, at))
			from = at
		}
	}
	if right {
		slices.Reverse(out)
	}
	return out
}

func isBreak(r rune) bool {
	return '\n' <= r && r <= '\r' || 0x1c <= r && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
}

func (in *interp) lines(s Str, keep bool) []any {
	var out []any
	for from := 0; from < len(s.s); {
		at := strings.IndexFunc(s.s[from:], isBreak)
		if at < 0 {
			return in.push(out, s.cut(from, len(s.s)))
		}
		at += from
		_, w := utf8.DecodeRuneInString(s.s[at:])
		if strings.HasPrefix(s.s[at:], "\r\n") {
			w = 2
		}
		end := at
		if keep {
			end = at + w
		}
		out = in.push(out, s.cut(from, end))
		from = at + w
	}
	return out
}

func (in *interp) replace(s, old, by Str, n int) Str {
	b := builder{in: in}
	if old.s == "" {
		at := in.points(s.s)
		for i, p := range at {
			if n < 0 || i < n {
				b.add(by)
			}
			if i+1 < len(at) {
				b.add(s.cut(p, at[i+1]))
			}
		}
		return b.str()
	}
	from := 0
	for n != 0 {
		at := strings.Index(s.s[from:], old.s)
		if at < 0 {
			break
		}
		b.add(s.cut(from, from+at))
		b.add(by)
		from += at + len(old.s)
		n--
	}
	b.add(s.cut(from, len(s.s)))
	return b.str()
}
