package training

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// Pack combines examples into packs of at most seq tokens. Each list of the result holds the examples of a pack. Every
// example of order is in exactly one pack, undivided. The result depends only on the lengths and the order.
//
// The algorithm is best fit decreasing: from the longest example to the shortest, each goes into the pack with the
// least room that suffices. The packs are then in the order of their first example, and the examples of a pack in the
// given order, so that an epoch is not sorted by length. Pack panics if an example has more than seq tokens.
func Pack(examples []Example, order []int, seq int) [][]int {
	longestFirst := make([]int, len(order)) // indices of order
	for i := range longestFirst {
		longestFirst[i] = i
	}
	length := func(i int) int { return len(examples[order[i]].IDs) }
	slices.SortStableFunc(longestFirst, func(a, b int) int { return cmp.Compare(length(b), length(a)) })
	var packs [][]int
	open := newShelf(seq)
	for _, i := range longestFirst {
		n := length(i)
		if n > seq {
			panic(fmt.Sprintf("training: Pack: example %d has %d tokens, a pack %d", order[i], n, seq))
		}
		pack, room := open.take(n)
		if room < 0 {
			pack, room = len(packs), seq
			packs = append(packs, nil)
		}
		packs[pack] = append(packs[pack], i)
		open.put(pack, room-n)
	}
	for _, pack := range packs {
		slices.Sort(pack)
	}
	slices.SortFunc(packs, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	for _, pack := range packs {
		for j, i := range pack {
			pack[j] = order[i]
		}
	}
	return packs
}

// A shelf holds packs by their room: the number of tokens that still fit.
type shelf struct {
	packs [][]int  // by room
	some  []uint64 // one bit per room: some pack has it
}

func newShelf(seq int) *shelf { return &shelf{make([][]int, seq+1), make([]uint64, seq/64+1)} }

func (s *shelf) put(pack, room int) {
	s.packs[room] = append(s.packs[room], pack)
	s.some[room/64] |= 1 << (room % 64)
}

// take removes and returns the pack with the least room for n tokens, or the one that was put last if there are
// several. If there is none, room is -1.
func (s *shelf) take(n int) (pack, room int) {
	word := n / 64
	found := s.some[word] &^ (1<<(n%64) - 1)
	for found == 0 {
		if word++; word == len(s.some) {
			return 0, -1
		}
		found = s.some[word]
	}
	room = 64*word + bits.TrailingZeros64(found)
	last := len(s.packs[room]) - 1
	pack = s.packs[room][last]
	if s.packs[room] = s.packs[room][:last]; last == 0 {
		s.some[word] &^= 1 << (room % 64)
	}
	return pack, room
}
