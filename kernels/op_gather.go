package kernels

import (
	"fmt"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// GatherRows copies selected rows of a matrix:
//
//	y[i] = x[index[i]]
//
// x is [rows, dim], index is [n] I32, y is [n, dim] of x's type. An index that is not a row is a programming error.
func (d *Device) GatherRows(y, x, index tensor.Tensor) {
	floating("GatherRows", "x", x)
	want("GatherRows", "index", index, tensor.I32, index.Len())
	want("GatherRows", "y", y, x.DType, index.Len(), x.Dim(-1))
	d.within("GatherRows", "index", index, x.Rows())
	d.ran("gather_rows")
	d.gather(y, x, index)
}

// gather copies the rows of x that index selects, one after the other.
func (d *Device) gather(y, x, index tensor.Tensor) {
	if d.gpu == nil {
		cpu.Gather(y, x, index)
		return
	}
	to := tensor.Matrix{Rows: index.Len(), Cols: x.Dim(-1), DType: x.DType}
	d.launch(kernel{"op_gather.cu", "gather_rows", rowsOf(to).with("ROWS", scatterRows(to))}, each(vectors(to)),
		addr(y), addr(x).moves(y.Bytes()), addr(index), i32(to.Rows))
}

// ScatterRows computes the gradient of GatherRows: rows return to where they came from, and all others become zero.
//
//	dx[index[i]] = dy[i], dx = 0 elsewhere
//
// dx is [rows, dim], dy is [n, dim] of the same type, index is [n] I32 and strictly increasing.
func (d *Device) ScatterRows(dx, dy, index tensor.Tensor) {
	floating("ScatterRows", "dx", dx)
	want("ScatterRows", "index", index, tensor.I32, index.Len())
	want("ScatterRows", "dy", dy, dx.DType, index.Len(), dx.Dim(-1))
	d.within("ScatterRows", "index", index, dx.Rows())
	if d.gpu == nil {
		list := index.I32()
		for i := 1; i < len(list); i++ {
			if list[i] <= list[i-1] {
				panic(fmt.Sprintf("ScatterRows: index[%d] is %d after %d: indices must increase", i, list[i], list[i-1]))
			}
		}
	}
	d.ran("scatter_rows")
	if d.gpu == nil {
		cpu.Scatter(dx, dy, index)
		return
	}
	to := dx.Matrix()
	rows := scatterRows(to)
	d.launch(kernel{"op_gather.cu", "scatter_rows", rowsOf(to).with("ROWS", rows)}, line(blocks(to.Rows, rows), 256),
		addr(dx), addr(dy), addr(index), i32(dx.Rows()), i32(index.Len()))
}

// scatterRows returns the number of rows that a block of 256 threads writes, so that each thread has four vectors.
func scatterRows(x tensor.Matrix) int { return max(1, 4*256*width(x.DType, x.Cols)/x.Cols) }
