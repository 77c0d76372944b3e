package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/internal/hostile"
	"restyle/internal/linear"
)

// preTokens returns the pre-tokens of a text.
func preTokens(splits []splitter, text string) (list []string) {
	if len(splits) == 0 {
		return []string{text}
	}
	for text != "" {
		n := splits[0](classes(), text)
		list, text = append(list, preTokens(splits[1:], text[:n])...), text[n:]
	}
	return list
}

// splitRow is a row of testdata/splits.jsonl: texts, or what a pre-tokenizer makes of them.
type splitRow struct {
	Texts        []string
	Name         string
	PreTokenizer json.RawMessage `json:"pre_tokenizer"`
	Cuts         [][]int
	CodePoints   string `json:"code_points"`
}

// TestPublishedSplits compares the pre-tokenizers of published models with tokenizers (testdata/make_splits.py), on
// texts and on many code points.
func TestPublishedSplits(t *testing.T) {
	var texts []string
	expect.Lines(t, "testdata/splits.jsonl", func(_ int, row splitRow) {
		if row.Texts != nil {
			texts = row.Texts
			return
		}
		tok := mustParse(t, with(t, "bytelevel.json", "pre_tokenizer", string(row.PreTokenizer)))
		lengths := func(text string) (list []int) {
			for _, p := range preTokens(tok.splits, text) {
				list = append(list, len(p))
			}
			return list
		}
		for i, text := range texts {
			if got := lengths(text); !slices.Equal(got, row.Cuts[i]) {
				t.Errorf("%s: %q: pre-tokens of %v bytes, want %v", row.Name, text, got, row.Cuts[i])
			}
		}
		sum := sha256.New()
		for r := rune(0); r <= 0x10FFFF; r++ {
			if r >= 0x3100 && (r-0x3100)%61 != 0 || 0xD800 <= r && r <= 0xDFFF {
				continue
			}
			list := fmt.Sprint(lengths(fmt.Sprintf("a%cB %c%c1", r, r, r)))
			fmt.Fprintln(sum, strings.Trim(list, "[]"))
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != row.CodePoints {
			t.Errorf("%s: the pre-tokens around single code points differ", row.Name)
		}
		// Text of one kind of character, and of two, must not take more than linear time.
		for _, unit := range []string{"U", "l", "ʰ", "1", " ", "\n ", "\n", "!", "中", "\u0301", "\x00", "'", "U1", " !",
			"\x00 ", "Ul"} {
			linear.Test(t, fmt.Sprintf("%s: %q", row.Name, unit), 500, func(n int) {
				preTokens(tok.splits, strings.Repeat(unit, n)+"x")
			})
		}
	})
}

// TestRegexLikeByHand splits with the patterns that split.go implements by hand, by hand and as regular expressions.
func TestRegexLikeByHand(t *testing.T) {
	texts := variantTexts(t)
	expect.Lines(t, "testdata/splits.jsonl", func(_ int, row splitRow) { texts = append(texts, row.Texts...) })
	for pattern, split := range patterns {
		x, err := parseRegex(pattern, newCharSets())
		if pattern == trailingPattern || strings.HasPrefix(pattern, "'(?:") { // which parseRegex does not read
			if err == nil {
				t.Errorf("%s: read", pattern)
			}
			continue
		}
		if err != nil || !x.matchesAll() {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		for _, text := range texts {
			if got, want := preTokens([]splitter{x.split}, text), preTokens([]splitter{split}, text); !slices.Equal(got, want) {
				t.Errorf("%s: %q: %q, by hand %q", pattern, text, got, want)
			}
		}
	}
}

//nolint:lll // patterns and what is wrong with them
func TestRegexRefuses(t *testing.T) {
	for pattern, says := range map[string]string{
		``: "matches nothing", `a|`: "matches nothing", `a?|b`: "matches nothing", `(?!\S)`: "matches nothing", `\w+`: `\w`,
		`a(b)`: "(b)", `^a`: "^a", `a$`: "$", `a.`: ".", `a+?`: "quantifier", `a{0,2}`: "{0,2}", `a{2,}`: "{2,}",
		`a{1,99}`:  "{1,99}",
		`\p{Han}+`: `\p{Han}`, `\P{L}`: `\P`, `[a-z&&b]`: "&&", `[]a]`: "begins with", `[^]`: "begins with",
		`[[:alpha:]]`: "begins with",
		`[a[^b]]`:     "begins with", `[z-a]`: "from 'z' to 'a'", `[a`: "a class before", `[a\`: "backslash",
		`[a-\`:   "backslash",
		`(?i:x)`: "(?i:x)", `\x41`: `\x`,
		`a*b|a`: "for nothing", `\s+$`: "$", `a+b|c|a+`: "for nothing", `a*bc|a+`: "for nothing", `x?a*b|a+`: "for nothing",
		`a|b*c|b`: "alternative 2 may read much", `a|b*c`: "alternative 2 may read much",
		`b*cd|b+`: "alternative 1 may read", `a{1,10}`: "{1,10}",
		`a{2,1}`: "{2,1}", `a{x}`: "{x}", `a**`: "quantifier",
		`a{1,9}b{1,9}c{1,9}`: "alternative 1 may try more than 100", `ab|b*c|`: "nothing",
		`[ab][ac][ad][ae][af][ag][ah][ai][aj][ak][al][am][an][ao][ap][aq]`: "more than 16",
	} {
		if _, err := parseRegex(pattern, newCharSets()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", pattern, err, says)
		}
	}
}

// TestRegexMatches compares the length of a match with that of Rust's regexes: the first alternative that matches,
// with characters given back one by one, down to the least number.
func TestRegexMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          int
	}{
		{`a{1,3}ab|x`, "aab", 3}, {`a{1,3}ab|x`, "aaaab", 5}, {`a{1,3}ab|x`, "aaaaab", 0}, {`a{2,3}ab|x`, "aab", 0},
		{`a{2,3}ab|x`, "aaab", 4},
		{`a{2}|x`, "aaa", 2}, {`a{2}|x`, "a", 0}, {`a{1,9}|x`, "aaaaaaaaaa", 9}, {`a?ab|x`, "ab", 2},
		{`a?ab|x`, "aab", 3}, {`a?+ab|x`, "ab", 0},
		{`a+b*|x`, "aab", 3}, {`a++b?|x`, "aaa", 3}, {`[a-c]+|x`, "abcd", 3}, {`[^a-c]+|x`, "dea", 2},
		{`[ab-]+|x`, "a-bc", 3},
		{`[a[bc]d]+|x`, "abcde", 4}, {`b|ab|a`, "ab", 2}, {`\p{Lu}\p{Ll}+|x`, "Abc", 3}, {`\p{Lu}\p{Ll}+|x`, "ABc", 0},
		{`\s+(?!\S)|\s+`, "  a", 1}, {`\s+(?!\S)|\s+`, "  ", 2}, {`\s+(?!\S)|\s+`, " a", 1},
		{`\s*[\r\n]+|\s+`, " \n a", 2}, {`\n\r\t\.|x`, "\n\r\t.", 4},
	} {
		x, err := parseRegex(c.pattern, newCharSets())
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		if got := x.match(c.text); got != c.want {
			t.Errorf("%s on %q: %d, want %d", c.pattern, c.text, got, c.want)
		}
	}
	for pattern, want := range map[string]bool{`[^a]|[a]`: true, `[^a]`: false, `\s|[^\s]`: true, `\s|\p{L}`: false,
		`[^a]b|a`:      false,
		`[^a]b?|[a]b*`: true, `[^a]{2}|a`: false} {
		x, err := parseRegex(pattern, newCharSets())
		if err != nil || x.matchesAll() != want {
			t.Errorf("%s: %v, want %v", pattern, err, want)
		}
	}
}

// FuzzRegex checks that what parseRegex accepts splits all of a text, in linear time.
func FuzzRegex(f *testing.F) {
	for _, pattern := range []string{Llama3Pattern, `\s*[\r\n]+|\s+(?!\S)|\s+`, `[^[a-c]\p{Lu}]?b*c+|b+`, `a++b{1,3}`} {
		f.Add(pattern, "abc B\n  ccc")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		sets := newCharSets()
		x, err := hostile.Parse(t, pattern, func(pattern string) (*regex, error) { return parseRegex(pattern, sets) })
		if err != nil || len(pattern) > 100 || len(text) > 200 {
			return
		}
		if got := strings.Join(preTokens([]splitter{x.split}, text), ""); got != text {
			t.Errorf("%q became %q", text, got)
		}
		after := *x
		after.sets = x.sets.ofBytes()
		if got := strings.Join(preTokens([]splitter{after.split}, text), ""); got != text {
			t.Errorf("%q became %q after ByteLevel", text, got)
		}
	})
}
