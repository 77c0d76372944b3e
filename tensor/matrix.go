package tensor

import "fmt"

// A Matrix is rows of elements that need not follow each other, such as some columns of a tensor. The zero Matrix is none.
type Matrix struct {
	Addr       uintptr // of the first element
	Rows, Cols int
	Stride     int // elements from the beginning of a row to that of the next
	DType      DType
}

// Matrix is the tensor as rows of Dim(-1) elements.
func (t Tensor) Matrix() Matrix {
	if !t.Ok() {
		return Matrix{}
	}
	return Matrix{t.Addr, t.Rows(), t.Dim(-1), t.Dim(-1), t.DType}
}

// Columns is columns lo to hi of the tensor's rows. It panics when they are not there.
func (t Tensor) Columns(lo, hi int) Matrix {
	if lo < 0 || hi < lo || hi > t.Dim(-1) {
		panic(fmt.Sprintf("tensor: columns %d to %d of %v", lo, hi, t))
	}
	return Matrix{t.Addr + uintptr(lo*t.DType.Size()), t.Rows(), hi - lo, t.Dim(-1), t.DType}
}
