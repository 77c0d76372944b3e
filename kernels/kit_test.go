package kernels

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"restyle/kernels/cpu"
	"restyle/kernels/cuda/cudatest"
)

// What the tests of the package's inside and those of its operations, which are in kernels_test as they use the list of
// cases, have in common.

// EachDevice runs f on every device and instruction set that there is. With RESTYLE_TEST_DEVICE set, on that one alone,
// which has to be there.
func EachDevice(t *testing.T, f func(t *testing.T, d *Device)) {
	t.Helper()
	if name := os.Getenv("RESTYLE_TEST_DEVICE"); name != "" {
		t.Run(name, func(t *testing.T) { on(t, name, Options{}, f) })
		return
	}
	for _, l := range cpu.Levels() {
		t.Run(l.String(), func(t *testing.T) { on(t, "cpu", Options{Level: l.String(), Threads: 1}, f) })
	}
}

// EachDeviceAndEmulated is EachDevice for operations that have a kernel for a GPU: f runs on the one that the CPU
// plays, too.
func EachDeviceAndEmulated(t *testing.T, f func(t *testing.T, d *Device)) {
	t.Helper()
	EachDevice(t, f)
	if os.Getenv("RESTYLE_TEST_DEVICE") == "" {
		t.Run("emulated", func(t *testing.T) { on(t, "emulated", Options{}, f) })
	}
}

// Emulated opens the GPU that the CPU plays, until the test ends.
func Emulated(t testing.TB, o Options) *Device {
	t.Helper()
	d, err := Open("emulated", o)
	cudatest.Opened(t, d, err)
	return d
}

// on runs f on a device whose scratch memory is guarded.
func on(t *testing.T, name string, o Options, f func(t *testing.T, d *Device)) {
	t.Helper()
	d, err := Open(name, o)
	cudatest.Opened(t, d, err)
	d.GuardScratch(func(what string) { t.Error(what) })
	f(t, d)
}

// TestMain lets all tests share what the emulated GPU compiles.
func TestMain(m *testing.M) {
	if os.Getenv("RESTYLE_CACHE") != "" {
		os.Exit(cudatest.Main(m))
	}
	dir, err := os.MkdirTemp("", "restyle")
	if err == nil {
		err = os.Setenv("RESTYLE_CACHE", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := cudatest.Main(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
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
