package teacher

import (
	"math/rand/v2"
	"testing"
)

func TestTally_CountsAreBounded(t *testing.T) {
	const most = 1000
	rng := rand.New(rand.NewPCG(1, 2))
	tally, exact := newTally(most), map[uint64]int{}
	fresh := uint64(1000)
	const added = 100_000
	for i := range added {
		thing := rng.Uint64N(30) // thirty frequent items among ever new ones
		if i%3 > 0 {
			fresh++
			thing = fresh
		}
		floor := tally.floor
		for range 1 + i%5/4 { // some are added twice
			tally.add(thing)
			exact[thing]++
		}
		if n := len(tally.above); n > most || tally.floor > floor && n > most/2+1 {
			t.Fatalf("the tally has %d items", n)
		}
		if i == most && tally.floor != 0 {
			t.Error("the tally forgot an item although it had room")
		}
	}
	floor := int(tally.floor)
	if floor == 0 || floor > added/(most/2) {
		t.Errorf("the floor is %d", floor)
	}
	for thing, n := range exact {
		if got := tally.count(thing); got < n || got > n+floor {
			t.Fatalf("item %d: added %d times, counted %d with a floor of %d", thing, n, got, floor)
		}
	}
	if got := tally.count(7) - exact[7]; got != 0 {
		t.Errorf("the count of a frequent item is %d too high", got)
	}
}

// TestTallyForgets adds five items to a tally of four: two remain, with their counts.
func TestTallyForgets(t *testing.T) {
	for _, c := range []struct {
		added []uint64
		floor int32
		left  int
	}{
		{[]uint64{1, 1, 1, 2, 2, 3, 4, 5}, 1, 2},
		{[]uint64{1, 1, 2, 2, 3, 3, 4, 5}, 2, 0},
	} {
		tally, exact := newTally(4), map[uint64]int{}
		for _, thing := range c.added {
			tally.add(thing)
			exact[thing]++
		}
		if tally.floor != c.floor || len(tally.above) != c.left {
			t.Errorf("%v: %+v", c.added, tally)
		}
		for thing, n := range exact {
			if got := tally.count(thing); got != max(n, int(c.floor)) {
				t.Errorf("%v: %d is counted %d times", c.added, thing, got)
			}
		}
	}
}
