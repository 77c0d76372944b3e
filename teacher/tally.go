package teacher

import (
	"hash/fnv"
	"io"
)

// A tally counts things by their hashes in bounded memory: where it knows too many, it forgets the rarest (lossy counting,
// Manku and Motwani, "Approximate Frequency Counts over Data Streams", 2002). Its counts are exact until then. Afterwards
// none is too low, and none is too high by more than floor.
type tally struct {
	most  int              // how many things it knows at once
	above map[uint64]int32 // how far the count of a thing is above the floor
	floor int32            // the highest count of what was forgotten
}

// maxTallied is how many things the ledger's tallies know at once. A row has at most 220 words, so floor stays below one row
// in 2,000, far below the shares of the diversity budget.
const maxTallied = 1 << 20

func newTally(most int) tally { return tally{most: most, above: map[uint64]int32{}} }

// count returns how often a thing was added.
func (t *tally) count(hash uint64) int {
	return int(t.floor + t.above[hash])
}

func (t *tally) add(hash uint64) {
	t.above[hash]++
	if len(t.above) > t.most {
		t.forget()
	}
}

// forget raises the floor until at most half as many things are above it.
func (t *tally) forget() {
	for len(t.above) > t.most/2 {
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

// hashOf is the FNV-1a hash of a text.
func hashOf(text string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, text)
	return h.Sum64()
}
