package cpu

/*
#include "attention.h"

#cgo noescape cpu_attention_forward
#cgo nocallback cpu_attention_forward
#cgo noescape cpu_attention_backward
#cgo nocallback cpu_attention_backward
#cgo noescape cpu_attention_decode
#cgo nocallback cpu_attention_decode
#cgo noescape cpu_attention_decode_scratch
#cgo nocallback cpu_attention_decode_scratch
#cgo noescape cpu_attention_forward_scratch
#cgo nocallback cpu_attention_forward_scratch
#cgo noescape cpu_attention_backward_scratch
#cgo nocallback cpu_attention_backward_scratch
*/
import "C"

import (
	"unsafe"

	"restyle/tensor"
)

// AttentionArgs are the arguments of attention, as kernels.Attention and kernels.AttentionCached describe them.
type AttentionArgs struct {
	Q, K, V, Y     tensor.Matrix // of one type; a head has HeadDim columns of Q and Y, a key/value head of K and V
	DQ, DK, DV, DY tensor.Matrix // for Backward
	LSE            uintptr       // [heads, rows] floats; 0 if it is not wanted
	// Sequence s has rows CuSeqlens[s] to CuSeqlens[s+1] of Q, K and V.
	CuSeqlens []int32
	// Ahead is the number of rows of K and V before the rows of Q, if there is one sequence.
	Ahead                   int
	Heads, KVHeads, HeadDim int
	Causal                  bool // a query sees no key after its own position
	Window                  int  // maximum number of keys that a query sees, if Causal; 0: all
	Divisor                 float64
}

func (a *AttentionArgs) c(scratch uintptr) C.cpu_attention {
	return C.cpu_attention{
		q: c(a.Q), k: c(a.K), v: c(a.V), y: c(a.Y), dq: c(a.DQ), dk: c(a.DK), dv: c(a.DV), dy: c(a.DY),
		lse: C.uintptr_t(a.LSE), scratch: C.uintptr_t(scratch), ahead: C.int64_t(a.Ahead),
		rows: C.int64_t(a.CuSeqlens[len(a.CuSeqlens)-1]), n_seqs: C.int32_t(len(a.CuSeqlens) - 1),
		heads: C.int32_t(a.Heads), kv_heads: C.int32_t(a.KVHeads), head_dim: C.int32_t(a.HeadDim),
		causal: C.int32_t(flag(a.Causal)), window: C.int32_t(a.Window),
		divisor: C.double(a.Divisor),
	}
}

func (a *AttentionArgs) seqs() *C.int32_t { return (*C.int32_t)(unsafe.SliceData(a.CuSeqlens)) }

// ForwardScratch returns the bytes of scratch memory that Forward needs. They do not grow with the square of any size.
func (a *AttentionArgs) ForwardScratch() int {
	c := a.c(0)
	return int(C.cpu_attention_forward_scratch(&c))
}

// BackwardScratch returns the bytes of scratch memory that Backward needs.
func (a *AttentionArgs) BackwardScratch() int {
	c := a.c(0)
	return int(C.cpu_attention_backward_scratch(&c, a.seqs()))
}

// Forward computes Y, and LSE if it is wanted.
func (a *AttentionArgs) Forward(scratch uintptr) {
	c := a.c(scratch)
	C.cpu_attention_forward(&c, a.seqs())
}

// Backward computes DQ, DK and DV.
func (a *AttentionArgs) Backward(scratch uintptr) {
	c := a.c(scratch)
	C.cpu_attention_backward(&c, a.seqs())
}

// DecodeScratch returns the bytes of scratch memory that Decode needs.
func (a *AttentionArgs) DecodeScratch() int {
	c := a.c(0)
	return int(C.cpu_attention_decode_scratch(&c))
}

// Decode is Forward for one query, without LSE, in the order in which K and V are in memory.
func (a *AttentionArgs) Decode(scratch uintptr) {
	c := a.c(scratch)
	C.cpu_attention_decode(&c)
}
