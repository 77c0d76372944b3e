package kernels

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"restyle/kernels/cpu"
)

// What the tests of the package's inside and those of its operations, which are in kernels_test as they use the list of
// cases, have in common.

// EachDevice runs f on every device and instruction set that there is. With RESTYLE_TEST_DEVICE set, on that one alone,
// which has to be there.
func EachDevice(t *testing.T, f func(t *testing.T, d *Device)) {
	t.Helper()
	open := func(t *testing.T, name string, o Options) {
		d, err := Open(name, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // behind the arenas that f closes in this way
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		d.GuardScratch(func(what string) { t.Error(what) })
		f(t, d)
	}
	if name := os.Getenv("RESTYLE_TEST_DEVICE"); name != "" {
		t.Run(name, func(t *testing.T) { open(t, name, Options{}) })
		return
	}
	for _, l := range cpu.Levels() {
		t.Run(l.String(), func(t *testing.T) { open(t, "cpu", Options{Level: l.String(), Threads: 1}) })
	}
}

// MustPanic wants a panic whose message begins so.
func MustPanic(t *testing.T, what, message string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); !strings.HasPrefix(got, message) {
			t.Errorf("%s: panic %q, want %q", what, got, message)
		}
	}()
	f()
}
