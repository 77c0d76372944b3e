package kernels_test

import (
	"testing"

	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// TestEmbeddingPad checks that the padding token's row of the gradient is not changed.
func TestEmbeddingPad(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, typ := range opcheck.Types {
			a := arena(t, d, 1<<12)
			dtable, dy, ids := a.New("dtable", tensor.F32, 3, 2), a.New("dy", typ, 4, 2), a.New("ids", tensor.I32, 4)
			d.Upload(dtable, []float32{1, 1, 1, 1, 1, 1})
			d.Upload(dy, []float32{1, 2, 3, 4, 5, 6, 7, 8})
			d.UploadI32(ids, []int32{2, 1, 2, 0})
			d.EmbeddingBackward(dtable, dy, ids, 1)
			want := []float64{8, 9, 1, 1, 7, 9}
			if got := floats(t, d, dtable); opcheck.Distance(got, want) != 0 {
				t.Errorf("%v: %v, want %v", typ, got, want)
			}
			if !d.IsCPU() {
				continue
			}
			kernels.MustPanic(t, "an id beyond the table", "Embedding: ids[3] is 3: must be from 0 to 2", func() {
				d.UploadI32(ids, []int32{2, 1, 2, 3})
				d.Embedding(dtable, dtable, ids.Slice(0, 3)) // these are valid
				y := a.New("y", tensor.F32, 4, 2)
				d.Embedding(y, dtable, ids)
			})
		}
	})
}

// TestEmbeddingBackwardAll has more rows than are sorted or added up at a time: of the padding token, of one id, and of
// many others, including the last of a large vocabulary. The elements are whole numbers, whose sums are exact in any
// order.
func TestEmbeddingBackwardAll(t *testing.T) {
	const rows, vocab, pad = 4500, 128257, 70000
	ids := make([]int32, rows)
	for i := range ids {
		ids[i] = int32([]int{pad, 5, i % 200, i * 7919 % vocab, vocab - 1 - i%3, 5}[i*i%6])
	}
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, typ := range opcheck.Types {
			for _, dim := range []int{3, 48} {
				some := func() []float32 { return filled(rows*dim, func(i int) float64 { return float64(i%251 - 125) }) }
				a := arena(t, d, vocab*dim*4+rows*dim*4+rows*4+1<<12)
				dtable, dy, at := a.New("dtable", tensor.F32, vocab, dim), a.New("dy", typ, rows, dim),
					a.New("ids", tensor.I32, rows)
				d.Upload(dtable, filled(vocab*dim, func(i int) float64 { return float64(i % 7) }))
				d.Upload(dy, some())
				d.UploadI32(at, ids)
				want := floats(t, d, dtable)
				for i, x := range some() {
					if id := int(ids[i/dim]); id != pad {
						want[id*dim+i%dim] += float64(x)
					}
				}
				d.EmbeddingBackward(dtable, dy, at, pad)
				for i, got := range floats(t, d, dtable) {
					if got != want[i] {
						t.Fatalf("%v, row %d of %d: %v, not %v", typ, i/dim, dim, got, want[i])
					}
				}
			}
		}
	})
}

// TestEmbeddingBackwardOrder has rows of one id, far from each other, whose sum reveals the order of addition.
func TestEmbeddingBackwardOrder(t *testing.T) {
	const rows = 5000
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		a := arena(t, d, 1<<17)
		dtable, dy, at := a.New("dtable", tensor.F32, rows, 2), a.New("dy", tensor.F32, rows, 2),
			a.New("ids", tensor.I32, rows)
		ids, x := make([]int32, rows), make([]float32, 2*rows)
		for i := range ids {
			ids[i] = int32(i)
		}
		for i, row := range []int{30, 2500, 4999} {
			ids[row] = 30
			x[2*row] = []float32{1 << 30, 1, -(1 << 30)}[i] // the 1 is lost
			x[2*row+1] = []float32{1 << 30, -(1 << 30), 1}[i]
		}
		d.Upload(dtable, make([]float32, 2*rows))
		d.Upload(dy, x)
		d.UploadI32(at, ids)
		d.EmbeddingBackward(dtable, dy, at, -1)
		if got := floats(t, d, dtable)[60:62]; got[0] != 0 || got[1] != 1 {
			t.Errorf("%v, not [0 1]", got)
		}
	})
}
