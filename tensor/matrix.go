package tensor

import "fmt"

// A Matrix consists of rows that need not be adjacent, such as some columns of a tensor. The zero Matrix means that
// there is none.
type Matrix struct {
	Addr       uintptr // of the first element
	Rows, Cols int
	Stride     int // elements from the start of a row to the start of the next
	DType      DType
}

// Matrix returns the tensor as rows of Dim(-1) elements.
func (t Tensor) Matrix() Matrix {
	if !t.Ok() {
		return Matrix{}
	}
	return Matrix{t.Addr, t.Rows(), t.Dim(-1), t.Dim(-1), t.DType}
}

// Columns returns columns lo to hi of the tensor's rows. It panics if they do not exist.
func (t Tensor) Columns(lo, hi int) Matrix {
	if lo < 0 || hi < lo || hi > t.Dim(-1) {
		panic(fmt.Sprintf("tensor: columns %d to %d of %v: out of range", lo, hi, t))
	}
	return Matrix{t.Addr + uintptr(lo*t.DType.Size()), t.Rows(), hi - lo, t.Dim(-1), t.DType}
}
