package jinja

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// stringMethods are Python's methods of str.
var stringMethods map[string]func(in *interp, s Str, a *args) any

func init() {
	stringMethods = map[string]func(in *interp, s Str, a *args) any{
		"strip":  func(in *interp, s Str, a *args) any { return in.stripped(s, a, true, true) },
		"lstrip": func(in *interp, s Str, a *args) any { return in.stripped(s, a, true, false) },
		"rstrip": func(in *interp, s Str, a *args) any { return in.stripped(s, a, false, true) },
		"split":  func(in *interp, s Str, a *args) any { return in.splitMethod(s, a, false) },
		"rsplit": func(in *interp, s Str, a *args) any { return in.splitMethod(s, a, true) },
		"partition": func(in *interp, s Str, a *args) any {
			sep := a.separator("partition")
			if i := strings.Index(s.s, sep.s); i >= 0 {
				return tuple(s.cut(0, i), sep, s.cut(i+len(sep.s), len(s.s)))
			}
			return tuple(s, Str{}, Str{})
		},
		"rpartition": func(in *interp, s Str, a *args) any {
			sep := a.separator("rpartition")
			if i := strings.LastIndex(s.s, sep.s); i >= 0 {
				return tuple(s.cut(0, i), sep, s.cut(i+len(sep.s), len(s.s)))
			}
			return tuple(Str{}, Str{}, s)
		},
		"splitlines": func(in *interp, s Str, a *args) any {
			a.want("splitlines", 0, "keepends")
			return list(in.lines(s, truth(a.list[0]))...)
		},
		"join": func(in *interp, s Str, a *args) any {
			a.want("join", 1, "iterable")
			b := builder{in: in}
			for i, e := range in.iterate(a.list[0]) {
				if i > 0 {
					b.add(s)
				}
				b.add(toStr(e))
			}
			return b.str()
		},
		"replace": func(in *interp, s Str, a *args) any {
			n := -1
			if a.want("replace", 2, "old", "new", "count")[2] {
				n = toInt(a.list[2])
			}
			return in.replace(s, toStr(a.list[0]), toStr(a.list[1]), n)
		},
		"removeprefix": func(in *interp, s Str, a *args) any {
			return s.cut(len(s.s)-len(strings.TrimPrefix(s.s, a.one("removeprefix").s)), len(s.s))
		},
		"removesuffix": func(in *interp, s Str, a *args) any {
			return s.cut(0, len(strings.TrimSuffix(s.s, a.one("removesuffix").s)))
		},
		"startswith": func(in *interp, s Str, a *args) any { return in.affix(s, a, strings.HasPrefix) },
		"endswith":   func(in *interp, s Str, a *args) any { return in.affix(s, a, strings.HasSuffix) },
		"find":       func(in *interp, s Str, a *args) any { return integer(in.find(s, a, strings.Index)) },
		"rfind":      func(in *interp, s Str, a *args) any { return integer(in.find(s, a, strings.LastIndex)) },
		"index":      func(in *interp, s Str, a *args) any { return in.found(in.find(s, a, strings.Index)) },
		"rindex":     func(in *interp, s Str, a *args) any { return in.found(in.find(s, a, strings.LastIndex)) },
		"count": func(in *interp, s Str, a *args) any {
			part, _, is := in.part(s, a)
			if !is {
				return integer(0)
			}
			return integer(strings.Count(part.s, toStr(a.list[0]).s))
		},
		"encode": func(*interp, Str, *args) any {
			fail("the string method encode makes bytes, which this interpreter does not have: leave it out of the template")
			return nil
		},
		"format": func(in *interp, s Str, a *args) any { return in.format(s, a) },
		"format_map": func(in *interp, s Str, a *args) any {
			a.want("format_map", 1, "mapping")
			d, is := a.list[0].(*Dict)
			if !is {
				fail("format_map wants a mapping")
			}
			return in.format(s, &args{named: d})
		},
	}
}

