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
	maxJaccard    = 0.50 // and the overlap of five-word shingles at which two rows count as one
)

// A Ledger holds what the accepted rows have said, and refuses a row that would make the set say it too often. Shares
// are of the rows accepted so far, so that they hold at whatever row the run ends; while there are too few rows for a
// share to mean anything, two or three uses are free. It is not safe for concurrent use: rows are admitted in the
// source's order by one goroutine, which is what makes its verdicts repeatable.
type Ledger struct {
	rows      int
	openers   map[string]int
	devices   map[string]int
	firsts    map[string]int
	sentences map[string]int

	// An inverted index from shingle to the rows that have it, as linked lists in two flat slices: a slice a shingle
	// would cost three words each, and there are some sixty new shingles a row.
	shingles map[uint64]posting
	row      []int32
	next     []int32
	size     []int32 // shingles of each accepted row
	shared   []int32 // scratch: shingles in common with each accepted row
}

type posting struct{ head, count int32 }

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{
		openers: map[string]int{}, devices: map[string]int{}, firsts: map[string]int{}, sentences: map[string]int{},
		shingles: map[uint64]posting{},
	}
}

// budget is how many of n rows may share a thing.
func budget(share float64, n, free int) int { return max(free, int(share*float64(n))) }

// Admit records the prose of a row, and the device it was dealt, if the budget allows them. If not it records nothing
// and says which rule they break in words that a teacher can act on.
func (l *Ledger) Admit(prose, device string) (refusal string) {
	n := l.rows + 1
	opener, first := voice.Opener(prose), voice.FirstFive(prose)
	if l.openers[opener] >= budget(openerShare, n, 3) {
		return fmt.Sprintf("too many answers already open with %q", opener)
	}
	if device != "" && l.devices[device] >= budget(openerShare, n, 3) {
		return fmt.Sprintf("too many answers already use the device %q", device)
	}
	if l.firsts[first] >= budget(firstShare, n, 2) {
		return fmt.Sprintf("too many answers already begin %q", first)
	}
	sentences := distinct(voice.Sentences(prose))
	for _, s := range sentences {
		if l.sentences[s] >= budget(sentenceShare, n, 2) {
			return fmt.Sprintf("too many answers already contain the sentence %q", s)
		}
	}
	shingles := distinct(voice.Shingles(prose, 5))
	if refusal := l.overlap(shingles, n); refusal != "" {
		return refusal
	}

	l.openers[opener]++
	l.devices[device]++
	l.firsts[first]++
	for _, s := range sentences {
		l.sentences[s]++
	}
	for _, s := range shingles {
		p, ok := l.shingles[s]
		if !ok {
			p.head = -1
		}
		l.row = append(l.row, int32(l.rows))
		l.next = append(l.next, p.head)
		l.shingles[s] = posting{head: int32(len(l.row) - 1), count: p.count + 1}
	}
	l.size = append(l.size, int32(len(shingles)))
	l.shared = append(l.shared, 0)
	l.rows = n
	return ""
}

// overlap refuses shingles that are too common, and rows that share too many of them with one accepted row.
func (l *Ledger) overlap(shingles []uint64, n int) (refusal string) {
	var touched []int32
	for _, s := range shingles {
		p, ok := l.shingles[s]
		if !ok {
			continue
		}
		if int(p.count) >= budget(shingleShare, n, 3) {
			refusal = "too many answers already share a run of five words with this one"
			break
		}
		for i := p.head; i >= 0; i = l.next[i] {
			if l.shared[l.row[i]]++; l.shared[l.row[i]] == 1 {
				touched = append(touched, l.row[i])
			}
		}
	}
	for _, r := range touched {
		common := int(l.shared[r])
		l.shared[r] = 0
		if union := len(shingles) + int(l.size[r]) - common; refusal == "" && float64(common) >= maxJaccard*float64(union) {
			refusal = "it is nearly the same text as an earlier answer"
		}
	}
	return refusal
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
