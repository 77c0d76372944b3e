package teacher

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
	prints shelf          // of each row: 32 bits of each shingle, in ascending order

	// The chains are walked for every row, and what is touched on the way has to stay in the processor's caches: so a count
	// takes a byte, and apart from the walk all of them are 0.
	agrees []uint8 // of each row: bands in which the row that is asked about agrees with it
	met    []int32 // rows whose count is not 0
}

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

// admit adds a row with these different shingles, in ascending order, and their signature, unless an earlier row is nearly the
// same.
func (c *copies) admit(shingles []uint64, at [bands]uint32) bool {
	if len(shingles) == 0 {
		return true
	}
	var before [bands]int32
	for b, slot := range at {
		if c.heads[b] == nil {
			c.heads[b] = make([]int32, slots)
		}
		before[b] = c.heads[b][slot]
	}
	prints := c.prints.room(len(shingles))
	for i, s := range shingles {
		prints[i] = uint32(s >> 32)
	}
	if c.known(prints, before) {
		return false
	}
	c.prints.keep(prints)
	c.agrees = append(c.agrees, 0)
	for b, slot := range at {
		c.next[b] = append(c.next[b], before[b])
		c.heads[b][slot] = int32(len(c.agrees))
	}
	return true
}

// A shelf keeps lists of numbers side by side in boards, so that there are few pieces of memory for the garbage collector to go
// through.
type shelf struct {
	boards [][]uint32
	places []place // of each list
}

type place struct{ board, from, to int32 }

const boardSize = 1 << 18 // numbers; a list of more has a board of its own

// room returns space for a list, to be filled and kept, or left.
func (s *shelf) room(n int) []uint32 {
	if last := len(s.boards) - 1; last >= 0 && cap(s.boards[last])-len(s.boards[last]) >= n {
		return s.boards[last][len(s.boards[last]):][:n]
	}
	s.boards = append(s.boards, make([]uint32, 0, max(n, boardSize)))
	return s.boards[len(s.boards)-1][:n]
}

// keep keeps the list that room gave last.
func (s *shelf) keep(list []uint32) {
	last := len(s.boards) - 1
	from := len(s.boards[last])
	s.boards[last] = s.boards[last][:from+len(list)]
	s.places = append(s.places, place{int32(last), int32(from), int32(from + len(list))})
}

func (s *shelf) list(i int32) []uint32 {
	at := s.places[i]
	return s.boards[at.board][at.from:at.to]
}

// known tells whether a row is alike to one on the chains that begin at heads. It walks them side by side, a step on each at a
// time: a step on one does not wait for the memory of another.
func (c *copies) known(prints []uint32, heads [bands]int32) bool {
	defer func() {
		for _, i := range c.met {
			c.agrees[i] = 0
		}
		c.met = c.met[:0]
	}()
	var open [bands]int // the chains that have not ended
	chains := 0
	for b, head := range heads {
		if head > 0 {
			open[chains] = b
			chains++
		}
	}
	for range maxChain {
		left := 0
		for _, b := range open[:chains] {
			i := heads[b] - 1
			c.agrees[i]++
			switch c.agrees[i] {
			case 1:
				c.met = append(c.met, i)
			case 2:
				if alike(prints, c.prints.list(i)) {
					return true
				}
			}
			heads[b] = c.next[b][i]
			if heads[b] > 0 {
				open[left] = b
				left++
			}
		}
		chains = left
	}
	return false
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
