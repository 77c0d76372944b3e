package cpu

/*
#include "attention.h"

#cgo noescape cpu_attention_forward
#cgo nocallback cpu_attention_forward
#cgo noescape cpu_attention_backward
#cgo nocallback cpu_attention_backward
#cgo noescape cpu_attention_decode
#cgo nocallback cpu_attention_decode
#cgo noescape cpu_attention_decode_space
#cgo nocallback cpu_attention_decode_space
#cgo noescape cpu_attention_forward_space
#cgo nocallback cpu_attention_forward_space
#cgo noescape cpu_attention_backward_space
#cgo nocallback cpu_attention_backward_space
*/
import "C"

import "unsafe"

func (o Operand) rows() C.cpu_matrix {
	return C.cpu_matrix{at: C.uintptr_t(o.Addr), stride: C.int64_t(o.Stride)}
}

// half is whether elements are bfloat16, in C.
func half(bf16 bool) C.int32_t {
	if bf16 {
		return 1
	}
	return 0
}

// AttentionArgs is what attends to what, as kernels.Attention and kernels.AttentionCached say.
type AttentionArgs struct {
	Q, K, V, Y     Operand // a head has HeadDim columns of Q and Y, a key/value head of K and V
	DQ, DK, DV, DY Operand // for Backward
	LSE            uintptr // [heads, rows] floats; 0 where nobody wants it
	// Sequence s has rows CuSeqlens[s] to CuSeqlens[s+1] of Q, K and V.
	CuSeqlens []int32
	// Ahead is the number of rows of K and V before those of Q, where there is one sequence.
	Ahead                           int
	Heads, KVHeads, HeadDim, Window int
	BF16                            bool // the type of all matrices; float32 otherwise
}

func (a *AttentionArgs) c(space uintptr) C.cpu_attention {
	return C.cpu_attention{
		q: a.Q.rows(), k: a.K.rows(), v: a.V.rows(), y: a.Y.rows(), dq: a.DQ.rows(), dk: a.DK.rows(), dv: a.DV.rows(), dy: a.DY.rows(),
		lse: C.uintptr_t(a.LSE), space: C.uintptr_t(space), ahead: C.int64_t(a.Ahead),
		rows: C.int64_t(a.CuSeqlens[len(a.CuSeqlens)-1]), n_seqs: C.int32_t(len(a.CuSeqlens) - 1),
		heads: C.int32_t(a.Heads), kv_heads: C.int32_t(a.KVHeads), head_dim: C.int32_t(a.HeadDim), window: C.int32_t(a.Window), bf16: half(a.BF16),
	}
}

func (a *AttentionArgs) seqs() *C.int32_t { return (*C.int32_t)(unsafe.SliceData(a.CuSeqlens)) }

// ForwardSpace is how many bytes of working memory Forward needs; it does not grow with the square of anything.
func (a *AttentionArgs) ForwardSpace() int {
	c := a.c(0)
	return int(C.cpu_attention_forward_space(&c))
}

// BackwardSpace is how many bytes of working memory Backward needs.
func (a *AttentionArgs) BackwardSpace() int {
	c := a.c(0)
	return int(C.cpu_attention_backward_space(&c, a.seqs()))
}

// Forward computes Y, and LSE where it is wanted.
func (a *AttentionArgs) Forward(space uintptr) {
	c := a.c(space)
	C.cpu_attention_forward(&c, a.seqs())
}

// Backward computes DQ, DK and DV.
func (a *AttentionArgs) Backward(space uintptr) {
	c := a.c(space)
	C.cpu_attention_backward(&c, a.seqs())
}

// DecodeSpace is how many bytes of working memory Decode needs.
func (a *AttentionArgs) DecodeSpace() int {
	c := a.c(0)
	return int(C.cpu_attention_decode_space(&c))
}

// Decode is Forward for one query, without LSE, in the order in which K and V lie in memory.
func (a *AttentionArgs) Decode(space uintptr) {
	c := a.c(space)
	C.cpu_attention_decode(&c)
}
