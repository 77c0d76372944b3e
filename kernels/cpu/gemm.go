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
)

// An Operand is a matrix in memory, row-major: the address of its first element, and how many elements further each row
// begins. One that is Transposed is stored so: its rows are the columns of the matrix that is meant.
type Operand struct {
	Addr       uintptr
	Stride     int
	Transposed bool
}

// A Product is what Gemm computes: C = A·B (+ Bias) (+ C), where A is [M, K], B is [K, N] and C is [M, N].
type Product struct {
	M, N, K int
	A, B, C Operand // C must neither be transposed nor overlap A or B
	Bias    uintptr // the address of N elements that are added to each row; 0: none
	BF16    bool    // A, B and Bias are bfloat16; else float32
	CBF16   bool    // C is
	Add     bool    // add to what C holds, instead of overwriting it
}

// GemmWorkspace is how many bytes each thread takes for what it packs, from its first product on.
func GemmWorkspace() int { return int(C.cpu_gemm_workspace()) }

// Gemm computes a product on the threads of the pool.
//
// Sums are in float32 and each is rounded once, when it is stored; their order depends on K and the level alone: neither on
// the other sizes nor on the number of threads, but that a product with at most eight rows has an order of its own.
// A NaN or an infinity shows in the elements of C that it takes part in, and in no others. At levels with dot products of
// bfloat16, subnormal ones count as zero.
//
// It panics when an operand does not fit the sizes, or when there is no memory for what it packs, about 2 MB a thread.
func Gemm(p Product) {
	if p.M == 0 || p.N == 0 {
		return
	}
	rows, columns := p.K, p.M
	if !p.A.Transposed {
		rows, columns = p.M, p.K
	}
	p.A.check("A", rows, columns)
	rows, columns = p.K, p.N
	if p.B.Transposed {
		rows, columns = p.N, p.K
	}
	p.B.check("B", rows, columns)
	p.C.check("C", p.M, p.N)
	if p.C.Transposed {
		panic("cpu.Gemm: C is transposed")
	}
	args := C.cpu_gemm_args{
		m: C.int64_t(p.M), n: C.int64_t(p.N), k: C.int64_t(p.K),
		a: C.uintptr_t(p.A.Addr), b: C.uintptr_t(p.B.Addr), c: C.uintptr_t(p.C.Addr), bias: C.uintptr_t(p.Bias),
		lda: C.int64_t(p.A.Stride), ldb: C.int64_t(p.B.Stride), ldc: C.int64_t(p.C.Stride),
		trans_a: flag(p.A.Transposed), trans_b: flag(p.B.Transposed),
		bf16: flag(p.BF16), c_bf16: flag(p.CBF16), accumulate: flag(p.Add),
	}
	if errno := C.cpu_gemm(&args); errno != 0 {
		panic(fmt.Sprintf("cpu.Gemm: [%d, %d]·[%d, %d]: %v", p.M, p.K, p.K, p.N, syscall.Errno(errno)))
	}
}

func (o Operand) check(name string, rows, columns int) {
	if rows < 0 || columns < 0 || rows > 1 && o.Stride < columns || rows > 0 && columns > 0 && o.Addr == 0 {
		panic(fmt.Sprintf("cpu.Gemm: %s is stored as [%d, %d] with rows %d elements apart at address %#x",
			name, rows, columns, o.Stride, o.Addr))
	}
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// ColumnSums adds to each of sums the sum of a column of a [rows, columns] matrix, which is bfloat16 or float32: the
// gradient of a bias. The sums are added up in float32 and rounded once.
func ColumnSums(sums uintptr, sumsBF16 bool, matrix Operand, bf16 bool, rows, columns int) {
	C.cpu_column_sums(C.uintptr_t(sums), flag(sumsBF16), C.uintptr_t(matrix.Addr), C.int64_t(matrix.Stride), flag(bf16),
		C.int64_t(rows), C.int64_t(columns))
}

// Peak is how many floating-point operations a second all threads do together in a loop that never leaves the registers,
// with the instructions that products of float32 or bfloat16 use at the current level: Gemm's ceiling. It is the best of
// what fits into the time.
func Peak(bf16 bool, d time.Duration) float64 {
	return float64(C.cpu_gemm_peak(flag(bf16), C.double(d.Seconds())))
}

// CopyRate is how many bytes a second all threads together read and write when they copy memory that no cache holds: the
// ceiling of what only streams through memory. It is the best of what fits into the time, and needs 512 MiB.
func CopyRate(d time.Duration) float64 { return float64(C.cpu_copy_rate(C.double(d.Seconds()))) }
