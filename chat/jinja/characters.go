// Methods of str that go through its characters.

package jinja

import (
	"math/big"
	"strings"
	"unicode"
)

// expandTabs puts spaces in place of tabs, up to the next multiple of a width. They come from where the tab does.
func expandTabs(in *interp, s Str, a *args) any {
	width := 8
	if a.want("expandtabs", 0, "tabsize")[0] {
		width = toInt(a.list[0])
	}
	b := builder{in: in}
	from, column := 0, 0
	for i, r := range s.s {
		switch r {
		default:
			column++
		case '\n', '\r':
			column = 0
		case '\t':
			b.add(s.cut(from, i))
			from = i + 1
			if width > 0 {
				n := width - column%width
				b.add(in.fill(n, in.each(s.cut(i, from), func(string) string { return " " })))
				column += n
			}
		}
	}
	b.add(s.cut(from, len(s.s)))
	return b.str()
}

// translate replaces each character by what a table has for its code point: another one, a text, or none.
func translate(in *interp, s Str, a *args) any {
	a.want("translate", 1, "table")
	table, is := a.list[0].(*Dict)
	if !is {
		fail("translate wants a mapping, not %s", typeName(a.list[0]))
	}
	in.step(length(s.s))
	b := builder{in: in}
	from := 0
	for i, r := range s.s {
		v, is := in.get(table, big.NewInt(int64(r)))
		if !is {
			continue
		}
		n := len(string(r))
		b.add(s.cut(from, i))
		from = i + n
		switch v := v.(type) {
		case nil:
		case Str:
			b.add(v)
		default:
			b.add(own(string(character(v))))
		}
	}
	b.add(s.cut(from, len(s.s)))
	return b.str()
}

// character is the character of a code point.
func character(v any) rune {
	n := toInt(v)
	if n < 0 || n > unicode.MaxRune {
		fail("character mapping must be in range(0x110000)")
	}
	return rune(n)
}

// makeTrans makes a table for translate: of a mapping whose keys are characters, or of texts of equal lengths, and of
// one whose characters go.
func makeTrans(in *interp, _ Str, a *args) any {
	has := a.want("maketrans", 1, "x", "y", "z")
	table := &Dict{}
	code := func(r rune) any { return big.NewInt(int64(r)) }
	if !has[1] {
		d, is := a.list[0].(*Dict)
		if !is {
			fail("if you give only one argument to maketrans it must be a dict")
		}
		in.step(len(d.keys))
		for i, k := range d.keys {
			if s, is := k.(Str); is {
				if length(s.s) != 1 {
					fail("string keys in translate table must be of length 1")
				}
				k = code([]rune(s.s)[0])
			}
			in.set(table, k, d.values[i])
		}
		return table
	}
	in.spend(8 * (len(toStr(a.list[0]).s) + len(toStr(a.list[1]).s)))
	x, y := []rune(toStr(a.list[0]).s), []rune(toStr(a.list[1]).s)
	if len(x) != len(y) {
		fail("the first two maketrans arguments must have equal length")
	}
	in.step(len(x))
	for i := range x {
		in.set(table, code(x[i]), code(y[i]))
	}
	if has[2] {
		for _, r := range toStr(a.list[2]).s {
			in.set(table, code(r), nil)
		}
	}
	return table
}

// isTitle tells whether upper case letters begin words and lower case ones go on, with at least one of them.
func isTitle(s string) bool {
	inWord, found := false, false
	for _, r := range s {
		switch {
		case notLower(r):
			if inWord {
				return false
			}
			inWord, found = true, true
		case notUpper(r):
			if !inWord {
				return false
			}
			found = true
		default:
			inWord = false
		}
	}
	return found
}

// otherDigits are digits that no decimal number is made of, such as superscripts and circled ones.
var otherDigits = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0xb2, 0xb3, 1}, {0xb9, 0xb9, 1}, {0x1369, 0x1371, 1}, {0x19da, 0x19da, 1}, {0x2070, 0x2070, 1},
		{0x2074, 0x2079, 1}, {0x2080, 0x2089, 1}, {0x2460, 0x2468, 1}, {0x2474, 0x247c, 1}, {0x2488, 0x2490, 1},
		{0x24ea, 0x24ea, 1}, {0x24f5, 0x24fd, 1}, {0x24ff, 0x24ff, 1}, {0x2776, 0x277e, 1}, {0x2780, 0x2788, 1},
		{0x278a, 0x2792, 1},
	},
	R32: []unicode.Range32{{0x10a40, 0x10a43, 1}, {0x10e60, 0x10e68, 1}, {0x11052, 0x1105a, 1},
		{0x1f100, 0x1f10a, 1}},
	LatinOffset: 2,
}

// ideographs are the letters that are numbers, too.
const ideographs = "㐅㒃㠪㭍一七万三九二五亖亿什仟仨伍佰億兆兩八六十千卄卅卌叁参參叄四壱壹幺廾廿弌弍弎弐拾捌柒漆玖百肆萬貮貳贰阡陆陌陸零" +
	"\uf96b\uf973\uf978\uf9b2\uf9d1\uf9d3\uf9fd𠀁𠁤𠃢𠄡𠤪𠦃𠦌𠦜𠫪𠫽𠬙𢎐𢦘𣬛𦉭\U0002f890"

func anyDigit(r rune) bool { return unicode.IsDigit(r) || unicode.Is(otherDigits, r) }

func anyNumber(r rune) bool { return unicode.IsNumber(r) || strings.ContainsRune(ideographs, r) }

// notIdentifiers are letters of no identifier, because their compatibility forms begin with a space or a mark, and
// notFirst those that begin none.
const (
	notIdentifiers = "\u037a\u2e2f\u309b\u309c\ufc5e\ufc5f\ufc60\ufc61\ufc62\ufc63\ufdfa\ufdfb\ufe70\ufe72" +
		"\ufe74\ufe76\ufe78\ufe7a\ufe7c\ufe7e"
	notFirst = "\u0e33\u0eb3\uff9e\uff9f"
)

func isIdentifier(s string) bool {
	for i, r := range s {
		begins := r == '_' || unicode.IsLetter(r) || unicode.In(r, unicode.Nl, unicode.Other_ID_Start)
		if !begins && (i == 0 || !unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Other_ID_Continue)) ||
			strings.ContainsRune(notIdentifiers, r) || i == 0 && strings.ContainsRune(notFirst, r) {
			return false
		}
	}
	return s != ""
}

func isPrintable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}
