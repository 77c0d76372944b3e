package cpu

/*
#include "float64.h"

#cgo noescape cpu_subtract_product
#cgo nocallback cpu_subtract_product
*/
import "C"

import "unsafe"

// Float64s is a matrix in a slice, whose rows start Stride elements apart.
type Float64s struct {
	X      []float64
	Stride int
}

// At returns the part of the matrix that starts at a row and a column.
func (m Float64s) At(row, column int) Float64s { return Float64s{m.X[row*m.Stride+column:], m.Stride} }

// SubtractProduct computes c -= a·b, where a is [m, k], b is [k, n] and c is [m, n]. If upper, what is below the
// diagonal of c is undefined afterwards, and half of the work is saved.
//
// The products are subtracted one by one, in the order of k, each rounded to float64 before: the same bits at every
// level.
func SubtractProduct(m, n, k int, c, a, b Float64s, upper bool) {
	if m == 0 || n == 0 || k == 0 {
		return
	}
	flag := 0
	if upper {
		flag = 1
	}
	matrix := func(f Float64s) C.float64_matrix {
		return C.float64_matrix{at: (*C.double)(unsafe.Pointer(&f.X[0])), stride: C.int64_t(f.Stride)}
	}
	C.cpu_subtract_product(C.int64_t(m), C.int64_t(n), C.int64_t(k), matrix(c), matrix(a), matrix(b), C.int(flag))
}
