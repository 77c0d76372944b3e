package training

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// Pack lays examples together into rows of at most seq tokens: each of the result's lists names the examples of a row.
// Every example of order is in exactly one row and whole. The result depends on the lengths and the order alone.
//
// It is best fit decreasing: the examples from the longest to the shortest, each into the row that has the least room that is
// still enough. The rows then come in the order of their first example, and the examples of a row in the order
// given, so that an epoch is not sorted by length. It panics for an example of more than seq tokens.
func Pack(examples []Example, order []int, seq int) [][]int {
	place := make([]int, len(order)) // places in order, the longest example first
	for i := range place {
		place[i] = i
	}
	length := func(p int) int { return len(examples[order[p]].IDs) }
	slices.SortStableFunc(place, func(a, b int) int { return cmp.Compare(length(b), length(a)) })
	var rows [][]int
	open := newShelf(seq)
	for _, p := range place {
		n := length(p)
		if n > seq {
			panic(fmt.Sprintf("training: Pack: example %d has %d tokens, a row %d", order[p], n, seq))
		}
		row, room := open.take(n)
		if room < 0 {
			row, room = len(rows), seq
			rows = append(rows, nil)
		}
		rows[row] = append(rows[row], p)
		open.put(row, room-n)
	}
	for _, row := range rows {
		slices.Sort(row)
	}
	slices.SortFunc(rows, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	for _, row := range rows {
		for i, p := range row {
			row[i] = order[p]
		}
	}
	return rows
}

// A shelf holds rows by the room that they have.
type shelf struct {
	rows [][]int
	some []uint64 // a bit for each room that some row has
}

func newShelf(seq int) *shelf { return &shelf{make([][]int, seq+1), make([]uint64, seq/64+1)} }

func (s *shelf) put(row, room int) {
	s.rows[room] = append(s.rows[room], row)
	s.some[room/64] |= 1 << (room % 64)
}

// take takes out a row with the least room for n tokens, and of several the last one put in. Without any, room is -1.
func (s *shelf) take(n int) (row, room int) {
	word := n / 64
	found := s.some[word] &^ (1<<(n%64) - 1)
	for found == 0 {
		if word++; word == len(s.some) {
			return 0, -1
		}
		found = s.some[word]
	}
	room = 64*word + bits.TrailingZeros64(found)
	last := len(s.rows[room]) - 1
	row = s.rows[room][last]
	if s.rows[room] = s.rows[room][:last]; last == 0 {
		s.some[word] &^= 1 << (room % 64)
	}
	return row, room
}
