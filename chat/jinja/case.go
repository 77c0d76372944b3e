package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Case is Unicode's full mapping: some letters become several, and a sigma at the end of a word is another letter.

// specialUpper has the letters that become several in upper case, and specialTitle the letters that become several in
// title case, and others than in upper case.
var (
	specialUpper = mapping("ßSS ŉʼN ǰJ\u030c ΐΙ\u0308\u0301 ΰΥ\u0308\u0301 ևԵՒ ẖH\u0331 ẗT\u0308 ẘW\u030a ẙY\u030a ẚAʾ " +
		"ὐΥ\u0313 ὒΥ\u0313\u0300 ὔΥ\u0313\u0301 ὖΥ\u0313\u0342 ᾀἈΙ ᾁἉΙ ᾂἊΙ ᾃἋΙ ᾄἌΙ ᾅἍΙ ᾆἎΙ ᾇἏΙ ᾈἈΙ ᾉἉΙ ᾊἊΙ ᾋἋΙ ᾌἌΙ ᾍἍΙ ᾎἎΙ " +
		"ᾏἏΙ ᾐἨΙ ᾑἩΙ ᾒἪΙ ᾓἫΙ ᾔἬΙ ᾕἭΙ ᾖἮΙ ᾗἯΙ ᾘἨΙ ᾙἩΙ ᾚἪΙ ᾛἫΙ ᾜἬΙ ᾝἭΙ ᾞἮΙ ᾟἯΙ ᾠὨΙ ᾡὩΙ ᾢὪΙ ᾣὫΙ ᾤὬΙ ᾥὭΙ ᾦὮΙ ᾧὯΙ ᾨὨΙ " +
		"ᾩὩΙ ᾪὪΙ ᾫὫΙ ᾬὬΙ ᾭὭΙ ᾮὮΙ ᾯὯΙ ᾲᾺΙ ᾳΑΙ ᾴΆΙ ᾶΑ\u0342 ᾷΑ\u0342Ι ᾼΑΙ ῂῊΙ ῃΗΙ ῄΉΙ ῆΗ\u0342 ῇΗ\u0342Ι ῌΗΙ " +
		"ῒΙ\u0308\u0300 \u1fd3Ι\u0308\u0301 ῖΙ\u0342 ῗΙ\u0308\u0342 ῢΥ\u0308\u0300 \u1fe3Υ\u0308\u0301 ῤΡ\u0313 " +
		"ῦΥ\u0342 ῧΥ\u0308\u0342 ῲῺΙ ῳΩΙ ῴΏΙ ῶΩ\u0342 ῷΩ\u0342Ι ῼΩΙ ﬀFF ﬁFI ﬂFL ﬃFFI ﬄFFL ﬅST ﬆST ﬓՄՆ ﬔՄԵ ﬕՄԻ ﬖՎՆ " +
		"ﬗՄԽ")
	specialTitle = mapping("ßSs ևԵւ ᾲᾺ\u0345 ᾴΆ\u0345 ᾷΑ\u0342\u0345 ῂῊ\u0345 ῄΉ\u0345 ῇΗ\u0342\u0345 ῲῺ\u0345 ῴΏ\u0345 " +
		"ῷΩ\u0342\u0345 ﬀFf ﬁFi ﬂFl ﬃFfi ﬄFfl ﬅSt ﬆSt ﬓՄն ﬔՄե ﬕՄի ﬖՎն ﬗՄխ")
)

// mapping reads words, each of which is a letter followed by what it becomes.
func mapping(words string) map[rune]string {
	m := map[rune]string{}
	for w := range strings.FieldsSeq(words) {
		r, n := utf8.DecodeRuneInString(w)
		m[r] = w[n:]
	}
	return m
}

// mapRunes maps each character, which is at s[i:].
func mapRunes(s string, f func(i int, r rune) string) string {
	var b strings.Builder
	for i, r := range s {
		if r == 0xfffd && !strings.HasPrefix(s[i:], "\ufffd") {
			b.WriteByte(s[i]) // no UTF-8
			continue
		}
		b.WriteString(f(i, r))
	}
	return b.String()
}

func upper(s string) string { return mapRunes(s, func(_ int, r rune) string { return upperOf(r) }) }

func upperOf(r rune) string {
	if special, is := specialUpper[r]; is {
		return special
	}
	return string(unicode.ToUpper(r))
}

func lower(s string) string {
	return mapRunes(s, func(i int, r rune) string { return lowerAt(s, i, r) })
}

// lowerAt returns the lower case of r, which is at s[i:].
func lowerAt(s string, i int, r rune) string {
	switch r {
	case 'İ':
		return "i\u0307"
	case 'Σ':
		if finalSigma(s, i) {
			return "ς"
		}
	}
	return string(unicode.ToLower(r))
}

// finalSigma tells whether the sigma at s[i:] ends a word.
func finalSigma(s string, i int) bool {
	before, _ := utf8.DecodeLastRuneInString(strings.TrimRightFunc(s[:i], caseIgnorable))
	after, _ := utf8.DecodeRuneInString(strings.TrimLeftFunc(s[i+len("Σ"):], caseIgnorable))
	return cased(before) && !cased(after)
}

func caseIgnorable(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) ||
		strings.ContainsRune("'.:·\u0387՟״‘’․‧︓﹒﹕＇．：", r)
}

func titleOf(r rune) string {
	special, is := specialTitle[r]
	if is {
		return special
	}
	if t := unicode.ToTitle(r); t != r {
		return string(t)
	}
	if special, is = specialUpper[r]; is && !unicode.Is(unicode.Lt, r) {
		return special
	}
	return string(r)
}

func capitalize(s string) string {
	return mapRunes(s, func(i int, r rune) string {
		if i == 0 {
			return titleOf(r)
		}
		return lowerAt(s, i, r)
	})
}

// titleMethod is str.title: every letter after a non-letter is upper case.
func titleMethod(s string) string {
	inWord := false
	return mapRunes(s, func(i int, r rune) string {
		was := inWord
		inWord = cased(r)
		if was {
			return lowerAt(s, i, r)
		}
		return titleOf(r)
	})
}

func swapcase(s string) string {
	return mapRunes(s, func(i int, r rune) string {
		switch {
		case unicode.Is(unicode.Lt, r):
			return string(r)
		case notLower(r):
			return lowerAt(s, i, r)
		}
		return upperOf(r)
	})
}

// casefold does Unicode's full case folding: it returns the lower case of the upper case, except for the Turkish
// letters i, and for Cherokee, whose letters become upper case.
func casefold(s string) string {
	return mapRunes(s, func(_ int, r rune) string {
		switch {
		case r == 'ı' || r == 'İ':
			return lower(string(r))
		case unicode.Is(unicode.Cherokee, r):
			return string(unicode.ToUpper(r))
		}
		return strings.ToLower(upper(string(unicode.ToLower(r))))
	})
}

func isUpper(s string) bool { return hasCase(s) && strings.IndexFunc(s, notUpper) < 0 }
func isLower(s string) bool { return hasCase(s) && strings.IndexFunc(s, notLower) < 0 }
func hasCase(s string) bool { return strings.IndexFunc(s, cased) >= 0 }
func cased(r rune) bool     { return notUpper(r) || notLower(r) }
func notUpper(r rune) bool  { return unicode.In(r, unicode.Ll, unicode.Other_Lowercase, unicode.Lt) }
func notLower(r rune) bool  { return unicode.In(r, unicode.Lu, unicode.Other_Uppercase, unicode.Lt) }
