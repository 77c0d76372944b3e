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
// table is [vocab, dim], ids is [rows] I32, y is [rows, dim] of the table's type. An id that is no row of the table is a
// mistake of the program.
func (d *Device) Embedding(y, table, ids tensor.Tensor) {
	floating("Embedding", "table", table)
	want("Embedding", "ids", ids, tensor.I32, ids.Len())
	want("Embedding", "y", y, table.DType, ids.Len(), table.Dim(-1))
	d.within("Embedding", "ids", ids, table.Rows())
	d.ran("embedding")
	d.gather(y, table, ids)
}

// EmbeddingBackward adds the gradient of each row to that of the table's row which it came from, in the order of rows:
//
//	dtable[ids[r]] += dy[r]   where ids[r] ≠ pad
//
// dtable is [vocab, dim] F32, dy is [rows, dim] F32 or BF16. A pad of -1 is none.
func (d *Device) EmbeddingBackward(dtable, dy, ids tensor.Tensor, pad int) {
	d.onlyCPU("EmbeddingBackward")
	floating("EmbeddingBackward", "dy", dy)
	want("EmbeddingBackward", "ids", ids, tensor.I32, dy.Rows())
	want("EmbeddingBackward", "dtable", dtable, tensor.F32, dtable.Rows(), dy.Dim(-1))
	d.within("EmbeddingBackward", "ids", ids, dtable.Rows())
	d.ran("embedding_backward")
	cpu.EmbeddingBackward(dtable, dy, ids, pad)
}

// within panics with the operation's name unless all integers are from 0 to n-1. On a GPU they are not looked at: reading
// them back would wait for all that was started.
func (d *Device) within(op, operand string, x tensor.Tensor, n int) {
	if d.gpu != nil {
		return
	}
	for i, v := range x.I32() {
		if v < 0 || int(v) >= n {
			panic(fmt.Sprintf("%s: %s[%d] is %d, not one of 0 to %d", op, operand, i, v, n-1))
		}
	}
}
