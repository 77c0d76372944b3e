package cpu

/*
#include "blocks.h"

#cgo noescape cpu_quantize_blocks
#cgo nocallback cpu_quantize_blocks
*/
import "C"

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"restyle/gguf"
)

// searched are the types whose scales are searched in C, and their bits.
var searched = map[gguf.Type]C.int{gguf.Q4_K: 4, gguf.Q5_K: 5, gguf.Q6_K: 6}

// chunk is how many elements a thread claims at a time.
const chunk = 1 << 16

// QuantizeBlocks does what t.Quantize does, with the same bytes and errors at every level, on as many threads as
// operations use. K types take a fraction of the time.
func QuantizeBlocks(t gguf.Type, dst []byte, src []float32) error {
	n, _ := t.Block()
	if n == 0 || len(src)%n != 0 || t.RowBytes(len(src)) != len(dst) {
		return t.Quantize(dst, src) // which says what is wrong
	}
	var next atomic.Int64
	var failed atomic.Bool
	var threads sync.WaitGroup
	for range Threads() {
		threads.Go(func() {
			for {
				to := int(next.Add(chunk))
				from := to - chunk
				if from >= len(src) {
					return
				}
				to = min(to, len(src))
				if quantizeChunk(t, dst[t.RowBytes(from):t.RowBytes(to)], src[from:to]) != nil {
					failed.Store(true)
				}
			}
		})
	}
	threads.Wait()
	if failed.Load() {
		return t.Check(dst, src) // which names the first element of all
	}
	return nil
}

func quantizeChunk(t gguf.Type, dst []byte, src []float32) error {
	bits, ok := searched[t]
	if !ok {
		return t.Quantize(dst, src)
	}
	C.cpu_quantize_blocks((*C.uint8_t)(unsafe.SliceData(dst)), (*C.float)(unsafe.SliceData(src)),
		C.int64_t(len(src)/256), bits)
	return t.Check(dst, src)
}
