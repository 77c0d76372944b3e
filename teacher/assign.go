package teacher

import (
	"hash/fnv"
	"io"
	"regexp"
	"slices"
	"strings"

	"restyle/voice"
)

// An Assignment is what a row has to use: its opener, device, skeleton, length and few-shot examples. It is made before
// any request, so that variety depends neither on the order in which answers arrive nor on the teacher's taste.
type Assignment struct {
	Opener   string // the words to start with
	Device   voice.Device
	Skeleton int   // index into the style's Skeletons: the built-in rewriter's order of blocks
	Words    int   // target length, in words of prose
	Examples []int // indices into the style's Examples
}

// lengths are the target lengths, in words: the band that A9 accepts, with a margin on both sides.
var lengths = []int{45, 60, 80, 100, 120}

// The choices for a row. Each has its own random sequence.
const (
	openerChoice uint64 = 1 + iota
	deviceChoice
	skeletonChoice
	lengthChoice
	exampleChoice
)

// An assigner makes the assignments of a run's rows, in the source's order.
type assigner struct {
	style   *voice.Style
	seed    uint64
	rows    int   // assignments made
	openers []int // number of rows that got each of the style's openers
	order   []int // the openers' indices, shuffled by the seed
}

func newAssigner(s *voice.Style, seed uint64) *assigner {
	a := &assigner{style: s, seed: seed, openers: make([]int, len(s.Openers))}
	for i := range s.Openers {
		a.order = append(a.order, shuffled(seed, openerChoice, len(s.Openers), i))
	}
	return a
}

// next makes the assignment of the next row whose source passed its checks.
func (a *assigner) next(question string) Assignment {
	n, s := a.rows, a.style
	a.rows++
	out := Assignment{
		Opener:   s.Openers[a.opener(question)],
		Skeleton: rotate(a.seed, skeletonChoice, n, len(s.Skeletons)),
		Words:    lengths[rotate(a.seed, lengthChoice, n, len(lengths))],
	}
	if len(s.Devices) > 0 {
		out.Device = s.Devices[rotate(a.seed, deviceChoice, n, len(s.Devices))]
	}
	for len(out.Examples) < min(3, len(s.Examples)) {
		// The three differ: rotate repeats nothing within half a round.
		out.Examples = append(out.Examples, rotate(a.seed, exampleChoice, 3*n+len(out.Examples), len(s.Examples)))
	}
	return out
}

// ofCode matches devices that only an answer with code can use.
var ofCode = regexp.MustCompile(`(?i)\b(?:code|lines?|loops?|functions?|programs?|variables?|statements?)\b`)

// restate is next for an answer in prose. Its device needs no code, and the voice's words come in addition to the
// answer's own.
func (a *assigner) restate(question, answer string) Assignment {
	n, s := a.rows, a.style
	out := a.next(question)
	devices := slices.DeleteFunc(slices.Clone(s.Devices), func(d voice.Device) bool {
		return ofCode.MatchString(d.Instruction)
	})
	out.Device = voice.Device{}
	if len(devices) > 0 {
		out.Device = devices[rotate(a.seed, deviceChoice, n, len(devices))]
	}
	out.Words = min(len(strings.Fields(answer))+out.Words/2, s.Words[1]*9/10)
	return out
}

// maxOpener is the largest share of the rows to which one opener is assigned; in a style with few openers the limit
// is 1.2 times an even share. The diversity budget allows a larger share, so that refused rows do not exhaust it.
const maxOpener = 0.025

// opener returns the index of the opener for a question. The question's first word decides; if that opener has used
// up its quota, the first two words decide, then the first three; if all three have, the question gets the opener
// that was assigned least. A model can learn which opener follows which question, and so it answers different
// questions differently. Random openers would teach the model that all are equally good, and it would always use the
// same one.
func (a *assigner) opener(question string) int {
	k := len(a.openers)
	quota := max(2, int(max(maxOpener, 1.2/float64(k))*float64(a.rows)))
	words := strings.Fields(strings.ToLower(question))
	for i := range min(3, len(words)) {
		h := fnv.New64a()
		io.WriteString(h, strings.Join(words[:i+1], " "))
		if o := int(mix(a.seed, openerChoice, h.Sum64()) % uint64(k)); a.openers[o] < quota {
			a.openers[o]++
			return o
		}
	}
	least := a.order[0]
	for _, o := range a.order {
		if a.openers[o] < a.openers[least] {
			least = o
		}
	}
	a.openers[least]++
	return least
}

// rotate returns which of k values the nth row gets. In every k rows each value occurs once, and no value recurs
// within k/2 rows, so that neighbors differ even if rows between them are refused: a round is a shuffle of one half
// of the values, then one of the other half.
func rotate(seed, choice uint64, n, k int) int {
	if k == 0 {
		return 0 // a style without a phrase bank has no skeletons
	}
	round, i := n/k, n%k
	half := k / 2
	lo, hi := 0, half
	if i >= half {
		lo, hi = half, k
	}
	order := make([]int, 0, hi-lo)
	for j := lo; j < hi; j++ {
		order = append(order, j)
	}
	key := mix(seed, choice, uint64(round), uint64(lo))
	for j := len(order) - 1; j > 0; j-- {
		key = mix(key, uint64(j))
		r := int(key % uint64(j+1))
		order[j], order[r] = order[r], order[j]
	}
	// The halves come from one shuffle of all values, so that they differ from seed to seed.
	return shuffled(seed, choice, k, order[i-lo])
}

// shuffled returns the ith of the numbers below k in the seed's order.
func shuffled(seed, choice uint64, k, i int) int {
	order := make([]int, k)
	for j := range order {
		order[j] = j
	}
	key := mix(seed, choice, 0xdecc)
	for j := k - 1; j > 0; j-- {
		key = mix(key, uint64(j))
		r := int(key % uint64(j+1))
		order[j], order[r] = order[r], order[j]
	}
	return order[i]
}

// mix hashes words into one (splitmix64's finalizer, Steele et al. 2014). It is written out here because the committed
// dataset must keep its bytes even if a library changes its shuffle.
func mix(words ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, w := range words {
		h += w + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}
