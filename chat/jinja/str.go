package jinja

import (
	"slices"
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

// own is text of the template's.
func own(s string) Str { return Str{s: s} }

// from is a text made of others: all input if one of them has input.
func from(s string, of ...any) Str {
	for _, v := range of {
		if src, is := sourceOf(v, 0); is && s != "" {
			return Str{s: s, in: []Span{{0, len(s), src}}}
		}
	}
	return Str{s: s}
}

// sourceOf returns a source of input in v.
func sourceOf(v any, depth int) (int, bool) {
	switch v := v.(type) {
	case Str:
		if len(v.in) > 0 {
			return v.in[0].Source, true
		}
	case *List:
		for _, e := range v.items {
			if src, is := sourceOf(e, depth+1); is || depth > maxDepth {
				return src, true
			}
		}
	case *Dict:
		for i, k := range v.keys {
			if src, is := sourceOf(k, depth+1); is || depth > maxDepth {
				return src, true
			}
			if src, is := sourceOf(v.values[i], depth+1); is {
				return src, true
			}
		}
	}
	return 0, false
}

// cut returns the bytes [i, j).
func (a Str) cut(i, j int) Str {
	if i >= j {
		return Str{safe: a.safe}
	}
	out := Str{s: a.s[i:j], safe: a.safe}
	for _, p := range a.in {
		if s, e := max(p.Start, i), min(p.End, j); s < e {
			out.in = append(out.in, Span{s - i, e - i, p.Source})
		}
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
	b.in.spend(len(s.s) + 24*len(s.in))
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

// each maps pieces of s whose bytes share an origin. whole is the text that the mapping of all of s gives: where the
// pieces do not add up to it, all of it counts as input.
func (in *interp) each(s Str, f func(string) string) Str {
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
func points(s string) []int {
	at := make([]int, 0, len(s)+1)
	for i := range s {
		at = append(at, i)
	}
	return append(at, len(s))
}

func length(s string) int { return utf8.RuneCountInString(s) }

// split cuts at sep, from the left or the right, at most n times if n is not negative.
func (in *interp) split(s Str, sep string, n int, right bool) []any {
	var out []any
	for n != 0 {
		in.step(1)
		at := strings.Index(s.s, sep)
		if right {
			at = strings.LastIndex(s.s, sep)
		}
		if at < 0 {
			break
		}
		n--
		if right {
			out = append(out, s.cut(at+len(sep), len(s.s)))
			s = s.cut(0, at)
		} else {
			out = append(out, s.cut(0, at))
			s = s.cut(at+len(sep), len(s.s))
		}
	}
	out = append(out, s)
	if right {
		slices.Reverse(out)
	}
	return out
}

// fields splits at white space.
func (in *interp) fields(s Str, n int, right bool) []any {
	var out []any
	for {
		in.step(1)
		s = s.trim(!right, right, isSpace)
		if s.s == "" {
			break
		}
		at := strings.IndexFunc(s.s, isSpace)
		if right {
			at = strings.LastIndexFunc(s.s, isSpace)
		}
		if at < 0 || n == 0 {
			out = append(out, s)
			break
		}
		n--
		if right {
			_, w := utf8.DecodeRuneInString(s.s[at:])
			out = append(out, s.cut(at+w, len(s.s)))
			s = s.cut(0, at)
		} else {
			out = append(out, s.cut(0, at))
			s = s.cut(at, len(s.s))
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
	for s.s != "" {
		in.step(1)
		at := strings.IndexFunc(s.s, isBreak)
		if at < 0 {
			return append(out, s)
		}
		_, w := utf8.DecodeRuneInString(s.s[at:])
		if strings.HasPrefix(s.s[at:], "\r\n") {
			w = 2
		}
		end := at
		if keep {
			end = at + w
		}
		out = append(out, s.cut(0, end))
		s = s.cut(at+w, len(s.s))
	}
	return out
}

func (in *interp) replace(s, old, by Str, n int) Str {
	b := builder{in: in}
	if old.s == "" {
		at := points(s.s)
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
	for i, part := range in.split(s, old.s, n, false) {
		if i > 0 {
			b.add(by)
		}
		b.add(part.(Str))
	}
	return b.str()
}
