package cuda

/*
#include "shim.h"
*/
import "C"

// OpenIdle is a GPU with those properties that does nothing: memory has addresses and no bytes, and what is read from it is zeros.
// A program that runs on it shows which kernels it would launch. No GPU and no driver is needed.
func OpenIdle(p Properties) (*GPU, error) {
	g, err := use(C.cuda_idle_driver(), 0)
	if err == nil {
		g.Properties = p
	}
	return g, err
}
