package teacher

import (
	"hash/fnv"
	"io"
	"strings"

	"restyle/voice"
)

// A Card is what was dealt to one row before anything was asked, so that variety neither depends on the order in which
// answers arrive nor is left to the teacher's taste.
type Card struct {
	Opener   string // the words to begin with
	Device   voice.Device
	Skeleton int // the built-in rewriter's order of blocks
	Words    int // the length to aim at, in words of prose
	Examples []int
}

// lengths are the numbers of words asked for: the band is the one that acceptance allows, less room to miss it.
var lengths = []int{45, 60, 80, 100, 120}

// A dealer deals the cards of a run's rows, in the source's order.
type dealer struct {
	style   *voice.Style
	seed    uint64
	rows    int   // how many cards were dealt
	openers []int // how often each of the style's openers was
	order   []int // the openers, shuffled by the seed
}

func newDealer(s *voice.Style, seed uint64) *dealer {
	d := &dealer{style: s, seed: seed, openers: make([]int, len(s.Openers))}
	for i := range s.Openers {
		d.order = append(d.order, whole(seed, 1, len(s.Openers), i))
	}
	return d
}

// card deals the card of the next row that is good enough to be asked about.
func (d *dealer) card(question string) Card {
	n, s := d.rows, d.style
	d.rows++
	c := Card{
		Opener:   s.Openers[d.opener(question)],
		Skeleton: deal(d.seed, 3, n, len(s.Skeletons)),
		Words:    lengths[deal(d.seed, 4, n, len(lengths))],
	}
	if len(s.Devices) > 0 {
		c.Device = s.Devices[deal(d.seed, 2, n, len(s.Devices))]
	}
	for len(c.Examples) < min(3, len(s.Examples)) {
		// Three different examples: the round-robin of one deck never repeats a card within half a round.
		c.Examples = append(c.Examples, deal(d.seed, 5, 3*n+len(c.Examples), len(s.Examples)))
	}
	return c
}

// openerMost is the share of the rows that one opener is dealt to at most; in a style with few openers it is a fifth more than
// an even share. That leaves room in the diversity budget for what is refused.
const openerMost = 0.025

// opener deals an opener by the words that the question begins with: the first of them, two where that would deal one opener
// too often, then three. What is left gets the opener that was dealt least. A model can learn what follows from the question,
// and answers different questions in different ways; openers dealt by chance teach it that all are as good, and then it takes
// the same one every time.
func (d *dealer) opener(question string) int {
	k := len(d.openers)
	most := max(2, int(max(openerMost, 1.2/float64(k))*float64(d.rows)))
	words := strings.Fields(strings.ToLower(question))
	for i := range min(3, len(words)) {
		h := fnv.New64a()
		io.WriteString(h, strings.Join(words[:i+1], " "))
		if o := int(mix(d.seed, 1, h.Sum64()) % uint64(k)); d.openers[o] < most {
			d.openers[o]++
			return o
		}
	}
	least := d.order[0]
	for _, o := range d.order {
		if d.openers[o] < d.openers[least] {
			least = o
		}
	}
	d.openers[least]++
	return least
}

// deal says which of k cards the nth row gets. Every k rows in turn get each card once, and the same card never comes
// back within k/2 rows, so neighbours differ even when rows between them were refused: a round is a shuffle of one
// half of the deck, then one of the other half.
func deal(seed, deck uint64, n, k int) int {
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
	key := mix(seed, deck, uint64(round), uint64(lo))
	for j := len(order) - 1; j > 0; j-- {
		key = mix(key, uint64(j))
		r := int(key % uint64(j+1))
		order[j], order[r] = order[r], order[j]
	}
	// The halves themselves are cut from one shuffle of the whole deck, so that they differ from seed to seed.
	return whole(seed, deck, k, order[i-lo])
}

// whole is the ith card of the deck as the seed shuffles it once.
func whole(seed, deck uint64, k, i int) int {
	cards := make([]int, k)
	for j := range cards {
		cards[j] = j
	}
	key := mix(seed, deck, 0xdecc)
	for j := k - 1; j > 0; j-- {
		key = mix(key, uint64(j))
		r := int(key % uint64(j+1))
		cards[j], cards[r] = cards[r], cards[j]
	}
	return cards[i]
}

// mix hashes words into one (splitmix64's finaliser, Steele et al. 2014). Our own few lines, because the committed
// dataset must keep its bytes whatever a library's shuffle does in its next version.
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
