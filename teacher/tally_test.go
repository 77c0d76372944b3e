package teacher

import (
	"math/rand/v2"
	"testing"
)

func TestTally(t *testing.T) {
	const most = 1000
	rng := rand.New(rand.NewPCG(1, 2))
	tally, exact := newTally(most), map[uint64]int{}
	fresh := uint64(1000)
	const added = 100_000
	for i := range added {
		thing := rng.Uint64N(30) // thirty frequent things among ever new ones
		if i%3 > 0 {
			fresh++
			thing = fresh
		}
		tally.add(thing)
		exact[thing]++
		if len(tally.counts) > most {
			t.Fatalf("it knows %d things", len(tally.counts))
		}
		if i == most-10 && tally.floor != 0 {
			t.Error("it forgot something while there was room")
		}
	}
	floor := int(tally.floor)
	if floor == 0 || floor > added/(most/2) {
		t.Errorf("the floor is %d", floor)
	}
	for thing, n := range exact {
		if got := tally.count(thing); got < n || got > n+floor {
			t.Fatalf("thing %d was added %d times, counted are %d with a floor of %d", thing, n, got, floor)
		}
	}
	if got := tally.count(7) - exact[7]; got != 0 {
		t.Errorf("what was frequent all along is counted %d too high", got)
	}
}
