package kernels

import (
	"fmt"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// PagedBlock is the number of tokens of a block of keys and values.
const PagedBlock = 16

// AppendPaged copies keys and values to a cache in blocks (Kwon et al. 2023): the keys and values of row r of qkv
// [rows, (heads+2·kvHeads)·headDim] go to row slots[r] of k and v [blocks·16, kvHeads·headDim], all of one type. slots
// is I32 [rows], without repetitions. A slot that is not a row of k is a programming error, which goes undetected on a
// GPU.
func (d *Device) AppendPaged(k, v, qkv, slots tensor.Tensor, heads, kvHeads int) {
	const op = "AppendPaged"
	floating(op, "qkv", qkv)
	rows, w := qkv.Rows(), k.Dim(-1)
	want(op, "k", k, qkv.DType, k.Rows(), w)
	want(op, "v", v, qkv.DType, k.Rows(), w)
	want(op, "slots", slots, tensor.I32, rows)
	if heads < 1 || kvHeads < 1 || heads%kvHeads != 0 || w%kvHeads != 0 || qkv.Dim(-1) != w/kvHeads*(heads+2*kvHeads) {
		panic(fmt.Sprintf("%s: %v from %v with %d heads, %d key/value heads", op, k, qkv, heads, kvHeads))
	}
	d.within(op, "slots", slots, k.Rows())
	d.ran("append_paged")
	if d.gpu != nil {
		d.appendPagedGPU(k, v, qkv, slots, heads, kvHeads)
		return
	}
	e := qkv.DType.Size()
	from, row := qkv.Dim(-1)*e, w*e
	src, kb, vb := qkv.Raw(), k.Raw(), v.Raw()
	for r, slot := range slots.I32() {
		kv := src[(r+1)*from-2*row:]
		copy(kb[int(slot)*row:][:row], kv)
		copy(vb[int(slot)*row:][:row], kv[row:])
	}
}

// AttentionPaged is Attention for rows of several sequences whose keys and values are in blocks of 16 tokens (Kwon et
// al. 2023): row r of qkv is at position places[r,1] of the sequence whose blocks row places[r,0] of tables lists, in
// their order, and sees the keys 0 to its position, or the last Window of them. Its own key and value are there.
//
// qkv is [rows, (heads+2·kvHeads)·headDim] and y [rows, heads·headDim]; k and v are [blocks·16, kvHeads·headDim], all
// of one type. tables is I32 [sequences, most blocks] and places I32 [rows, 2]; reach is more than every position.
// CuSeqlens of s is not used. A place or a block that does not exist is a programming error, which goes undetected on
// a GPU.
//
// The order of a row's sums depends only on its position and the window, not on the other rows or their number. Rows of
// one sequence that follow each other share what they read. It is one kernel, fused or not. It panics if s is
// Bidirectional.
func (d *Device) AttentionPaged(y, qkv, k, v, tables, places tensor.Tensor, reach int, s AttentionSpec) {
	const op = "AttentionPaged"
	s = s.checked(op)
	floating(op, "qkv", qkv)
	rows, width := qkv.Rows(), s.KVHeads*s.HeadDim
	want(op, "qkv", qkv, qkv.DType, rows, s.Width())
	want(op, "y", y, qkv.DType, rows, s.Heads*s.HeadDim)
	want(op, "k", k, qkv.DType, k.Rows(), width)
	want(op, "v", v, qkv.DType, k.Rows(), width)
	want(op, "tables", tables, tensor.I32, tables.Rows(), tables.Dim(-1))
	want(op, "places", places, tensor.I32, rows, 2)
	if s.Bidirectional {
		panic(op + ": Bidirectional attention needs keys that the cache does not hold yet")
	}
	if reach < 1 || reach > tables.Dim(-1)*PagedBlock || k.Rows()%PagedBlock != 0 {
		panic(fmt.Sprintf("%s: positions less than %d in %v of %v: blocks of %d do not fit", op, reach, tables, k,
			PagedBlock))
	}
	d.ran("attention_paged")
	if d.gpu != nil {
		d.attentionPagedGPU(y, qkv, k, v, tables, places, reach, s)
		return
	}
	checkPlaces(op, tables, places, reach, k.Rows()/PagedBlock)
	defer d.release(d.mark())
	room := pagedScratch(d.scratch, s, rows)
	cpu.AttentionPaged(y.View(rows, y.Dim(-1)), qkv.View(rows, s.Width()), k, v, tables, places, room, s.Heads, s.KVHeads,
		s.Window, float32(1/s.divisor()))
}

// pagedScratch lays out AttentionPaged's memory on the CPU.
func pagedScratch(cut cut, s AttentionSpec, rows int) tensor.Tensor {
	return cut("attention", tensor.U8, cpu.PagedRoom(rows, s.Heads, s.KVHeads, s.HeadDim))
}

// checkPlaces panics unless each row is at a position below reach of a sequence, in blocks that exist.
func checkPlaces(op string, tables, places tensor.Tensor, reach, blocks int) {
	width, table, checked := tables.Dim(-1), tables.I32(), make([]int, tables.Rows())
	for at, r := places.I32(), 0; r < places.Rows(); r++ {
		seq, position := int(at[2*r]), int(at[2*r+1])
		if seq < 0 || seq >= len(checked) || position < 0 || position >= reach {
			panic(fmt.Sprintf("%s: row %d: position %d of sequence %d: must be below %d, of %d sequences", op, r, position, seq,
				reach, len(checked)))
		}
		for ; checked[seq] <= position/PagedBlock; checked[seq]++ {
			if b := table[seq*width+checked[seq]]; b < 0 || int(b) >= blocks {
				panic(fmt.Sprintf("%s: sequence %d: block %d: there are %d", op, seq, b, blocks))
			}
		}
	}
}