func init() {
	maps.Copy(stringMethods, map[string]func(in *interp, s Str, a *args) any{
		"zfill": func(in *interp, s Str, a *args) any {
			a.want("zfill", 1, "width")
			sign := 0
			if s.s != "" && (s.s[0] == '-' || s.s[0] == '+') {
				sign = 1
			}
			return in.cat(s.cut(0, sign), in.fill(toInt(a.list[0])-length(s.s), own("0")), s.cut(sign, len(s.s)))
		},
		"ljust":  func(in *interp, s Str, a *args) any { return in.just(s, a, 0, 1) },
		"rjust":  func(in *interp, s Str, a *args) any { return in.just(s, a, 1, 0) },
		"center": func(in *interp, s Str, a *args) any { return in.just(s, a, 1, 1) },
	})
	for name, f := range map[string]func(string) string{"upper": upper, "lower": lower, "title": titleMethod,
		"capitalize": capitalize, "swapcase": swapcase, "casefold": casefold} {
		stringMethods[name] = func(in *interp, s Str, a *args) any {
			a.want(name, 0)
			return in.each(s, f)
		}
	}
	for name, f := range map[string]func(rune) bool{"isdigit": anyDigit, "isdecimal": unicode.IsDigit,
		"isnumeric": anyNumber, "isalpha": unicode.IsLetter, "isspace": IsSpace,
		"isalnum": func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }} {
		stringMethods[name] = is(name, func(s string) bool {
			return s != "" && strings.IndexFunc(s, func(r rune) bool { return !f(r) }) < 0
		})
	}
	for name, f := range map[string]func(string) bool{"istitle": isTitle, "isupper": isUpper, "islower": isLower,
		"isascii": isASCII} {
		stringMethods[name] = is(name, f)
	}
}

// is makes a method from a predicate of texts.
func is(name string, f func(string) bool) func(in *interp, s Str, a *args) any {
	return func(in *interp, s Str, a *args) any {
		a.want(name, 0)
		in.pay(slowly * len(s.s))
		return f(s.s)
	}
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// one returns the only argument, a string.
func (a *args) one(name string) Str {
	a.want(name, 1, "value")
	return toStr(a.list[0])
}

// separator returns the only argument, a string that is not empty.
func (a *args) separator(name string) Str {
	sep := a.one(name)
	if sep.s == "" {
		fail("empty separator")
	}
	return sep
}

func (in *interp) stripped(s Str, a *args, left, right bool) Str {
	a.want("strip", 0, "chars")
	if a.list[0] == nil {
		return s.trim(left, right, IsSpace)
	}
	chars := toStr(a.list[0]).s
	return s.trim(left, right, func(r rune) bool {
		in.pay(1 + len(chars))
		return strings.ContainsRune(chars, r)
	})
}

func (in *interp) splitMethod(s Str, a *args, right bool) any {
	n := -1
	if a.want("split", 0, "sep", "maxsplit")[1] {
		n = toInt(a.list[1])
	}
	if a.list[0] == nil {
		return list(in.fields(s, n, right)...)
	}
	sep := toStr(a.list[0]).s
	if sep == "" {
		fail("empty separator")
	}
	return list(in.split(s, sep, n, right)...)
}

func (in *interp) affix(s Str, a *args, has func(s, t string) bool) any {
	s, _, is := in.part(s, a)
	if !is {
		return false
	}
	if l, is := a.list[0].(*List); is && l.kind == "tuple" {
		return slices.ContainsFunc(l.items, func(e any) bool {
			in.visit(e, 0)
			return has(s.s, toStr(e).s)
		})
	}
	return has(s.s, toStr(a.list[0]).s)
}

// part returns the part of s that the arguments start and end of a search leave, and where it starts. If the start is
// after the end, there is no part, and not even an empty text is found.
func (in *interp) part(s Str, a *args) (part Str, at int, is bool) {
	a.want("search", 1, "sub", "start", "end")
	if a.list[1] == nil && a.list[2] == nil {
		return s, 0, true
	}
	n := length(s.s)
	bound := func(v any, otherwise int) int {
		i := in.bound(v, otherwise)
		if i < 0 {
			i = max(0, i+n)
		}
		return i
	}
	start, end := bound(a.list[1], 0), min(n, bound(a.list[2], n))
	if start > end {
		return Str{}, 0, false
	}
	return in.slice(s, []any{integer(start), integer(end), nil}).(Str), start, true
}

func (in *interp) find(s Str, a *args, index func(s, t string) int) int {
	part, at, is := in.part(s, a)
	if !is {
		return -1
	}
	i := index(part.s, toStr(a.list[0]).s)
	if i < 0 {
		return -1
	}
	return at + length(part.s[:i])
}

func (in *interp) found(i int) any {
	if i < 0 {
		fail("substring not found")
	}
	return integer(i)
}

// fill returns a character n times.
func (in *interp) fill(n int, with Str) Str { return in.repeat(with, integer(n)).(Str) }

func (in *interp) just(s Str, a *args, left, right int) any {
	with := own(" ")
	if a.want("just", 1, "width", "fillchar")[1] {
		if with = toStr(a.list[1]); length(with.s) != 1 {
			fail("the fill character must be exactly one character long")
		}
	}
	width := toInt(a.list[0])
	n := max(0, width-length(s.s))
	before := n * left
	if left+right == 2 {
		before = n/2 + n&width&1
	}
	return in.cat(in.fill(before, with), s, in.fill(n-before, with))
}
