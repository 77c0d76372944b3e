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
	"cmp"
	"fmt"
	"syscall"
	"time"

	"restyle/tensor"
)

// A Product is a product that Gemm computes: C = Alpha·(A·B + A2·B2) (+ Bias) (+ C), where A is [m, k], B is [k, n] and
// C is [m, n]. Or it is a batch of such products; then the matrices are the first product's.
type Product struct {
	C, A, B        tensor.Matrix // F32, BF16 or F16, A and B alike; C must not overlap them
	A2, B2         tensor.Matrix // as A and B, with another k; the zero value: no second pair, which a batch never has
	TransA, TransB bool          // the operand is stored transposed: A as [k, m], B as [n, k]
	Bias           uintptr       // address of n elements of A's type that are added to each row; 0: none
	Add            bool          // add to C instead of overwriting it
	Alpha          float32       // 0: 1
	Act            Activation    // C = Act(…) of what it would be; Add must be false
	Pre            uintptr       // address of rows of n elements of C's type that get what Act gets; 0: none
	Batch          [2]Batch      // in two dimensions, the second within the first; the zero value is a single product
	Alone          bool          // a row of C has the same bits whatever the number of rows is
}

// A Batch is a dimension along which a product is repeated N times; 0 means once. A, B and C are the distances in
// elements from one product to the next. If A or B is 0, all share that operand. If C is 0, the products are added up,
// one after the other.
type Batch struct{ N, A, B, C int }

// An Activation may follow a product.
type Activation int

// The activations, as in C.
const (
	NoActivation Activation = iota
	ActGELU
	ActGELUTanh
	ActSiLU
)

// Factor returns Alpha, or 1 if it is not set.
func (p Product) Factor() float32 { return cmp.Or(p.Alpha, 1) }

// Along calls f with each product along one dimension of p's batch, in turn.
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

// GemmWorkspace returns the bytes that each thread uses for packed operands, from its first product on.
func GemmWorkspace() int { return int(C.cpu_gemm_workspace()) }

// Gemm computes a product on the threads of the pool, and a batch one product after the other.
//
// Sums are in float32, and each is rounded once, when it is stored. Their order depends only on k and the level,
// neither on the other sizes nor on the number of threads, except that a product with at most eight rows has an order
// of its own. Rows that are Alone have that order whatever their number, or on AMX the other order. A NaN or an
// infinity affects only the elements of C that it takes part in. At levels with bfloat16 dot products, subnormal
// numbers count as zero.
//
// Gemm panics if the operands do not fit each other, or if there is no memory for packed operands, about 4 MB per
// thread.
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
	if m < 0 || n < 0 || rows != m || bRows != k || bCols != n || p.A.DType != p.B.DType || !valid(p.A) || !valid(p.B) ||
		!valid(p.C) {
		panic(fmt.Sprintf("cpu.Gemm: %+v", p))
	}
	args := p.args()
	if errno := C.cpu_gemm(&args); errno != 0 {
		panic(fmt.Sprintf("cpu.Gemm: [%d, %d]·[%d, %d]: %v", m, k, k, n, syscall.Errno(errno)))
	}
}

// GemmCoded is Gemm for a B that is transposed and quantized, with its values rounded to A's type, as DequantizeRows
// computes them, and A's rows Alone. It computes the values where it needs them. If rows are too long for that, or on
// AMX too many, it computes nothing and returns false.
func GemmCoded(p Product) bool {
	if !p.TransB || p.TransA || p.B.Rows != p.C.Cols || p.B.Cols != p.A.Cols || p.A.Rows != p.C.Rows || !valid(p.A) ||
		!valid(p.C) || !p.B.DType.Quantized() || p.B.Addr == 0 {
		panic(fmt.Sprintf("cpu.GemmCoded: %+v", p))
	}
	p.Alone = true
	args := p.args()
	args.coded, args.ldb = C.dtype(p.B.DType), C.int64_t(p.B.DType.RowBytes(p.B.Cols))
	return C.cpu_gemm(&args) == 0
}

func (p Product) args() C.cpu_gemm_args {
	k, k2 := p.A.Cols, 0
	if p.TransA {
		k = p.A.Rows
	}
	if p.B2.Addr != 0 {
		k2 = p.A2.Cols
		p.checkSecond()
	}
	return C.cpu_gemm_args{
		m: C.int64_t(p.C.Rows), n: C.int64_t(p.C.Cols), k: C.int64_t(k),
		a: C.uintptr_t(p.A.Addr), b: C.uintptr_t(p.B.Addr), c: C.uintptr_t(p.C.Addr), bias: C.uintptr_t(p.Bias),
		lda: C.int64_t(p.A.Stride), ldb: C.int64_t(p.B.Stride), ldc: C.int64_t(p.C.Stride),
		k2: C.int64_t(k2), a2: C.uintptr_t(p.A2.Addr), b2: C.uintptr_t(p.B2.Addr),
		lda2: C.int64_t(p.A2.Stride), ldb2: C.int64_t(p.B2.Stride),
		trans_a: flag(p.TransA), trans_b: flag(p.TransB),
		_type: C.dtype(p.A.DType), c_type: C.dtype(p.C.DType), accumulate: flag(p.Add),
		alpha: C.float(p.Factor()), act: C.activation(p.Act), pre: C.uintptr_t(p.Pre), alone: flag(p.Alone),
	}
}

// checkSecond panics unless the second pair of operands fits the first.
func (p Product) checkSecond() {
	k, columns := p.B2.Rows, p.B2.Cols
	if p.TransB {
		k, columns = columns, k
	}
	if p.TransA || p.A2.Rows != p.C.Rows || k != p.A2.Cols || columns != p.C.Cols || p.A2.DType != p.A.DType ||
		p.B2.DType != p.A.DType || !valid(p.A2) || !valid(p.B2) {
		panic(fmt.Sprintf("cpu.Gemm: second pair of operands: %+v", p))
	}
}

// valid reports whether a matrix can be multiplied: its type is F32, BF16 or F16, and it has an address unless it is
// empty.
func valid(x tensor.Matrix) bool {
	return x.DType.Computes() && x.Rows >= 0 && x.Cols >= 0 &&
		(x.Rows < 2 || x.Stride >= x.Cols) && (x.Addr != 0 || x.Rows == 0 || x.Cols == 0)
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// ColumnSums adds to each of sums the sum of a column of x: the gradient of a bias. Each is F32, BF16 or F16. The
// sums are computed in float32 and rounded once.
func ColumnSums(sums tensor.Tensor, x tensor.Matrix) { C.cpu_column_sums(c(sums.Matrix()), c(x)) }

// Peak returns the floating-point operations per second that all threads reach in a loop that stays in registers, with
// the instructions of products of that type at the current level: the ceiling of Gemm. It is the best of the runs that
// fit into the time.
func Peak(t tensor.DType, d time.Duration) float64 {
	return float64(C.cpu_gemm_peak(C.dtype(t), C.double(d.Seconds())))
}

// CopyRate returns the bytes per second that all threads together read and write when they copy memory outside all
// caches: the ceiling of operations that stream through memory. It is the best of the runs that fit into the time, and
// needs 512 MiB.
func CopyRate(d time.Duration) float64 { return float64(C.cpu_copy_rate(C.double(d.Seconds()))) }
