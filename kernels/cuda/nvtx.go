package cuda

/*
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import "unsafe"

// Ranges are named stretches of time on the time line of a profiler, usually Nsight Systems, through NVTX. Ranges of
// the same thread nest.
type Ranges struct{ handle C.uintptr_t }

// OpenRanges opens NVTX. It returns an error if there is no library or no profiler.
func OpenRanges() (*Ranges, error) {
	r := new(Ranges)
	err := search("no ranges for a profiler", append(libnvtx.paths(0), libnvToolsExt.paths(0)...),
		func(path string, message *C.char, size C.int) bool {
			p := C.CString(path)
			defer C.free(unsafe.Pointer(p))
			r.handle = C.cuda_open_nvtx(p, message, size)
			return r.handle != 0
		})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Begin starts a range on the calling thread.
func (r *Ranges) Begin(name string) {
	n := C.CString(name)
	C.cuda_begin_range(r.handle, n)
	C.free(unsafe.Pointer(n))
}

// End ends the range that started last on the calling thread.
func (r *Ranges) End() { C.cuda_end_range(r.handle) }
