package teacher

import (
	"hash/fnv"
	"io"
)

// A tally counts items by their hashes in bounded memory: if there are too many, it forgets the rarest (lossy
// counting, Manku and Motwani, "Approximate Frequency Counts over Data Streams", 2002). Its counts are exact until
// then. Afterwards no count is too low, and no count is too high by more than floor.
type tally struct {
	max   int              // items kept at once
	above map[uint64]int32 // count of an item, minus floor
	floor int32            // highest count of a forgotten item
}

// maxTallied is the number of items that the ledger's tallies keep at once. A row has at most 220 words, so floor
// stays below one row in 2,000, far below the shares of the diversity budget.
const maxTallied = 1 << 20

func newTally(max int) tally { return tally{max: max, above: map[uint64]int32{}} }

// count returns the number of times that an item was added.
func (t *tally) count(hash uint64) int {
	return int(t.floor + t.above[hash])
}

func (t *tally) add(hash uint64) {
	t.above[hash]++
	if len(t.above) > t.max {
		t.forget()
	}
}

// forget raises the floor until the items above it are at most half of max.
func (t *tally) forget() {
	for len(t.above) > t.max/2 {
		t.floor++
		kept := map[uint64]int32{}
		for hash, n := range t.above {
			if n > 1 {
				kept[hash] = n - 1
			}
		}
		t.above = kept
	}
}

// hashOf returns the FNV-1a hash of a text.
func hashOf(text string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, text)
	return h.Sum64()
}
