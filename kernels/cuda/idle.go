package cuda

/*
#include "shim.h"
*/
import "C"

// OpenIdle opens a GPU that has the given properties but does nothing: its memory has addresses but no bytes, and
// everything read from it is zero. A program that runs on it shows which kernels it would launch. No GPU or driver is
// needed.
func OpenIdle(p Properties) (*GPU, error) {
	g, err := use(C.cuda_idle_driver(), 0)
	if err == nil {
		g.Properties = p
	}
	return g, err
}
