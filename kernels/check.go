package kernels

import (
	"fmt"
	"unsafe"

	"restyle/tensor"
)

// addressOf is where a slice begins.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// want panics with the operation's name unless x has the type and the number of elements that its shape here says.
func want(op, operand string, x tensor.Tensor, t tensor.DType, shape ...int) {
	n := 1
	for _, d := range shape {
		n *= d
	}
	if !x.Ok() || x.DType != t || x.Len() != n {
		panic(fmt.Sprintf("%s: %s is %v, not %v%v", op, operand, x, t, shape))
	}
}

// floating panics with the operation's name unless x is of a type that is computed in.
func floating(op, operand string, x tensor.Tensor) {
	if !x.Ok() || x.DType != tensor.F32 && x.DType != tensor.BF16 {
		panic(fmt.Sprintf("%s: %s is %v, which is neither F32 nor BF16", op, operand, x))
	}
}

// NoKernel is what an operation panics with, before it does anything, on a device that it has no kernel for.
type NoKernel struct{ Op string }

func (n NoKernel) Error() string { return n.Op + ": there is no kernel for a GPU yet" }
