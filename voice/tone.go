package voice

import (
	"fmt"
	"slices"
	"strings"
)

// A Tone is the score of a text's prose by a style's lexicon.
type Tone struct {
	Score   int      // the sum of the weights of the distinct cues
	Cues    []string // the distinct cues, as the lexicon spells them, in order of first occurrence
	Words   int      // words of prose, with inline code
	Density float64  // cues per 100 words, with repetitions
}

// Tone scores a text by the style's lexicon. Cues match whole words in any case, but not in inline code. Each distinct
// cue counts once in the score: ten times "sigh" is no more in the voice than once, but it raises the density.
func (s *Style) Tone(text Text) Tone {
	t := Tone{Words: len(text.words)}
	hits := 0
	s.lexicon.match(text.words, func(c *cue) bool {
		hits++
		for _, seen := range t.Cues {
			if seen == c.text {
				return true
			}
		}
		t.Cues = append(t.Cues, c.text)
		t.Score += c.weight
		return true
	})
	if t.Words > 0 {
		t.Density = 100 * float64(hits) / float64(t.Words)
	}
	return t
}

// Accepts returns nil if a tone meets the style's thresholds: words, score, distinct cues and density. Otherwise its
// error names the first threshold that the tone does not meet.
func (s *Style) Accepts(t Tone) error {
	switch {
	case t.Words < s.Words[0] || t.Words > s.Words[1]:
		return fmt.Errorf("words %d: %s requires %d to %d", t.Words, s.Name, s.Words[0], s.Words[1])
	case t.Score < s.MinScore:
		return fmt.Errorf("tone score %d: %s requires at least %d", t.Score, s.Name, s.MinScore)
	case len(t.Cues) < s.MinCues:
		return fmt.Errorf("distinct cues %d: %s requires at least %d", len(t.Cues), s.Name, s.MinCues)
	case t.Density < s.Density[0] || t.Density > s.Density[1]:
		return fmt.Errorf("cues per 100 words %.1f: %s requires %g to %g", t.Density, s.Name, s.Density[0], s.Density[1])
	}
	return nil
}

// repeated is the number of words in a row that an answer must not share with the system prompt: fewer coincide by
// chance.
const repeated = 5

// Repeats reports whether a text has five words in a row from the system prompt: then a model recites what it was
// told instead of doing it.
func (s *Style) Repeats(text Text) bool {
	return slices.ContainsFunc(text.Shingles(repeated), func(h uint64) bool { return s.told[h] })
}

// BannedIn returns the first banned word or phrase in a text, or "" if there is none. It allows words and phrases
// that occur in the sources, which the text restates: the name Moby-Dick, say.
func (s *Style) BannedIn(text Text, sources ...Text) string {
	given := map[*cue]bool{}
	for _, source := range sources {
		s.banned.match(source.words, func(c *cue) bool {
			given[c] = true
			return true
		})
	}
	found := ""
	s.banned.match(text.words, func(c *cue) bool {
		if given[c] {
			return true
		}
		found = c.text
		return false
	})
	return found
}

// A cue is one line of a lexicon.
type cue struct {
	text   string
	weight int
	words  []string
}

// A lexicon holds cues by their first word.
type lexicon map[string][]*cue

func (l lexicon) add(text string, weight int) {
	c := &cue{text: text, weight: weight}
	for _, t := range tokens(text, -1) {
		c.words = append(c.words, t.word)
	}
	l[c.words[0]] = append(l[c.words[0]], c)
}

// match calls found for every cue in ts until found returns false.
func (l lexicon) match(ts []token, found func(*cue) bool) {
	for i, t := range ts {
		if t.code {
			continue
		}
		for _, c := range l[t.word] {
			if startsWith(ts[i:], c.words) && !found(c) {
				return
			}
		}
	}
}

func startsWith(ts []token, words []string) bool {
	if len(ts) < len(words) {
		return false
	}
	for i, w := range words {
		if ts[i].code || ts[i].word != w {
			return false
		}
	}
	return true
}

// has reports whether the lexicon has a cue of exactly these words.
func (l lexicon) has(text string) bool {
	ts := tokens(text, -1)
	if len(ts) == 0 {
		return false
	}
	for _, c := range l[ts[0].word] {
		if len(c.words) == len(ts) && startsWith(ts, c.words) {
			return true
		}
	}
	return false
}

// cleanLine returns a line with single spaces in place of its white space.
func cleanLine(s string) string { return strings.Join(strings.Fields(s), " ") }
