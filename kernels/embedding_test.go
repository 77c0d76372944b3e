package kernels_test

import (
	"testing"

	"restyle/kernels"
	"restyle/kernels/cases"
	"restyle/tensor"
)

// TestEmbeddingPad leaves the padding's row of the gradient as it is.
func TestEmbeddingPad(t *testing.T) {
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		for _, typ := range cases.Types {
			a := arena(t, d, 1<<12)
			dtable, dy, ids := a.New("dtable", tensor.F32, 3, 2), a.New("dy", typ, 4, 2), a.New("ids", tensor.I32, 4)
			d.Upload(dtable, []float32{1, 1, 1, 1, 1, 1})
			d.Upload(dy, []float32{1, 2, 3, 4, 5, 6, 7, 8})
			d.UploadI32(ids, []int32{2, 1, 2, 0})
			d.EmbeddingBackward(dtable, dy, ids, 1)
			want := []float64{8, 9, 1, 1, 7, 9}
			if got := floats(t, d, dtable); cases.Distance(got, want) != 0 {
				t.Errorf("%v: %v, want %v", typ, got, want)
			}
			kernels.MustPanic(t, "an id beyond the table", "Embedding: ids[3] is 3, not one of 0 to 2", func() {
				d.UploadI32(ids, []int32{2, 1, 2, 3})
				d.Embedding(dtable, dtable, ids.Slice(0, 3)) // these are fine
				y := a.New("y", tensor.F32, 4, 2)
				d.Embedding(y, dtable, ids)
			})
		}
	})
}
