package kernels_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// A pagedRun is some sequences of the same length in a cache in blocks. qkv has the rows of the first sequence, then
// the rows of the second and so on.
type pagedRun struct {
	d                   *kernels.Device
	m                   kernels.AttentionSpec
	seqs, length        int
	qkv, y, k, v        tensor.Tensor
	tables, places, one tensor.Tensor // one: of a row or several
}

func newPagedRun(t *testing.T, d *kernels.Device, typ tensor.DType, m kernels.AttentionSpec, seqs,
	length int) *pagedRun {
	t.Helper()
	a, r := arena(t, d, 16<<20), &pagedRun{d: d, m: m, seqs: seqs, length: length}
	rows, each := seqs*length, (length+kernels.PagedBlock-1)/kernels.PagedBlock
	r.qkv, r.y = a.New("qkv", typ, rows, m.Width()), a.New("y", typ, rows, m.Heads*m.HeadDim)
	r.k = a.New("k", typ, seqs*each*kernels.PagedBlock, m.KVHeads*m.HeadDim)
	r.v = a.New("v", typ, r.k.Shape...)
	r.tables, r.places = a.New("tables", tensor.I32, seqs, each), a.New("places", tensor.I32, rows, 2)
	r.one = a.New("one", tensor.I32, rows)
	d.Upload(r.qkv, kernels.Waves(r.qkv.Len()))
	var table, places, slots []int32
	for _, b := range rand.New(rand.NewPCG(1, 2)).Perm(r.tables.Len()) {
		table = append(table, int32(b))
	}
	for s := range seqs {
		for at := range length {
			places = append(places, int32(s), int32(at))
			slots = append(slots, table[s*each+at/kernels.PagedBlock]*kernels.PagedBlock+int32(at%kernels.PagedBlock))
		}
	}
	d.UploadI32(r.tables, table)
	d.UploadI32(r.places, places)
	d.UploadI32(r.one, slots)
	d.Zero(r.k)
	d.Zero(r.v)
	d.AppendPaged(r.k, r.v, r.qkv, r.one, m.Heads, m.KVHeads)
	return r
}

// rows computes the rows lo to hi, and returns their bytes.
func (r *pagedRun) rows(t *testing.T, lo, hi int) []byte {
	t.Helper()
	y := r.y.Slice(lo, hi)
	r.d.AttentionPaged(y, r.qkv.Slice(lo, hi), r.k, r.v, r.tables, r.places.Slice(lo, hi), r.length, r.m)
	raw := make([]byte, y.Bytes())
	if err := r.d.DownloadBytes(raw, y); err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestAttentionPaged_RowsAlone checks that a row has the same bits by itself, in a chunk of a prompt, and in a step
// with other sequences. The cases of opcheck compare it with the formula.
func TestAttentionPaged_RowsAlone(t *testing.T) {
	const seqs, length = 3, 150
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		for _, typ := range opcheck.Types {
			for _, m := range []kernels.AttentionSpec{
				{Heads: 6, KVHeads: 2, HeadDim: 16}, {Heads: 2, KVHeads: 2, HeadDim: 64, Divisor: 3},
				{Heads: 5, KVHeads: 1, HeadDim: 10, Window: 70}, {Heads: 37, KVHeads: 1, HeadDim: 8, Window: 1},
			} {
				r := newPagedRun(t, d, typ, m, seqs, length)
				all := r.rows(t, 0, seqs*length)
				row := len(all) / (seqs * length)
				for lo, n := range map[int]int{0: 1, 1: 1, 15: 18, 63: 2, 64: 1, 149: 1, 150: 150, 170: 100, 299: 2, 449: 1} {
					if !bytes.Equal(r.rows(t, lo, lo+n), all[lo*row:][:n*row]) {
						t.Errorf("%v %+v: %d rows from %d on have other bits than among all", typ, m, n, lo)
					}
				}
			}
		}
	})
}

// TestPaged_Panics checks that places, slots and blocks that do not exist are found on the CPU.
func TestPaged_Panics(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m := kernels.AttentionSpec{Heads: 2, KVHeads: 1, HeadDim: 4}
	for want, change := range map[string]func(r *pagedRun){
		"AppendPaged: slots[1] is 96":                      func(r *pagedRun) { r.one.I32()[1] = 96 },
		"AppendPaged: slots[0] is -1":                      func(r *pagedRun) { r.one.I32()[0] = -1 },
		"AttentionPaged: row 3: position 40 of sequence 0": func(r *pagedRun) { r.places.I32()[7] = 40 },
		"AttentionPaged: row 3: position -1 of sequence 0": func(r *pagedRun) { r.places.I32()[7] = -1 },
		"AttentionPaged: row 0: position 0 of sequence 2":  func(r *pagedRun) { r.places.I32()[0] = 2 },
		"AttentionPaged: row 0: position 0 of sequence -1": func(r *pagedRun) { r.places.I32()[0] = -1 },
		"AttentionPaged: sequence 1: block 6":              func(r *pagedRun) { r.tables.I32()[5] = 6 },
		"AttentionPaged: sequence 0: block -1":             func(r *pagedRun) { r.tables.I32()[0] = -1 },
		"AttentionPaged: positions less than 49":           func(r *pagedRun) { r.length = 49 },
		"AttentionPaged: Bidirectional":                    func(r *pagedRun) { r.m.Bidirectional = true },
	} {
		r := newPagedRun(t, d, tensor.F32, m, 2, 40)
		change(r)
		kernels.MustPanic(t, want, want, func() {
			r.d.AppendPaged(r.k, r.v, r.qkv, r.one, m.Heads, m.KVHeads)
			r.rows(t, 0, 80)
		})
	}
}
