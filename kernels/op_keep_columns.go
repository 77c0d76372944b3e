package kernels

import (
	"fmt"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// KeepColumns copies the columns that belong to a row, and zeroes the others:
//
//	y[r,j] = x[r,j]    if columns[r,0] ≤ j mod n < columns[r,1], otherwise 0
//
// x is [rows, parts·n], F32, BF16 or F16; columns is [rows, 2] I32; y is of the type and shape of x, and may be x. The
// zeros are +0, whatever x has in their places. A CPU panics unless 0 ≤ columns[r,0] ≤ columns[r,1] ≤ n; a GPU does not
// check.
func (d *Device) KeepColumns(y, x, columns tensor.Tensor, n int) {
	const op = "KeepColumns"
	floating(op, "x", x)
	want(op, "y", y, x.DType, x.Rows(), x.Dim(-1))
	want(op, "columns", columns, tensor.I32, x.Rows(), 2)
	if n < 1 || x.Dim(-1)%n != 0 {
		panic(fmt.Sprintf("%s: parts of %d columns: x has %d, which must be a multiple", op, n, x.Dim(-1)))
	}
	d.ran("keep_columns")
	if d.gpu == nil {
		for r, list := 0, columns.I32(); r < len(list); r += 2 {
			if list[r] < 0 || list[r+1] < list[r] || int(list[r+1]) > n {
				panic(fmt.Sprintf("%s: columns %d to %d of %d", op, list[r], list[r+1], n))
			}
		}
		cpu.KeepColumns(y.View(x.Rows(), x.Dim(-1)), x, columns, n)
		return
	}
	d.launch(kernel{"op_keep_columns.cu", "keep_columns", rowsOf(x.Matrix())}, each(vectors(x.Matrix())),
		addr(y), addr(x), addr(columns), i32(x.Rows()), i32(n))
}
