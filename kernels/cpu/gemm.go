package cpu

/*
#include "gemm.h"

#cgo noescape cpu_gemm
#cgo nocallback cpu_gemm
#cgo noescape cpu_column_sums
#cgo nocallback cpu_column_sums
#cgo nocallback cpu_gemm_peak
#cgo nocallback cpu_copy_rate
*/
import "C"

import (
	"fmt"
	"syscall"
	"time"

	"restyle/tensor"
)

// A Product is what Gemm computes: C = A·B (+ Bias) (+ C), where A is [m, k], B is [k, n] and C is [m, n]; or a batch of such
// products, of which the matrices are the first's.
type Product struct {
	C, A, B        tensor.Matrix // F32 or BF16, A and B alike; C must not overlap them
	TransA, TransB bool          // it lies in memory as its transpose: A as [k, m], B as [n, k]
	Bias           uintptr       // the address of n elements, of A's type, that are added to each row; 0: none
	Add            bool          // add to what C holds, instead of overwriting it
	Batch          [2]Batch      // along two dimensions, the second within the first; the zero value is one product
}

// A Batch is a dimension along which a product is repeated, so many times; 0 is once. From one to the next, operands lie so many
// elements further. Where A or B is 0, all have the same one. Where C is 0, they are added up, one after the other.
type Batch struct{ N, A, B, C int }

// Along calls f with what p has along one dimension of its batch, in turn.
func (p Product) Along(dimension int, f func(Product)) {
	b := p.Batch[dimension]
	p.Batch[dimension] = Batch{}
	for range max(1, b.N) {
		f(p)
		p.A.Addr += uintptr(b.A * p.A.DType.Size())
		p.B.Addr += uintptr(b.B * p.B.DType.Size())
		p.C.Addr += uintptr(b.C * p.C.DType.Size())
		if b.C == 0 {
			p.Add, p.Bias = true, 0
		}
	}
}

// GemmWorkspace is how many bytes each thread takes for what it packs, from its first product on.
func GemmWorkspace() int { return int(C.cpu_gemm_workspace()) }

// Gemm computes a product on the threads of the pool; those of a batch one after the other.
//
// Sums are in float32 and each is rounded once, when it is stored; their order depends on k and the level alone: neither on
// the other sizes nor on the number of threads, but that a product with at most eight rows has an order of its own.
// A NaN or an infinity shows in the elements of C that it takes part in, and in no others. At levels with dot products of
// bfloat16, subnormal ones count as zero.
//
// It panics when operands do not fit each other, or when there is no memory for what it packs, about 2 MB a thread.
func Gemm(p Product) {
	for dimension, b := range p.Batch {
		if b.N > 1 {
			p.Along(dimension, Gemm)
			return
		}
	}
	m, n := p.C.Rows, p.C.Cols
	if m == 0 || n == 0 {
		return
	}
	k, rows := p.A.Cols, p.A.Rows
	if p.TransA {
		k, rows = rows, k
	}
	bRows, bCols := p.B.Rows, p.B.Cols
	if p.TransB {
		bRows, bCols = bCols, bRows
	}
	if m < 0 || n < 0 || rows != m || bRows != k || bCols != n || p.A.DType != p.B.DType || !valid(p.A) || !valid(p.B) || !valid(p.C) {
		panic(fmt.Sprintf("cpu.Gemm: %+v", p))
	}
	args := C.cpu_gemm_args{
		m: C.int64_t(m), n: C.int64_t(n), k: C.int64_t(k),
		a: C.uintptr_t(p.A.Addr), b: C.uintptr_t(p.B.Addr), c: C.uintptr_t(p.C.Addr), bias: C.uintptr_t(p.Bias),
		lda: C.int64_t(p.A.Stride), ldb: C.int64_t(p.B.Stride), ldc: C.int64_t(p.C.Stride),
		trans_a: flag(p.TransA), trans_b: flag(p.TransB),
		_type: C.dtype(p.A.DType), c_type: C.dtype(p.C.DType), accumulate: flag(p.Add),
	}
	if errno := C.cpu_gemm(&args); errno != 0 {
		panic(fmt.Sprintf("cpu.Gemm: [%d, %d]·[%d, %d]: %v", m, k, k, n, syscall.Errno(errno)))
	}
}

// valid tells whether a matrix can be multiplied: of a type that has products, and there if it has elements.
func valid(x tensor.Matrix) bool {
	return (x.DType == tensor.F32 || x.DType == tensor.BF16) && x.Rows >= 0 && x.Cols >= 0 &&
		(x.Rows < 2 || x.Stride >= x.Cols) && (x.Addr != 0 || x.Rows == 0 || x.Cols == 0)
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// ColumnSums adds to each of sums the sum of a column of x: the gradient of a bias. Each is F32 or BF16; the sums are added up in
// float32 and rounded once.
func ColumnSums(sums tensor.Tensor, x tensor.Matrix) { C.cpu_column_sums(c(sums.Matrix()), c(x)) }

// Peak is how many floating-point operations a second all threads do together in a loop that never leaves the registers,
// with the instructions that products of F32 or BF16 use at the current level: Gemm's ceiling. It is the best of what fits into
// the time.
func Peak(t tensor.DType, d time.Duration) float64 {
	return float64(C.cpu_gemm_peak(C.dtype(t), C.double(d.Seconds())))
}

// CopyRate is how many bytes a second all threads together read and write when they copy memory that no cache holds: the
// ceiling of what only streams through memory. It is the best of what fits into the time, and needs 512 MiB.
func CopyRate(d time.Duration) float64 { return float64(C.cpu_copy_rate(C.double(d.Seconds()))) }
