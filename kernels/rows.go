package kernels

import (
	"fmt"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// GatherRows takes some rows of a matrix:
//
//	y[i] = x[index[i]]
//
// x is [rows, dim], index is [n] I32, y is [n, dim] of x's type. An index that is no row is a mistake of the program.
func (d *Device) GatherRows(y, x, index tensor.Tensor) {
	d.onlyCPU("GatherRows")
	floating("GatherRows", "x", x)
	want("GatherRows", "index", index, tensor.I32, index.Len())
	want("GatherRows", "y", y, x.DType, index.Len(), x.Dim(-1))
	d.within("GatherRows", "index", index, x.Rows())
	d.ran("gather_rows")
	cpu.Gather(y, x, index)
}

// ScatterRows is the gradient of GatherRows: rows go back to where they came from, and the others become zero.
//
//	dx[index[i]] = dy[i], dx = 0 elsewhere
//
// dx is [rows, dim], dy is [n, dim] of the same type, index is [n] I32 and strictly increasing.
func (d *Device) ScatterRows(dx, dy, index tensor.Tensor) {
	d.onlyCPU("ScatterRows")
	floating("ScatterRows", "dx", dx)
	want("ScatterRows", "index", index, tensor.I32, index.Len())
	want("ScatterRows", "dy", dy, dx.DType, index.Len(), dx.Dim(-1))
	d.within("ScatterRows", "index", index, dx.Rows())
	if d.gpu == nil {
		list := index.I32()
		for i := 1; i < len(list); i++ {
			if list[i] <= list[i-1] {
				panic(fmt.Sprintf("ScatterRows: index[%d] is %d after %d; it has to increase", i, list[i], list[i-1]))
			}
		}
	}
	d.ran("scatter_rows")
	cpu.Scatter(dx, dy, index)
}
