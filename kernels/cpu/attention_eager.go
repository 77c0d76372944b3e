package cpu

/*
#include "attention_eager.h"

#cgo noescape cpu_softmax
#cgo nocallback cpu_softmax
#cgo noescape cpu_softmax_again
#cgo nocallback cpu_softmax_again
#cgo noescape cpu_softmax_backward
#cgo nocallback cpu_softmax_backward
#cgo noescape cpu_head_dots
#cgo nocallback cpu_head_dots
#cgo noescape cpu_store_rows
#cgo nocallback cpu_store_rows
*/
import "C"

import "restyle/tensor"

// Scores is all scores of one sequence, [Heads][Len][Len]: query i sees the keys from i down to Window-1 before it, or all
// where Window is 0.
type Scores struct {
	Scores     uintptr // floats, not yet scaled
	Weights    uintptr // of the type
	Heads, Len int
	Window     int
	Scale      float32
	Type       tensor.DType
	LSE        uintptr // of head h and query i at h·LSEStride + i, floats
	LSEStride  int
}

func (s *Scores) c() C.cpu_scores {
	return C.cpu_scores{
		scores: C.uintptr_t(s.Scores), weights: C.uintptr_t(s.Weights), heads: C.int64_t(s.Heads), len: C.int64_t(s.Len),
		window: C.int64_t(s.Window), scale: C.float(s.Scale), _type: C.dtype(s.Type), lse: C.uintptr_t(s.LSE), lse_stride: C.int64_t(s.LSEStride),
	}
}

// Softmax makes weights of scores, and LSE; what is not seen gets the weight 0. The scores are used up.
func (s *Scores) Softmax() {
	c := s.c()
	C.cpu_softmax(&c)
}

// SoftmaxAgain makes weights of scores and LSE.
func (s *Scores) SoftmaxAgain() {
	c := s.c()
	C.cpu_softmax_again(&c)
}

// SoftmaxBackward turns Weights into the gradients of the scores, where Scores holds the gradients of the weights and
// delta, [heads][len] floats, Σ dy·y.
func (s *Scores) SoftmaxBackward(delta uintptr) {
	c := s.c()
	C.cpu_softmax_backward(&c, C.uintptr_t(delta))
}

// HeadDots is out[h][i] = the product of head h of row i of x and y, [length][heads·dim].
func HeadDots(out, x, y uintptr, heads, length, dim int, t tensor.DType) {
	C.cpu_head_dots(C.uintptr_t(out), C.uintptr_t(x), C.uintptr_t(y), C.int64_t(heads), C.int64_t(length), C.int64_t(dim), C.dtype(t))
}

// StoreRows rounds n rows of dim floats each to the type of to, and stores them there.
func StoreRows(to Operand, from uintptr, n, dim int, t tensor.DType) {
	C.cpu_store_rows(C.uintptr_t(to.Addr), C.int64_t(to.Stride), C.uintptr_t(from), C.int64_t(n), C.int64_t(dim), C.dtype(t))
}
