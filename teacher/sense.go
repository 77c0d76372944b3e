package teacher

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"restyle/voice"
)

// The limits of check A14. Real answers stay clear of each limit: docs/gen.md has the measured distances.
const (
	// minOrder is the lowest order of English prose (see [voice.Style.Order]) if the style has examples that show how it
	// speaks, and minAnyOrder if it has none.
	minOrder, minAnyOrder = -1.5, -3.0

	// maxRepeated is the largest share of runs of four words that occur earlier in the text.
	maxRepeated = 0.4

	// maxPeriod is the length of the longest phrase, in words, whose third repetition in a row is found.
	maxPeriod = 60

	// minEnglish is the smallest share of small words in an English text (see [voice.Text.English]).
	minEnglish = 0.2

	// minTies is the number of words that connect most answers with their questions (see candidate.loose).
	minTies = 2
)

// makesSense refuses text that cannot be an answer to anything: text that repeats itself, and words in an order that
// English sentences do not have. It understands nothing: fluent nonsense passes, unless it has no word of its
// question, which the ledger counts.
func makesSense(c *candidate) (bool, string) {
	text := c.said()
	if share := repeatedShare(text.Shingles(4)); share > maxRepeated {
		return false, fmt.Sprintf("it repeats itself: it has said %.0f%% of it before", 100*share)
	}
	if loops(text.Shingles(1)) {
		return false, "it says the same words three times in a row"
	}
	if share := text.English(); share < minEnglish {
		style := c.style.System + "\n\n" + strings.Join(c.style.Openers, "\n\n")
		if speaksEnglish(c.question+"\n\n"+c.parts.Prose()) && speaksEnglish(style) {
			return false, fmt.Sprintf("only %.0f%% of its words are such as the, of and is: write whole sentences", 100*share)
		}
		return true, "not English: only repetitions are counted"
	}
	limit := minOrder
	if len(c.style.Examples) == 0 {
		limit = minAnyOrder
	}
	order := c.style.Order(text)
	if order < limit {
		return false, fmt.Sprintf("its words are in no order that makes sentences (%.1f, wanted is at least %g)", order,
			limit)
	}
	return true, fmt.Sprintf("order %.1f, %d words of the question or the answer", order, c.ties())
}

// repeatedShare returns the share of hashes that are equal to an earlier one.
func repeatedShare(hashes []uint64) float64 {
	return float64(len(hashes)-len(distinct(hashes))) / float64(max(1, len(hashes)))
}

// loops reports whether at least three words in a row, given as hashes, occur three times without anything in
// between.
func loops(words []uint64) bool {
	for period := 3; period <= min(maxPeriod, len(words)/3); period++ {
		equal := 0
		for i := period; i < len(words); i++ {
			if words[i] != words[i-period] {
				equal = 0
			} else if equal++; equal == 2*period {
				return true
			}
		}
	}
	return false
}

// loose reports whether an English text has hardly a word of its English question or answer. In a style that speaks
// of its own world, some real answers have none of these words, but not most answers: the ledger counts them.
func (c *candidate) loose() bool {
	return c.ties() < minTies && c.said().English() >= minEnglish && speaksEnglish(c.question)
}

// englishWord matches words that are English and hardly ever in other languages.
var englishWord = regexp.MustCompile(`(?i)\b(?:the|of|and|to|is|are|that|with|how|what|which|this|from|your?|they|` +
	`their|have|when|than|can|its?|not|be|been|has|does|must|should|would|could)\b`)

func speaksEnglish(text string) bool {
	return englishWord.MatchString(text) && voice.Read(text).English() >= minEnglish
}

// helpWords has words for what any answer may be about, besides its question: programs, questions and where to look
// things up.
var helpWords = meanings(`code program function line documentation docs manual question ask request answer read problem
	solution script python programming programmer developer loop class method variable list string number example explain
	understand learn write written type keyboard computer software bug tutorial search`)

// ties returns how many different words connect the prose with the question and the answer, in any form, or around
// code with programs and questions as such.
func (c *candidate) ties() int {
	own := meanings(c.source + "\n" + c.parts.Prose())
	n := 0
	for stem := range meanings(c.prose) {
		if own[stem] || helpWords[stem] && !c.parts.restated {
			n++
		}
	}
	return n
}

// meanings returns the words of a text or of code that carry a meaning, each without its ending and cut to six
// letters. A name made of several words counts as these words.
func meanings(text string) map[string]bool {
	found := map[string]bool{}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\'' && r != '’'
	}) {
		for _, part := range camelWords(word) {
			part = strings.Trim(strings.ReplaceAll(strings.ToLower(part), "’", "'"), "'")
			if part == "" || voice.SmallWord(part) {
				continue
			}
			if stem := stemOf(part); utf8.RuneCountInString(stem) > 2 || '0' <= stem[0] && stem[0] <= '9' {
				found[cut(stem)] = true
			}
		}
	}
	return found
}

// cut returns the first six letters of a word.
func cut(word string) string {
	r := []rune(word)
	return string(r[:min(6, len(r))])
}

// stemOf returns a word as most of its forms begin: share for shares, shared and sharing.
func stemOf(word string) string {
	for _, end := range []struct {
		text string
		left int // letters that have to remain
	}{{"ing", 3}, {"ers", 5}, {"er", 5}, {"ed", 3}, {"es", 3}, {"s", 3}, {"ly", 3},
		{"ation", 3}, {"ions", 3}, {"ion", 3}} {
		if stem, ok := strings.CutSuffix(word, end.text); ok && len(stem) >= end.left {
			word = stem
			break
		}
	}
	if n := len(word); n > 3 {
		switch {
		case word[n-1] == 'e' || word[n-1] == word[n-2]:
			return word[:n-1]
		case word[n-1] == 'y':
			return word[:n-1] + "i"
		}
	}
	return word
}

// camelWords splits a name such as keepPrices at its capitals.
func camelWords(name string) []string {
	runes := []rune(name)
	if !slices.ContainsFunc(runes, unicode.IsLower) {
		return []string{name}
	}
	var words []string
	start := 0
	for i := 1; i < len(runes); i++ {
		if unicode.IsUpper(runes[i]) && unicode.IsLower(runes[i-1]) {
			words = append(words, string(runes[start:i]))
			start = i
		}
	}
	return append(words, string(runes[start:]))
}
