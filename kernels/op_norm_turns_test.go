package kernels

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

// TestNorm_RowsInTurns checks LayerNorm's gradients for enough long rows that each of a GPU's thread blocks takes
// several, one after the other: dx is the same, bit for bit, as for a few rows at a time, and the weights' gradients
// differ only by the rounding of their sums. A thread has vectors of a row that it keeps, or more, which it reads
// twice; the last rows do not fit shared memory.
func TestNorm_RowsInTurns(t *testing.T) {
	name := os.Getenv("RESTYLE_TEST_DEVICE")
	if name == "" {
		name = "emulated"
		cudatest.Once(t)
	}
	on(t, name, Options{Fused: All()}, func(t *testing.T, d *Device) {
		atOnce := 2
		if d.gpu != nil {
			atOnce = d.gpu.SMs
		}
		rows := 5*atOnce - 1
		for _, of := range []struct {
			t   tensor.DType
			dim int
		}{{tensor.BF16, 4104}, {tensor.BF16, 8200}, {tensor.F32, 8200}} {
			t.Run(fmt.Sprintf("%v %d", of.t, of.dim), func(t *testing.T) {
				all, some := normTurns(t, d, of.t, rows, rows, of.dim), normTurns(t, d, of.t, rows, atOnce, of.dim)
				for i, name := range []string{"dx", "dh"} {
					if !slices.Equal(all[i], some[i]) {
						t.Errorf("%s depends on how many rows there are", name)
					}
				}
				for i, name := range []string{"dw", "db"} {
					for j, want := range some[2+i] {
						// Both add up two gradients of rows terms, each at most 2.
						if got := all[2+i][j]; !(math.Abs(float64(got-want)) <= float64(rows*rows)*16*0x1p-24) {
							t.Fatalf("%s[%d] is %v, not %v", name, j, got, want)
						}
					}
				}
			})
		}
	})
}

// normTurns returns the gradients of LayerNorm and of AddLayerNorm, computed for few rows at a time: dx, dh, and the
// sums of both of dw and db. Every row is the same, however few there are.
func normTurns(t *testing.T, d *Device, dt tensor.DType, rows, few, dim int) (all [][]float32) {
	a, err := d.NewArena("test", 1<<20+rows*dim*4*4+dim*4*4)
	expect.OK(t, err)
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	full := func(name string) tensor.Tensor { return a.New(name, dt, rows, dim) }
	x, dy, dx, dh, w := full("x"), full("dy"), full("dx"), full("dh"), a.New("w", dt, dim)
	mean, rstd := a.New("mean", tensor.F32, rows), a.New("rstd", tensor.F32, rows)
	dw, db := a.New("dw", tensor.F32, dim), a.New("db", tensor.F32, dim)
	waves := Waves(rows*dim + 3)
	for i, to := range []tensor.Tensor{x, dy, dh, w, mean, rstd} {
		d.Upload(to, waves[i%4:][:to.Len()])
	}
	d.Zero(dw)
	d.Zero(db)
	for from := 0; from < rows; from += few {
		of := func(x tensor.Tensor) tensor.Tensor { return x.Slice(from, min(rows, from+few)) }
		d.LayerNormBackward(of(dx), dw, db, of(dy), of(x), w, of(mean), of(rstd))
		d.AddLayerNormBackward(of(dh), dw, db, of(dy), of(x), w, of(mean), of(rstd))
	}
	for _, from := range []tensor.Tensor{dx, dh, dw, db} {
		values := make([]float32, from.Len())
		expect.OK(t, d.Download(values, from))
		all = append(all, values)
	}
	return all
}
