package hostile

import (
	"runtime"
	"testing"
)

// Linear returns the number of bytes that reading an input of size bytes may take, unless there is a reason for more:
// 64 for each byte, and 1 MiB.
func Linear(size int) int { return 64*size + 1<<20 }

// Within fails a test if work allocates more than allowed bytes. It counts all that is allocated, also what is freed
// meanwhile: this needs no sampling, is the same on every machine, and is an upper bound of what is held at any moment.
// A parser that holds little and allocates much for a moment is one that takes long.
//
// If work allocates more it runs once more, because the first time may have filled a table that remains, or another
// goroutine may have allocated. The test must not run in parallel with others.
func Within(t testing.TB, allowed int, work func()) {
	t.Helper()
	var used uint64
	for range 2 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		work()
		runtime.ReadMemStats(&after)
		if used = after.TotalAlloc - before.TotalAlloc; used <= uint64(allowed) {
			return
		}
	}
	t.Errorf("it allocated %d bytes: at most %d are allowed", used, allowed)
}
