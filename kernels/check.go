package kernels

import (
	"fmt"
	"unsafe"

	"restyle/tensor"
)

// addressOf returns the address of a slice's first byte.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// want panics with the operation's name unless x has type t and as many elements as shape says.
func want(op, operand string, x tensor.Tensor, t tensor.DType, shape ...int) {
	n := 1
	for _, d := range shape {
		n *= d
	}
	if !x.Ok() || x.DType != t || x.Len() != n {
		panic(fmt.Sprintf("%s: %s is %v: must be %v%v", op, operand, x, t, shape))
	}
}

// floating panics with the operation's name unless x is F32 or BF16.
func floating(op, operand string, x tensor.Tensor) {
	if !x.Ok() || x.DType != tensor.F32 && x.DType != tensor.BF16 {
		panic(fmt.Sprintf("%s: %s is %v: must be F32 or BF16", op, operand, x))
	}
}
