//go:build cgo

package blas

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"restyle/internal/expect"
)

func TestOpen(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none.so"), 1); err == nil {
		t.Error("opened a library that does not exist")
	}
	text := filepath.Join(t.TempDir(), "text.so")
	expect.OK(t, os.WriteFile(text, []byte("no library"), 0o600))
	if _, err := Open(text, 1); err == nil {
		t.Error("opened a text as a library")
	}
}

// TestMultiply compares a library's products with the formula in float64, stored in each way.
func TestMultiply(t *testing.T) {
	file := os.Getenv("RESTYLE_BLAS")
	if file == "" {
		t.Skip("RESTYLE_BLAS names no library")
	}
	l, err := Open(file, 1)
	expect.OK(t, err)
	const m, n, k = 5, 7, 13
	a, b := make([]float32, m*k), make([]float32, k*n)
	for i := range a {
		a[i] = float32(math.Sin(float64(i)))
	}
	for i := range b {
		b[i] = float32(math.Cos(float64(i)))
	}
	at := func(x []float32) uintptr { return uintptr(unsafe.Pointer(&x[0])) }
	for _, transA := range []bool{false, true} {
		for _, transB := range []bool{false, true} {
			c := make([]float32, m*n)
			l.Multiply(m, n, k, at(a), transA, at(b), transB, at(c))
			for i := range m {
				for j := range n {
					want := 0.0
					for p := range k {
						x, y := a[i*k+p], b[p*n+j]
						if transA {
							x = a[p*m+i]
						}
						if transB {
							y = b[j*k+p]
						}
						want += float64(x) * float64(y)
					}
					// The sum of 13 products of at most 1, each step rounded to a relative 2^-24.
					if got := c[i*n+j]; !(math.Abs(float64(got)-want) <= 13*13*0x1p-24) {
						t.Errorf("transposed %v, %v: [%d, %d] is %v, want %v", transA, transB, i, j, got, want)
					}
				}
			}
		}
	}
}
