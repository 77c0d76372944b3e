package kernels

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"restyle/kernels/cpu"
	"restyle/kernels/cuda/cudatest"
)

// This file has what the internal tests of the package share with the tests of its operations. The latter are in
// kernels_test because they use the list of cases.

// EachDevice runs f on every available device and instruction set. With RESTYLE_TEST_DEVICE set, it runs f only on that
// device, which must exist.
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

// EachDeviceAndEmulated is EachDevice for operations that have a GPU kernel: it also runs f on the emulated GPU.
func EachDeviceAndEmulated(t *testing.T, f func(t *testing.T, d *Device)) {
	t.Helper()
	EachDevice(t, f)
	if os.Getenv("RESTYLE_TEST_DEVICE") == "" {
		t.Run("emulated", func(t *testing.T) {
			cudatest.Once(t)
			on(t, "emulated", Options{}, f)
		})
	}
}

// Emulated opens the emulated GPU, and closes it when the test ends.
func Emulated(t testing.TB, o Options) *Device {
	t.Helper()
	cudatest.Once(t)
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

func TestMain(m *testing.M) {
	if os.Getenv(rankVariable) != "" {
		os.Exit(beRank())
	}
	os.Exit(cudatest.Main(m))
}

// MustPanic checks that f panics with a message that starts with message.
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

// Waves returns n numbers without a pattern that rounding to groups could hide.
func Waves(n int) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(math.Sin(float64(i*i%9973 + i)))
	}
	return list
}

// SetWGMMAShort sets wgmmaShort, and returns a function that restores it.
func SetWGMMAShort(n int) (restore func()) {
	was := wgmmaShort
	wgmmaShort = n
	return func() { wgmmaShort = was }
}
