package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// product computes a matrix product: the one way to it for all operations.
func (d *Device) product(p cpu.Product) {
	if d.gpu == nil {
		cpu.Gemm(p)
		return
	}
	if d.err == nil && d.gpu.blas.multiply(d, p) {
		return
	}
	const tile = 64
	m, n := p.C.Rows, p.C.Cols
	aRow, aCol, depth := strides(p.A, p.TransA)
	bRow, bCol, _ := strides(p.B, p.TransB)
	to := macros{{p.A.DType.String(), 1}, {"C_" + p.C.DType.String(), 1}}
	d.launch(kernel{"product.cu", "product", to}, line(blocks(m, tile)*blocks(n, tile), 256),
		uint64(p.C.Addr), i64(p.C.Stride), uint64(p.A.Addr), i64(aRow), i64(aCol), uint64(p.B.Addr), i64(bRow), i64(bCol),
		uint64(p.Bias), i32(m), i32(n), i32(depth), flag(p.Add))
}

// strides is how many elements apart the rows and the columns of x lie, and how many columns it has, or those of its
// transpose.
func strides(x tensor.Matrix, transposed bool) (row, column, columns int) {
	if transposed {
		return 1, x.Stride, x.Rows
	}
	return x.Stride, 1, x.Cols
}
