package teacher

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// randomShingles returns n distinct numbers.
func randomShingles(rng *rand.Rand, n int) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = rng.Uint64()
	}
	return list
}

func (c *copies) add(shingles []uint64) bool {
	return c.admit(slices.Sorted(slices.Values(shingles)), signature(shingles))
}

// TestCopiesAreFound makes pairs of rows that share a given number of shingles, among rows that share a few with all
// others.
func TestCopiesAreFound(t *testing.T) {
	for _, c := range []struct {
		common, own int // shingles of a pair: in both rows, and in each row only
		found       [2]int
	}{
		{100, 0, [2]int{1000, 1000}},
		{80, 10, [2]int{1000, 1000}}, // 80% of the shingles of both
		{60, 20, [2]int{997, 1000}},
		{50, 25, [2]int{950, 985}}, // exactly half
		{50, 26, [2]int{0, 0}},
		{20, 60, [2]int{0, 0}},
	} {
		rng := rand.New(rand.NewPCG(uint64(c.common), uint64(c.own)))
		var all copies
		stock := randomShingles(rng, 200)
		found := 0
		for range 1000 {
			pair := randomShingles(rng, c.common)
			// Copies may start differently and have their words in other places.
			first, second := append(randomShingles(rng, c.own), pair...), append(pair[:c.common:c.common],
				randomShingles(rng, c.own)...)
			other := append(randomShingles(rng, 60), stock[rng.IntN(150):][:20]...)
			if !all.add(first) || !all.add(other) {
				t.Fatalf("%d in common: a row was taken for a copy that is none", c.common)
			}
			if !all.add(second) {
				found++
			}
		}
		if found < c.found[0] || found > c.found[1] {
			t.Errorf("%d in common, %d in each alone: %d of 1000 copies found, expected %v", c.common, c.own, found, c.found)
		}
	}
}

// TestCopiesAreComparedWithFew uses rows that all agree in every band, because 0 is the minimum of every hash
// function.
func TestCopiesAreComparedWithFew(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var all copies
	var rows [][]uint64
	for range 4 * maxChain {
		rows = append(rows, append(randomShingles(rng, 20), 0))
		if !all.add(rows[len(rows)-1]) {
			t.Fatal("a row was taken for a copy that is none")
		}
	}
	if all.add(rows[len(rows)-maxChain]) {
		t.Error("a copy of the last row but 255 was not found")
	}
	if !all.add(rows[len(rows)-maxChain-1]) {
		t.Error("the last row but 256 was still met")
	}
}

// TestCopyAfterRefusal checks that a refused copy leaves nothing behind, however often it is refused.
func TestCopyAfterRefusal(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var all copies
	row := randomShingles(rng, 60)
	if !all.add(row) {
		t.Fatal("the first row is no copy")
	}
	for range 3 {
		if all.add(row) {
			t.Fatal("the same row was admitted twice")
		}
	}
	if len(all.agrees) != 1 {
		t.Errorf("%d rows are kept", len(all.agrees))
	}
	for range 2 {
		if !all.add(nil) {
			t.Error("rows without shingles are no copies")
		}
	}
}
