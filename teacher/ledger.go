package teacher

import (
	"fmt"
	"slices"

	"restyle/voice"
)

// The diversity budget: the largest share of the accepted rows that may have the same …
const (
	openerShare  = 0.10 // … first two words, or the same device
	firstShare   = 0.05 // … first five words
	shingleShare = 0.08 // … five words in a row, anywhere in the prose
	looseShare   = 0.50 // … lack of any tie to their question (see candidate.loose)
	// The style sets the shares that may have the same sentence, or eight words in a row.
)

// A ledger counts what the accepted rows say. It refuses a row that would make the dataset say something too often,
// or that nearly repeats one row. Shares refer to the rows accepted so far, so that they hold whenever the run ends.
// Among the first rows, when a share means nothing, two or three uses are free, and up to ten uses of a sentence or a
// run of eight words as long as they are at most 3% of the rows. The time and memory that a row takes do not depend
// on the number of rows before it. A ledger must not be used by several goroutines at once: its verdicts depend on
// the order of the rows.
type ledger struct {
	rows, loose                                         int
	sentenceShare, runShare                             float64
	openers, devices, firsts, sentences, shingles, runs tally
	texts                                               copies
}

// newLedger returns an empty ledger for rows in a style.
func newLedger(s *voice.Style) *ledger {
	return &ledger{
		sentenceShare: s.Repeat[0] / 100, runShare: s.Repeat[1] / 100,
		openers: newTally(maxTallied), devices: newTally(maxTallied), firsts: newTally(maxTallied),
		sentences: newTally(maxTallied), shingles: newTally(maxTallied), runs: newTally(maxTallied),
	}
}

// budget returns the number of rows, out of n, that may have something in common.
func budget(share float64, n, free int) int { return max(free, int(share*float64(n))) }

// A said holds what the ledger compares between rows.
type said struct {
	opener, device, first string
	loose                 bool     // it has nothing to do with its question
	sentences             []string // distinct
	shingles              []uint64 // distinct, in ascending order
	runs                  []uint64 // of eight words, distinct
	bands                 [bands]uint32
}

// saidIn returns what the ledger compares between rows, from a row's prose and the device assigned to it.
func saidIn(prose voice.Text, device string) said {
	s := said{
		opener: prose.Opener(), device: device, first: prose.FirstFive(),
		sentences: distinct(prose.Sentences()), shingles: prose.Shingles(5), runs: distinct(prose.Shingles(8)),
	}
	slices.Sort(s.shingles)
	s.shingles = slices.Compact(s.shingles)
	s.bands = signature(s.shingles)
	return s
}

// without returns s without what another text says as well.
func (s said) without(other said) said {
	s.sentences = slices.DeleteFunc(s.sentences, func(x string) bool { return slices.Contains(other.sentences, x) })
	s.runs = slices.DeleteFunc(s.runs, func(x uint64) bool { return slices.Contains(other.runs, x) })
	s.shingles = slices.DeleteFunc(s.shingles, func(x uint64) bool { return slices.Contains(other.shingles, x) })
	s.bands = signature(s.shingles)
	return s
}

// admit records what a row says if the budget allows it. If not, it records nothing and returns the rule that the row
// breaks, in words for the teacher.
func (l *ledger) admit(s said) (refusal string) {
	if refusal := l.excess(s, 1); refusal != "" {
		return refusal
	}
	if !l.texts.admit(s.shingles, s.bands) {
		return nearCopy
	}
	l.record(s)
	return ""
}

const nearCopy = "it is nearly the same text as an earlier answer"

// excess returns what more rows than the budget allows would have in common if added more rows said s, or "" if there
// is nothing.
func (l *ledger) excess(s said, added int) string {
	over := func(t *tally, hash uint64, share float64, free int) bool {
		return t.count(hash)+added > budget(share, l.rows+added, free)
	}
	if over(&l.openers, hashOf(s.opener), openerShare, 3) {
		return fmt.Sprintf("too many answers already open with %q", s.opener)
	}
	if s.device != "" && over(&l.devices, hashOf(s.device), openerShare, 3) {
		return fmt.Sprintf("too many answers already use the device %q", s.device)
	}
	if over(&l.firsts, hashOf(s.first), firstShare, 2) {
		return fmt.Sprintf("too many answers already begin %q", s.first)
	}
	if s.loose && l.loose+added > budget(looseShare, l.rows+added, 3) {
		return "it has nothing to do with the question, as too many answers: mention what was asked"
	}
	free := min(10, budget(0.03, l.rows+added, 2))
	for _, sentence := range s.sentences {
		if over(&l.sentences, hashOf(sentence), l.sentenceShare, free) {
			return fmt.Sprintf("too many answers already contain the sentence %q", sentence)
		}
	}
	for _, run := range s.runs {
		if over(&l.runs, run, l.runShare, free) {
			return "too many answers already share a run of eight words with this one"
		}
	}
	for _, shingle := range s.shingles {
		if over(&l.shingles, shingle, shingleShare, 3) {
			return "too many answers already share a run of five words with this one"
		}
	}
	return ""
}

// record counts what an accepted row says.
func (l *ledger) record(s said) {
	l.rows++
	if s.loose {
		l.loose++
	}
	l.openers.add(hashOf(s.opener))
	l.devices.add(hashOf(s.device))
	l.firsts.add(hashOf(s.first))
	for _, sentence := range s.sentences {
		l.sentences.add(hashOf(sentence))
	}
	for _, shingle := range s.shingles {
		l.shingles.add(shingle)
	}
	for _, run := range s.runs {
		l.runs.add(run)
	}
}

// distinct returns the list without repetitions, in order.
func distinct[T comparable](list []T) []T {
	seen := make(map[T]bool, len(list))
	out := list[:0:0]
	for _, x := range list {
		if !seen[x] {
			seen[x] = true
			out = append(out, x)
		}
	}
	return out
}
