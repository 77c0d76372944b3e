package kernels

import (
	"fmt"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// Embedding looks up rows of a table:
//
//	y[r] = table[ids[r]]
//
// table is [vocab, dim], ids is [rows] I32, y is [rows, dim] of the table's type. If the table is quantized, y is F32
// or BF16, and gets the values of the rows as DequantizeWeights computes them. An id that is not a row of the table is
// a programming error.
func (d *Device) Embedding(y, table, ids tensor.Tensor) {
	t := table.DType
	if t.Quantized() {
		t = y.DType
		floating("Embedding", "y", y)
	} else {
		floating("Embedding", "table", table)
	}
	want("Embedding", "ids", ids, tensor.I32, ids.Len())
	want("Embedding", "y", y, t, ids.Len(), table.Dim(-1))
	d.within("Embedding", "ids", ids, table.Rows())
	d.ran("embedding")
	if table.DType.Quantized() {
		d.dequantizeRows(y, table.Matrix(), ids)
		return
	}
	d.gather(y, table, ids)
}

// EmbeddingBackward adds each row's gradient to the gradient of the table row that it came from:
//
//	dtable[ids[r]] += dy[r]   where ids[r] ≠ pad
//
// dtable is [vocab, dim] F32, dy is [rows, dim] F32, BF16 or F16. A pad of -1 means no padding. The rows of one id are
// added in their order; a GPU adds them in runs of rows that depend only on the ids, and then adds the sums of the runs
// in their order.
func (d *Device) EmbeddingBackward(dtable, dy, ids tensor.Tensor, pad int) {
	floating("EmbeddingBackward", "dy", dy)
	want("EmbeddingBackward", "ids", ids, tensor.I32, dy.Rows())
	want("EmbeddingBackward", "dtable", dtable, tensor.F32, dtable.Rows(), dy.Dim(-1))
	d.within("EmbeddingBackward", "ids", ids, dtable.Rows())
	d.ran("embedding_backward")
	if d.gpu == nil {
		cpu.EmbeddingBackward(dtable, dy, ids, pad)
		return
	}
	defer d.release(d.mark())
	row := dy.Matrix()
	sorted, partials := embeddingScratch(d.scratch, row.Rows, row.Cols)
	d.sortIDs(sorted, ids, pad)
	m := rowsOf(row).with("PIECE", embeddingPiece)
	threads := 32
	for threads < 256 && threads*width(row.DType, row.Cols) < row.Cols {
		threads *= 2
	}
	// The number of table rows that are read and written depends on the ids: they are not counted.
	d.launch(kernel{"op_embedding.cu", "embedding_backward", m}, line(row.Rows, threads),
		address(dtable.Addr), address(partials.Addr), addr(dy), addr(sorted), i32(row.Rows))
	rest := line(partials.Dim(0), threads)
	rest.blocks.Y = blocks(row.Cols/width(row.DType, row.Cols), 32)
	d.launch(kernel{"op_embedding.cu", "embedding_backward_rest", m}, rest,
		addr(dtable).movesSome(), addr(partials), addr(sorted), i32(row.Rows))
}

// embeddingPiece is the maximum number of rows of one id that a thread block adds up.
const embeddingPiece = 64

// embeddingScratch lays out the sorted ids, and the sums of all runs but the first of each id.
func embeddingScratch(cut cut, rows, dim int) (sorted, partials tensor.Tensor) {
	return cut("sorted ids", tensor.I64, rows), cut("dtable partials", tensor.F32, max(1, blocks(rows, embeddingPiece))-1,
		dim)
}

// within panics with the operation's name unless all integers are from 0 to n-1. On a GPU they are not checked: reading
// them back would wait for all queued work.
func (d *Device) within(op, operand string, x tensor.Tensor, n int) {
	if d.gpu != nil {
		return
	}
	for i, v := range x.I32() {
		if v < 0 || int(v) >= n {
			panic(fmt.Sprintf("%s: %s[%d] is %d: must be from 0 to %d", op, operand, i, v, n-1))
		}
	}
}
