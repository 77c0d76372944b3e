// Package cuda opens NVIDIA's driver and its run-time compiler NVRTC while the program runs, and offers the few
// functions of them that the operations need: memory, copies, launches, timing, and compiling CUDA C++ for the GPU at
// hand. No part of CUDA is needed to build it. On a machine without a GPU, Open returns an error.
//
// Work is queued on one stream per GPU and runs in the order of the calls. Any goroutine may use a GPU, without locking
// its thread: every call binds the GPU's context to the thread that it runs on. If the calls of several goroutines need
// an order, the goroutines must arrange it.
//
// After a fault a GPU returns nothing but that fault. So the first error sticks: later calls do nothing and return it,
// except Launch, which returns no error and leaves it to Sync. Running out of memory, and failing to load an image or
// find a kernel, are errors of that call only.
package cuda

/*
#cgo CFLAGS: -O2 -std=gnu11 -Wall
#cgo linux LDFLAGS: -ldl

#include "shim.h"
*/
import "C"

import "fmt"

// An Error is an error code returned by the driver, NVRTC or cuBLASLt.
type Error struct {
	Op   string // what failed, with its object: "allocate 4096 bytes", "launch swiglu_forward"
	Code int    // the library's number
	Name string // the driver's name for the code, such as "CUDA_ERROR_ILLEGAL_ADDRESS"; for other libraries their own name
	Text string // the library's description
	Cure string // the remedy, "" if none is known

	opening bool // no work was lost
}

// Error returns all of it, as in "launch swiglu_forward: CUDA_ERROR_INVALID_VALUE: invalid argument".
func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %s: %s", e.Op, e.Name, e.Text)
	if e.Name == e.Text {
		text = fmt.Sprintf("%s: %s %d", e.Op, e.Name, e.Code)
	}
	if e.Cure != "" {
		text += ": " + e.Cure
	}
	return text
}

// OutOfMemory reports whether the GPU had too little memory. Code 2 means something else in other libraries.
func (e *Error) OutOfMemory() bool { return e.Name == "CUDA_ERROR_OUT_OF_MEMORY" }

func newError(op string, s C.cuda_status) *Error {
	return &Error{Op: op, Code: int(s.code), Name: C.GoString(s.name), Text: C.GoString(s.text), Cure: cures[int(s.code)]}
}
