package kernels_test

import (
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// The functions below are for tests that run operations themselves.

// place allocates a case's operands.
func place(t testing.TB, d *kernels.Device, c *opcheck.Case) *opcheck.Run {
	t.Helper()
	r, err := c.Place(d)
	expect.OK(t, err)
	return r
}

// arena returns an arena that is closed when the test ends.
func arena(t testing.TB, d *kernels.Device, bytes int) *kernels.Arena {
	t.Helper()
	a, err := d.NewArena("test", bytes)
	expect.OK(t, err)
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

// bytesOf returns a tensor's bytes, read back from the device.
func bytesOf(t testing.TB, d *kernels.Device, x tensor.Tensor) []byte {
	t.Helper()
	b := make([]byte, x.Bytes())
	expect.OK(t, d.DownloadBytes(b, x))
	return b
}

func floats(t testing.TB, d *kernels.Device, x tensor.Tensor) []float64 {
	t.Helper()
	f, err := d.Floats(x)
	expect.OK(t, err)
	v := make([]float64, len(f))
	for i := range f {
		v[i] = float64(f[i])
	}
	return v
}
