// Package expect provides assertions and fixtures for tests: errors, heap growth, temporary files, reference data.
package expect

import (
	"runtime"
	"strings"
	"testing"
)

// OK ends the test if err is not nil.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Error fails the test unless err contains all the words. The text must be one line of at most 1,500 bytes, and must
// not tell the reader twice what to choose, as it does if a function adds a remedy to an error that has one.
func Error(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", words)
		return
	}
	text := err.Error()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("error %q does not contain %q", text, w)
		}
	}
	if strings.Count(text, "choose") > 1 {
		t.Errorf("error gives two remedies: %q", text)
	}
	if len(text) > 1500 || strings.Contains(text, "\n") {
		t.Errorf("error is not one short line: %q", text)
	}
}

// FlatHeap fails the test if the live heap grows by more than limit bytes while f runs. f must call measure wherever
// the heap may be largest. Garbage does not count, because its amount depends on when the collector last ran.
func FlatHeap(t testing.TB, limit int, f func(measure func())) {
	t.Helper()
	live := func() int {
		runtime.GC()
		runtime.GC() // the second collection frees what was in sync.Pools
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before, largest := live(), 0
	f(func() { largest = max(largest, live()-before) })
	t.Logf("the heap grew by %d KiB", largest>>10)
	if largest > limit {
		t.Errorf("the heap grew by %d bytes, want at most %d", largest, limit)
	}
}

// Sequences returns letters in an order in which every sequence of n of them occurs once: a test that takes them for
// steps meets every step after every n-1 others.
func Sequences(letters string, n int) (order string) {
	seen := map[string]bool{}
	var visit func(last string)
	visit = func(last string) {
		for _, letter := range letters {
			if next := last + string(letter); !seen[next] {
				seen[next] = true
				visit(next[1:])
				order += string(letter)
			}
		}
	}
	visit(letters[:n-1])
	return order
}
