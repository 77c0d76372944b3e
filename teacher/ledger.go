package teacher

import (
	"fmt"
	"slices"

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

// A said is what a row says, as far as the ledger compares it.
type said struct {
	opener, device, first string
	sentences             []string // different ones
	shingles              []uint64 // different ones, in ascending order
	bands                 [bands]uint32
}

// saidIn looks at the prose of a row and the device assigned to it.
func saidIn(prose voice.Text, device string) said {
	s := said{
		opener: prose.Opener(), device: device, first: prose.FirstFive(),
		sentences: distinct(prose.Sentences()), shingles: prose.Shingles(5),
	}
	slices.Sort(s.shingles)
	s.shingles = slices.Compact(s.shingles)
	s.bands = signature(s.shingles)
	return s
}

// Admit records what a row says if the budget allows it. If not it records nothing and says which rule the row breaks in
// words that a teacher can act on.
func (l *Ledger) Admit(s said) (refusal string) {
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

// excess returns which thing more rows than the budget allows have in common with s, "" if none, should so many rows that
// say s be added.
func (l *Ledger) excess(s said, added int) string {
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
	for _, sentence := range s.sentences {
		if over(&l.sentences, hashOf(sentence), sentenceShare, 2) {
			return fmt.Sprintf("too many answers already contain the sentence %q", sentence)
		}
	}
	for _, shingle := range s.shingles {
		if over(&l.shingles, shingle, shingleShare, 3) {
			return "too many answers already share a run of five words with this one"
		}
	}
	return ""
}

func (l *Ledger) record(s said) {
	l.rows++
	l.openers.add(hashOf(s.opener))
	l.devices.add(hashOf(s.device))
	l.firsts.add(hashOf(s.first))
	for _, sentence := range s.sentences {
		l.sentences.add(hashOf(sentence))
	}
	for _, shingle := range s.shingles {
		l.shingles.add(shingle)
	}
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
