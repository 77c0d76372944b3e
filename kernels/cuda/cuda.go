// Package cuda opens NVIDIA's driver and its run-time compiler NVRTC when the program runs, and gives the little of them
// that the operations need: memory, copies, launches, timing, and compiling CUDA C++ for the GPU that is there. Nothing of
// CUDA is needed to build it, and a machine without a GPU learns so from an error.
//
// Work is queued on one stream a GPU and is done in the order of the calls. A GPU may be used from any goroutine, and
// needs no locked thread: every call binds the GPU's context to the thread that it runs on. A goroutine that needs an
// order between its calls and another's must arrange it.
//
// After a fault a GPU answers nothing but that fault. So the first error sticks: calls after it do nothing and return it,
// and Launch, which returns none, leaves it to Sync. Running out of memory, and an image or a kernel that is not to be had, are
// errors of their call alone.
package cuda

/*
#cgo CFLAGS: -O2 -std=gnu11 -Wall
#cgo linux LDFLAGS: -ldl

#include "shim.h"
*/
import "C"

import "fmt"

// An Error is what a function of the driver, of NVRTC or of cuBLASLt answered.
type Error struct {
	Op   string // what was being done, with its object: "allocate 4096 bytes", "launch swiglu_forward"
	Code int    // the library's number
	Name string // the driver's name for it, such as "CUDA_ERROR_ILLEGAL_ADDRESS"; of others the library's own name
	Text string // the library's words for it
	Cure string // what to do about it, "" if nobody knows

	opening bool // no work was lost
}

// Error is all of it, as in "launch swiglu_forward: CUDA_ERROR_INVALID_VALUE: invalid argument".
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

// OutOfMemory says that the GPU's memory did not suffice.
func (e *Error) OutOfMemory() bool { return e.Name == "CUDA_ERROR_OUT_OF_MEMORY" } // other libraries mean something else by 2

func newError(op string, s C.cuda_status) *Error {
	return &Error{Op: op, Code: int(s.code), Name: C.GoString(s.name), Text: C.GoString(s.text), Cure: cures[int(s.code)]}
}
