package kernels

import (
	"math/rand/v2"
	"testing"

	"restyle/tensor"
)

// embeddingCase looks up rows ids that are random ones of the first ids of the table.
func embeddingCase(t tensor.DType, rows, vocab, dim, ids int) opCase {
	c := opCase{
		op: "embedding", name: label(t, rows, vocab, dim),
		in: []operand{
			par("table", t, vocab, dim),
			{name: "ids", t: tensor.I32, shape: []int{rows}, fill: func(r *rand.Rand, _ int) float64 { return float64(r.IntN(ids)) }},
		},
		out:      []operand{act("y", t, rows, dim)},
		forward:  func(d *Device, x tensors) { d.Embedding(x["y"], x["table"], x["ids"]) },
		backward: func(d *Device, x tensors) { d.EmbeddingBackward(x["dtable"], x["dy"], x["ids"], -1) },
		want: func(x values) values {
			var y []float64
			for _, id := range x["ids"] {
				y = append(y, x["table"][int(id)*dim:(int(id)+1)*dim]...)
			}
			return values{"y": y}
		},
		kernels: [2][]string{{"embedding", "embedding_backward"}},
	}
	c.forwardBytes = c.bytes("y", "y")
	c.backwardBytes = c.bytes("y") + 8*float64(rows*dim)
	return c
}

func TestEmbedding(t *testing.T) {
	var cases []opCase
	for _, t := range both {
		// One row thousands of times; columns of several tasks.
		for _, s := range [][4]int{{3, 1, 1, 1}, {20, 50, 33, 50}, {31, 9, 200, 9}, {4000, 3, 5, 1}} {
			cases = append(cases, embeddingCase(t, s[0], s[1], s[2], s[3]))
		}
	}
	testOps(t, cases)
}

// TestEmbeddingPad leaves the padding's row of the gradient as it is.
func TestEmbeddingPad(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *Device) {
		for _, typ := range both {
			a := arena(t, d, 1<<12)
			dtable, dy, ids := a.New("dtable", tensor.F32, 3, 2), a.New("dy", typ, 4, 2), a.New("ids", tensor.I32, 4)
			d.Upload(dtable, []float32{1, 1, 1, 1, 1, 1})
			d.Upload(dy, []float32{1, 2, 3, 4, 5, 6, 7, 8})
			d.UploadI32(ids, []int32{2, 1, 2, 0})
			d.EmbeddingBackward(dtable, dy, ids, 1)
			want := []float64{8, 9, 1, 1, 7, 9}
			if got := floats(t, d, dtable); distance(got, want) != 0 {
				t.Errorf("%v: %v, want %v", typ, got, want)
			}
			mustPanic(t, "an id beyond the table", "Embedding: ids[3] is 3, not one of 0 to 2", func() {
				d.UploadI32(ids, []int32{2, 1, 2, 3})
				d.Embedding(dtable, dtable, ids.Slice(0, 3)) // these are fine
				y := a.New("y", tensor.F32, 4, 2)
				d.Embedding(y, dtable, ids)
			})
		}
	})
}
