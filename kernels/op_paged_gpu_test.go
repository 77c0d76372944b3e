package kernels

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"restyle/tensor"
)

// TestAttentionPaged_SameBitsInAnyCompany computes a prompt of 300 tokens in pieces and token by token, between tokens
// of another sequence, with the spans of keys side by side and one after the other: each row has the same bits.
func TestAttentionPaged_SameBitsInAnyCompany(t *testing.T) {
	d := gpuOrEmulated(t, Options{})
	for _, c := range []struct {
		t tensor.DType
		s AttentionSpec
	}{
		{tensor.BF16, AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 64}},
		{tensor.BF16, AttentionSpec{Heads: 7, KVHeads: 1, HeadDim: 128}},
		{tensor.F16, AttentionSpec{Heads: 3, KVHeads: 1, HeadDim: 96, Window: 37}},
		{tensor.F32, AttentionSpec{Heads: 2, KVHeads: 2, HeadDim: 32, Window: 270}},
		{tensor.F32, AttentionSpec{Heads: 6, KVHeads: 2, HeadDim: 16}},
	} {
		t.Run(fmt.Sprintf("%v %d", c.t, c.s.HeadDim), func(t *testing.T) { checkPaged(t, d, c.t, c.s) })
	}
}

func checkPaged(t *testing.T, d *Device, dtype tensor.DType, s AttentionSpec) {
	const prompt, other = 300, 40 // tokens of both sequences, whose rows follow each other
	const rows, each = prompt + other, (prompt + PagedBlock - 1) / PagedBlock
	var qkv, k, v, tables, slots, x, y, places tensor.Tensor
	lay := func(a *Arena) {
		qkv, slots = a.New("qkv", dtype, rows, s.Width()), a.New("slots", tensor.I32, rows)
		k = a.New("k", dtype, 2*each*PagedBlock, s.KVHeads*s.HeadDim)
		v = a.New("v", dtype, 2*each*PagedBlock, s.KVHeads*s.HeadDim)
		tables, places = a.New("tables", tensor.I32, 2, each), a.New("places", tensor.I32, rows, 2)
		x, y = a.New("x", dtype, rows, s.Width()), a.New("y", dtype, rows, s.Heads*s.HeadDim)
	}
	a, err := d.NewArena("test", SizeOf(lay))
	if err != nil {
		t.Fatal(err)
	}
	lay(a)
	random := rand.New(rand.NewPCG(5, 6))
	values := make([]float32, qkv.Len())
	for i := range values {
		values[i] = float32(random.NormFloat64())
	}
	d.Upload(qkv, values)
	for _, x := range []tensor.Tensor{k, v} { // what has not been written is NaN
		d.UploadBytes(x, bytes.Repeat([]byte{0xFF}, x.Bytes()))
	}
	table := make([]int32, 2*each)
	for i, id := range random.Perm(2 * each) {
		table[i] = int32(id)
	}
	d.UploadI32(tables, table)
	to := make([]int32, rows)
	for r := range to {
		to[r] = table[r/prompt*each+r%prompt/PagedBlock]*PagedBlock + int32(r%prompt%PagedBlock)
	}
	d.UploadI32(slots, to)
	d.AppendPaged(k, v, qkv, slots, s.Heads, s.KVHeads)
	width := y.Bytes() / rows
	compute := func(list []int, parts int) []byte { // of rows of qkv
		defer func(was int) { maxPagedParts = was }(maxPagedParts)
		maxPagedParts = parts
		n, at := len(list), []int32{}
		for i, r := range list {
			d.Copy(x.Slice(i, i+1), qkv.Slice(r, r+1))
			at = append(at, int32(r/prompt), int32(r%prompt))
		}
		d.UploadI32(places.Slice(0, n), at)
		d.AttentionPaged(y.Slice(0, n), x.Slice(0, n), k, v, tables, places.Slice(0, n), each*PagedBlock, s)
		got := make([]byte, n*width)
		if err := d.DownloadBytes(got, y.Slice(0, n)); err != nil {
			t.Fatal(err)
		}
		return got
	}
	span := func(lo, hi int) (list []int) {
		for r := lo; r < hi; r++ {
			list = append(list, r)
		}
		return list
	}
	want := compute(span(0, rows), productRoom)
	if values, err := d.Floats(y); err != nil || slices.ContainsFunc(values, func(x float32) bool { return x != x }) {
		t.Errorf("there is a NaN, %v", err)
	}
	for _, list := range [][]int{span(0, rows), {0}, {15}, {16}, {255}, {256}, {299}, {339, 299, 5, 300, 6, 7},
		span(210, 270), append(append(span(3, 40), 310, 337), span(240, 299)...)} {
		for _, parts := range []int{productRoom, 0} {
			if len(list) == rows && parts == productRoom {
				continue // which is how want was computed
			}
			got := compute(list, parts)
			for i, r := range list {
				if !bytes.Equal(got[i*width:][:width], want[r*width:][:width]) {
					t.Fatalf("row %d differs among %d from what it is among %d; parts of up to %d bytes", r, len(list), rows, parts)
				}
			}
		}
	}
	if bytes.Equal(want[:width], want[width:2*width]) {
		t.Error("all rows are the same")
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
