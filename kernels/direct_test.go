package kernels

import (
	"fmt"
	"strings"
	"testing"
)

// What tests use that run operations themselves, without a case.

// arena is one that is closed when the test ends.
func arena(t testing.TB, d *Device, bytes int) *Arena {
	t.Helper()
	a, err := d.NewArena("test", bytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func filled(n int, f func(i int) float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(f(i))
	}
	return x
}

// mustPanic wants a panic whose message begins so.
func mustPanic(t *testing.T, what, message string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); !strings.HasPrefix(got, message) {
			t.Errorf("%s: panic %q, want %q", what, got, message)
		}
	}()
	f()
}
