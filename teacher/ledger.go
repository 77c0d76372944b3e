package teacher

import (
	"fmt"

	"restyle/voice"
)

// The diversity budget: the share of the accepted rows that may have the same …
const (
	openerShare   = 0.10 // … first two words, or the same device
	firstShare    = 0.05 // … first five words
	sentenceShare = 0.03 // … sentence of the prose
	shingleShare  = 0.08 // … five words in a row, anywhere in the prose
)

// A Ledger holds what the accepted rows have said, and refuses a row that would make the set say it too often, or that
// nearly repeats one row. Shares are of the rows accepted so far, so that they hold at whatever row the run ends; while there
// are too few rows for a share to mean anything, two or three uses are free. What a row costs, in time and memory, does not
// depend on how many were accepted before it. A Ledger is not safe for concurrent use: rows are admitted in the source's
// order by one goroutine, which is what makes its verdicts repeatable.
type Ledger struct {
	rows                                          int
	openers, devices, firsts, sentences, shingles tally
	texts                                         copies
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{
		openers: newTally(maxTallied), devices: newTally(maxTallied), firsts: newTally(maxTallied),
		sentences: newTally(maxTallied), shingles: newTally(maxTallied),
	}
}

// budget is how many of n rows may share a thing.
func budget(share float64, n, free int) int { return max(free, int(share*float64(n))) }

// Admit records the prose of a row, and the device it was dealt, if the budget allows them. If not it records nothing
// and says which rule they break in words that a teacher can act on.
func (l *Ledger) Admit(prose, device string) (refusal string) {
	n := l.rows + 1
	opener, first := voice.Opener(prose), voice.FirstFive(prose)
	openerHash, deviceHash, firstHash := hashOf(opener), hashOf(device), hashOf(first)
	if l.openers.count(openerHash) >= budget(openerShare, n, 3) {
		return fmt.Sprintf("too many answers already open with %q", opener)
	}
	if device != "" && l.devices.count(deviceHash) >= budget(openerShare, n, 3) {
		return fmt.Sprintf("too many answers already use the device %q", device)
	}
	if l.firsts.count(firstHash) >= budget(firstShare, n, 2) {
		return fmt.Sprintf("too many answers already begin %q", first)
	}
	sentences := distinct(voice.Sentences(prose))
	for _, s := range sentences {
		if l.sentences.count(hashOf(s)) >= budget(sentenceShare, n, 2) {
			return fmt.Sprintf("too many answers already contain the sentence %q", s)
		}
	}
	shingles := distinct(voice.Shingles(prose, 5))
	for _, s := range shingles {
		if l.shingles.count(s) >= budget(shingleShare, n, 3) {
			return "too many answers already share a run of five words with this one"
		}
	}
	if !l.texts.admit(shingles) {
		return "it is nearly the same text as an earlier answer"
	}

	l.rows = n
	l.openers.add(openerHash)
	l.devices.add(deviceHash)
	l.firsts.add(firstHash)
	for _, s := range sentences {
		l.sentences.add(hashOf(s))
	}
	for _, s := range shingles {
		l.shingles.add(s)
	}
	return ""
}

// distinct drops repetitions, keeping the order.
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
