package teacher

import "slices"

// copies finds rows that have nearly the text of an earlier one, in time that does not grow with the number of rows.
//
// Each row has bands of bandWidth minima: the smallest values that so many hash functions take on its shingles. Two rows
// agree in a minimum with the probability of their Jaccard index J (Broder, "On the resemblance and containment of
// documents", 1997), and in a band with J³. Two that agree in two bands are compared shingle by shingle, so no row is taken
// for a copy that is none. Of the pairs that share just half of their shingles one in 30 is missed, of those that share 60 %
// one in 1,400, of those that share 70 % one in 900,000. Agreement in one band alone is too frequent: among rows of stock
// phrases it is chance.
type copies struct {
	heads  [bands][]int32 // by a hash of the band's minima: the latest row with it, from 1; 0 for none
	next   [bands][]int32 // of each row: the row before it with the same hash, from 1; 0 for none
	met    []meeting      // of each row
	prints [][]uint32     // of each row: 32 bits of each shingle, in ascending order
	asked  int32          // how often admit was called
}

// A meeting is of a row with the latest that was asked about. It stands apart from all else, so that the chains, which are
// walked for every row, stay in the processor's caches.
type meeting struct{ asked, agrees int32 }

const (
	bands     = 40
	bandWidth = 3
	slots     = 1 << 17 // hashes of a band
	maxChain  = 256     // rows with the same hash of a band that are met, the latest first
)

// minimum holds the odd factors of the hash functions, high bits of a product each (Dietzfelbinger et al. 1997).
var minimum = func() (factors [bands * bandWidth]uint64) {
	for i := range factors {
		factors[i] = mix(0x5b1d, uint64(i)) | 1
	}
	return factors
}()

// signature returns the slot of each band.
func signature(shingles []uint64) (slot [bands]uint32) {
	for b := range slot {
		var low [bandWidth]uint64
		for i := range low {
			factor := minimum[b*bandWidth+i]
			low[i] = ^uint64(0)
			for _, s := range shingles {
				low[i] = min(low[i], s*factor)
			}
		}
		slot[b] = uint32(mix(low[0], low[1], low[2]) % slots)
	}
	return slot
}

// admit adds a row with these different shingles and their signature, unless an earlier row is nearly the same.
func (c *copies) admit(shingles []uint64, at [bands]uint32) bool {
	if len(shingles) == 0 {
		return true
	}
	prints := make([]uint32, len(shingles))
	for i, s := range shingles {
		prints[i] = uint32(s)
	}
	slices.Sort(prints)
	c.asked++
	var before [bands]int32
	for b, slot := range at {
		if c.heads[b] == nil {
			c.heads[b] = make([]int32, slots)
		}
		before[b] = c.heads[b][slot]
		for i, n := before[b], 0; i > 0 && n < maxChain; n++ {
			other := &c.met[i-1]
			if other.asked != c.asked {
				*other = meeting{asked: c.asked}
			}
			if other.agrees++; other.agrees == 2 && alike(prints, c.prints[i-1]) {
				return false
			}
			i = c.next[b][i-1]
		}
	}
	c.prints, c.met = append(c.prints, prints), append(c.met, meeting{})
	for b, slot := range at {
		c.next[b] = append(c.next[b], before[b])
		c.heads[b][slot] = int32(len(c.met))
	}
	return true
}

// alike tells whether two sorted lists have half of what is in either in common: a Jaccard index of at least 1/2. Then at
// most a third of both lists together is in one of them only.
func alike(a, b []uint32) bool {
	left := (len(a) + len(b)) / 3
	for len(a) > 0 && len(b) > 0 && left >= 0 {
		switch {
		case a[0] == b[0]:
			a, b = a[1:], b[1:]
		case a[0] < b[0]:
			a = a[1:]
			left--
		default:
			b = b[1:]
			left--
		}
	}
	return len(a)+len(b) <= left
}
