//go:build amd64 || arm64

package sandbox

import (
	"testing"

	"restyle/internal/expect"
)

// TestFields adds what a file of numbers has under several names.
func TestFields(t *testing.T) {
	file := expect.File(t, "status", "VmRSS:\t  10 kB\nVmRSSx: 5 kB\nVmSwap: 3 kB\nThreads:\t2\nVmSwap: x kB\n")
	for want, names := range map[int][]string{0: {"None:"}, 10: {"VmRSS:"}, 13: {"VmRSS:", "VmSwap:"},
		15: {"VmRSS:", "VmSwap:", "Threads:"},
		2:  {"Threads:"}} {
		if got := fields(file, names...); got != want {
			t.Errorf("%q: %d, want %d", names, got, want)
		}
	}
	if got := fields(file+".none", "VmRSS:"); got != 0 {
		t.Errorf("of no file: %d", got)
	}
}
