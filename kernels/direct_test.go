package kernels

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"restyle/tensor"
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

// guardScratch has scratch memory begin as NaN, between guards of a page that operations must leave as they are.
func guardScratch(t testing.TB, d *Device) {
	const zone = 4096
	type guarded struct {
		mark   int
		name   string
		guards [2]tensor.Tensor
	}
	var all []guarded
	d.cutScratch = func(a *Arena, name string, typ tensor.DType, shape ...int) tensor.Tensor {
		mark := d.mark()
		before := a.New("guard", tensor.U8, zone)
		x := a.New(name, typ, shape...)
		after := a.New("guard", tensor.U8, zone)
		if a.Counting() {
			return x
		}
		// The guard behind begins at x's last byte, before its own first.
		end := x.Addr + uintptr(x.Bytes())
		after = tensor.Tensor{DType: tensor.U8, Shape: []int{zone + int(after.Addr-end)}, Addr: end}
		for _, g := range []tensor.Tensor{before, after} {
			d.UploadBytes(g, bytes.Repeat([]byte{guardByte}, g.Bytes()))
		}
		d.UploadBytes(x, bytes.Repeat([]byte{0xFF}, x.Bytes()))
		all = append(all, guarded{mark, fmt.Sprint(x), [2]tensor.Tensor{before, after}})
		return x
	}
	d.released = func(mark int) {
		for n := len(all); n > 0 && all[n-1].mark >= mark; n-- {
			for i, g := range all[n-1].guards {
				if b := bytesOf(t, d, g); bytes.Count(b, []byte{guardByte}) != len(b) {
					t.Errorf("%s: written %s", all[n-1].name, [2]string{"before its beginning", "beyond its end"}[i])
				}
			}
			all = all[:n-1]
		}
	}
}
