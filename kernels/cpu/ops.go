package cpu

/*
#include "ops.h"

#cgo noescape cpu_add
#cgo nocallback cpu_add
#cgo noescape cpu_mul
#cgo nocallback cpu_mul
#cgo noescape cpu_silu
#cgo nocallback cpu_silu
#cgo noescape cpu_silu_backward
#cgo nocallback cpu_silu_backward
#cgo noescape cpu_swiglu
#cgo nocallback cpu_swiglu
#cgo noescape cpu_swiglu_backward
#cgo nocallback cpu_swiglu_backward
#cgo nocallback cpu_norm_block
#cgo noescape cpu_rmsnorm
#cgo nocallback cpu_rmsnorm
#cgo noescape cpu_add_rmsnorm
#cgo nocallback cpu_add_rmsnorm
#cgo noescape cpu_rmsnorm_backward
#cgo nocallback cpu_rmsnorm_backward
#cgo noescape cpu_qknorm
#cgo nocallback cpu_qknorm
#cgo noescape cpu_qknorm_backward
#cgo nocallback cpu_qknorm_backward
#cgo noescape cpu_rope
#cgo nocallback cpu_rope
#cgo noescape cpu_cross_entropy
#cgo nocallback cpu_cross_entropy
#cgo noescape cpu_log_softmax
#cgo nocallback cpu_log_softmax
#cgo noescape cpu_nll
#cgo nocallback cpu_nll
#cgo noescape cpu_nll_backward
#cgo nocallback cpu_nll_backward
#cgo noescape cpu_gather
#cgo nocallback cpu_gather
#cgo noescape cpu_scatter
#cgo nocallback cpu_scatter
#cgo noescape cpu_embedding_backward
#cgo nocallback cpu_embedding_backward
*/
import "C"

import "restyle/tensor"

// The operations of package kernels on rows and elements, by the same names; there are their formulas, their shapes and the
// checks. Here nothing is checked. Those between them that are named for no operation are parts of unfused ones.

func at(x tensor.Tensor) C.uintptr_t { return C.uintptr_t(x.Addr) }
func size(n int) C.int64_t           { return C.int64_t(n) }
func bf16(x tensor.Tensor) C.int     { return flag(x.DType == tensor.BF16) }

// Columns is a matrix, or some of its columns.
type Columns struct {
	x           tensor.Tensor
	first, cols int
}

// All is all columns of a matrix, and Cut those from lo to hi.
func All(x tensor.Tensor) Columns { return Cut(x, 0, x.Dim(-1)) }

// Cut is the columns of a matrix from lo to hi.
func Cut(x tensor.Tensor, lo, hi int) Columns { return Columns{x, lo, hi - lo} }

// Addr is the address of the first element, and Stride the elements from one row to the next.
func (c Columns) Addr() uintptr { return c.x.Addr + uintptr(c.first*c.x.DType.Size()) }
func (c Columns) Stride() int   { return c.x.Dim(-1) }

// Size is the rows and columns, and the elements' type.
func (c Columns) Size() (rows, cols int, t tensor.DType) { return c.x.Rows(), c.cols, c.x.DType }

func (c Columns) c() C.columns {
	return C.columns{at: C.uintptr_t(c.x.Addr + uintptr(c.first*c.x.DType.Size())), ld: size(c.x.Dim(-1))}
}

func (c Columns) sizes() (rows, cols C.int64_t, half C.int) {
	return size(c.x.Rows()), size(c.cols), bf16(c.x)
}

// Add is y = a + b.
func Add(y, a, b tensor.Tensor) { C.cpu_add(at(y), at(a), at(b), size(y.Len()), bf16(y)) }

// Mul is y = a · b, element by element.
func Mul(y, a, b Columns) {
	rows, cols, half := y.sizes()
	C.cpu_mul(y.c(), a.c(), b.c(), rows, cols, half)
}

// SiLU is y = x / (1 + e⁻ˣ).
func SiLU(y, x Columns) {
	rows, cols, half := y.sizes()
	C.cpu_silu(y.c(), x.c(), rows, cols, half)
}

// SiLUBackward is dx = dy · silu′(x).
func SiLUBackward(dx, dy, x Columns) {
	rows, cols, half := dx.sizes()
	C.cpu_silu_backward(dx.c(), dy.c(), x.c(), rows, cols, half)
}

// SwiGLU is y = silu(gate) · up.
func SwiGLU(y, gate, up Columns) {
	rows, cols, half := y.sizes()
	C.cpu_swiglu(y.c(), gate.c(), up.c(), rows, cols, half)
}

// SwiGLUBackward is the gradient of SwiGLU.
func SwiGLUBackward(dgate, dup, dy, gate, up Columns) {
	rows, cols, half := dy.sizes()
	C.cpu_swiglu_backward(dgate.c(), dup.c(), dy.c(), gate.c(), up.c(), rows, cols, half)
}

