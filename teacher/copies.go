package teacher

// copies finds rows whose text nearly repeats an earlier one's, in time that does not grow with the number of rows.
//
// Each row has bands of bandWidth minima, each the smallest value of one hash function on the row's shingles. Two
// rows agree in a minimum with the probability of their Jaccard index J (Broder, "On the resemblance and containment
// of documents", 1997), and in a band with J³. Rows that agree in two bands are compared shingle by shingle, so there
// are no false positives. One in 30 pairs that share exactly half of their shingles is missed, one in 1,400 pairs
// that share 60%, and one in 900,000 pairs that share 70%. Agreement in only one band is too frequent to be useful:
// rows made of stock phrases agree in one by chance.
type copies struct {
	heads  [bands][]int32 // by a hash of the band's minima: the latest row with it, from 1; 0 for none
	next   [bands][]int32 // by row: the row before it with the same hash, from 1; 0 for none
	prints shelf          // by row: 32 bits of each shingle, in ascending order

	// known walks the chains for every row, and what it touches has to stay in the processor's caches. So a count takes
	// one byte, and all counts are 0 except during a walk.
	agrees []uint8 // by row: bands in which the row under test agrees with it
	met    []int32 // rows whose count is not 0
}

const (
	bands     = 40
	bandWidth = 3
	slots     = 1 << 17 // hash values per band
	maxChain  = 256     // rows with the same hash that are examined per band, the latest first
)

// minimum holds the odd factors of the hash functions, which are multiplicative (Dietzfelbinger et al. 1997).
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

// admit adds a row and reports true, unless the row nearly repeats an earlier one. The shingles are distinct and in
// ascending order, and at is their signature.
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

// A shelf stores lists of numbers one after another in large boards, so that the garbage collector has few objects to
// scan.
type shelf struct {
	boards [][]uint32
	places []place // of each list
}

// A place is where a list is: elements from to to of a board.
type place struct{ board, from, to int32 }

const boardSize = 1 << 18 // numbers; a longer list gets its own board

// room returns space for a list of n numbers. It is reused by the next call unless keep is called.
func (s *shelf) room(n int) []uint32 {
	if last := len(s.boards) - 1; last >= 0 && cap(s.boards[last])-len(s.boards[last]) >= n {
		return s.boards[last][len(s.boards[last]):][:n]
	}
	s.boards = append(s.boards, make([]uint32, 0, max(n, boardSize)))
	return s.boards[len(s.boards)-1][:n]
}

// keep adds the list that room returned last to the shelf.
func (s *shelf) keep(list []uint32) {
	last := len(s.boards) - 1
	from := len(s.boards[last])
	s.boards[last] = s.boards[last][:from+len(list)]
	s.places = append(s.places, place{int32(last), int32(from), int32(from + len(list))})
}

// list returns the ith list that was kept.
func (s *shelf) list(i int32) []uint32 {
	at := s.places[i]
	return s.boards[at.board][at.from:at.to]
}

// known reports whether a row is alike to one on the chains that start at heads. It advances all chains by one step
// at a time, so that a step on one chain does not wait for the memory of another.
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

// alike reports whether two sorted lists have a Jaccard index of at least 1/2: at most a third of the elements of both
// lists together are in only one of them.
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
