package hostile

import (
	"fmt"
	"runtime"
	"strings"
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
// goroutine may have allocated. The test must not run in parallel with others. With the race detector nothing is
// counted: it allocates itself, and drops what a pool should keep.
func Within(t testing.TB, allowed int, work func()) {
	t.Helper()
	if race {
		work()
		return
	}
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

// Parse returns what parse makes of a text, and fails the test if it allocates more than [Linear] allows.
func Parse[Text ~string | ~[]byte, Result any](t testing.TB, text Text, parse func(Text) (Result, error)) (r Result,
	err error) {
	t.Helper()
	Within(t, Linear(len(text)), func() { r, err = parse(text) })
	return r, err
}

// Wide returns texts of 64 KiB that consist of many small parts: what a reader keeps for each must not add up to far
// more than the text. Fuzz targets take them as seeds, because a fuzzer starts with short texts.
func Wide() (all []string) {
	for _, unit := range []string{"0,", "{},", "[],", `"":0,`, `{"a":0},`, `"a",`, "null,",
		"a ", "a\n", "\n", ",", "{", "[",
		"```\n", "[[CODE_1]]\n", "data: {}\n\n", "{}\n", "[0]\n", "a=b\n", "- a\n", "*x ", "é", "\xff", "\\u0000", `\"`} {
		text := strings.Repeat(unit, 1<<16/len(unit))
		all = append(all, text)
		if trimmed := strings.TrimSuffix(text, ","); trimmed != text {
			all = append(all, "["+trimmed+"]", `{"a":[`+trimmed+"]}")
		}
	}
	var keys strings.Builder
	for i := range 1 << 13 {
		fmt.Fprintf(&keys, `,"%d":0`, i)
	}
	return append(all, "{"+keys.String()[1:]+"}", `{"a":{`+keys.String()[1:]+"}}")
}