// RMSNorm is the norm of every row of x.
func RMSNorm(y, rstd, x, w tensor.Tensor, eps float32) {
	C.cpu_rmsnorm(at(y), at(rstd), at(x), at(w), size(y.Rows()), size(w.Len()), C.float(eps), bf16(y))
}

// AddRMSNorm is h = a + b, and the norm of every row of h.
func AddRMSNorm(y, rstd, h, a, b, w tensor.Tensor, eps float32) {
	C.cpu_add_rmsnorm(at(y), at(rstd), at(h), at(a), at(b), at(w), size(y.Rows()), size(w.Len()), C.float(eps), bf16(y))
}

// MostNormBlocks is the largest number that NormBlocks gives (MOST_BLOCKS of cpu_norm_block).
const MostNormBlocks = 64

// NormBlocks is how many blocks of rows have partial sums of dw, of rows that have so many elements.
func NormBlocks(rows, width int) int {
	block := int(C.cpu_norm_block(size(rows), size(width)))
	return (rows + block - 1) / block
}

// RMSNormBackward is the gradient of RMSNorm, added to dx where add is true. partials are [NormBlocks(rows, dim), dim], or no
// tensor where there is no dw.
func RMSNormBackward(dx, dw, dy, x, w, rstd, partials tensor.Tensor, add bool) {
	C.cpu_rmsnorm_backward(at(dx), at(dw), at(dy), at(x), at(w), at(rstd), at(partials), size(dx.Rows()), size(w.Len()),
		flag(add), bf16(dx))
}

// QKNorm is the norm of every head of q and k.
func QKNorm(y, rstd, qkv, wq, wk tensor.Tensor, heads, kvHeads int, eps float32) {
	C.cpu_qknorm(at(y), at(rstd), at(qkv), at(wq), at(wk), size(y.Rows()), size(heads), size(kvHeads), size(wq.Len()),
		C.float(eps), bf16(y))
}

// QKNormBackward is the gradient of QKNorm. partials are [NormBlocks(rows, elements of a row), 2·headDim], or no tensor where
// there is neither dwq nor dwk.
func QKNormBackward(dqkv, dwq, dwk, dy, qkv, wq, wk, rstd, partials tensor.Tensor, heads, kvHeads int) {
	C.cpu_qknorm_backward(at(dqkv), at(dwq), at(dwk), at(dy), at(qkv), at(wq), at(wk), at(rstd), at(partials),
		size(dqkv.Rows()), size(heads), size(kvHeads), size(wq.Len()), bf16(dqkv))
}

// RoPE turns the heads of q and k, or back.
func RoPE(qkv, positions, cos, sin tensor.Tensor, heads, kvHeads int, back bool) {
	C.cpu_rope(at(qkv), at(positions), at(cos), at(sin), size(qkv.Rows()), size(heads), size(kvHeads), size(2*cos.Dim(-1)),
		flag(back), bf16(qkv))
}

// CrossEntropy is the loss of each row, and the gradient, if dlogits is a tensor.
func CrossEntropy(loss, dlogits, logits, targets tensor.Tensor, scale float32) {
	C.cpu_cross_entropy(at(loss), at(dlogits), at(logits), at(targets), size(logits.Rows()), size(logits.Dim(-1)),
		C.float(scale), bf16(dlogits), bf16(logits))
}

// LogSoftmax is y = logits − log Σ exp(logits) of each row, in F32.
func LogSoftmax(y, logits tensor.Tensor) {
	C.cpu_log_softmax(at(y), at(logits), size(y.Rows()), size(y.Dim(-1)), bf16(logits))
}

// NLL is loss = −logp[target] of each row.
func NLL(loss, logp, targets tensor.Tensor) {
	C.cpu_nll(at(loss), at(logp), at(targets), size(logp.Rows()), size(logp.Dim(-1)))
}

// NLLBackward is dlogits = (exp(logp) − [i = target]) · scale.
func NLLBackward(dlogits, logp, targets tensor.Tensor, scale float32) {
	C.cpu_nll_backward(at(dlogits), at(logp), at(targets), size(logp.Rows()), size(logp.Dim(-1)), C.float(scale), bf16(dlogits))
}

// Gather is y[i] = x[index[i]], of whole rows.
func Gather(y, x, index tensor.Tensor) {
	C.cpu_gather(at(y), at(x), at(index), size(index.Len()), size(x.Dim(-1)*x.DType.Size()))
}

// Scatter is dx[index[i]] = dy[i], of whole rows, and zero elsewhere. index increases.
func Scatter(dx, dy, index tensor.Tensor) {
	C.cpu_scatter(at(dx), at(dy), at(index), size(index.Len()), size(dx.Rows()), size(dx.Dim(-1)*dx.DType.Size()))
}

// EmbeddingBackward is dtable[ids[r]] += dy[r] where the id is not pad.
func EmbeddingBackward(dtable, dy, ids tensor.Tensor, pad int) {
	C.cpu_embedding_backward(at(dtable), at(dy), at(ids), size(ids.Len()), size(dtable.Dim(-1)), C.int32_t(pad), bf16(dy))
}
