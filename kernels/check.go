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

// floating panics with the operation's name unless x is F32, BF16 or F16.
func floating(op, operand string, x tensor.Tensor) {
	if !x.Ok() || !x.DType.Computes() {
		panic(fmt.Sprintf("%s: %s is %v: must be F32, BF16 or F16", op, operand, x))
	}
}

// wantWeights panics with the operation's name unless w is [out, in] of type t or of a quantized type.
func wantWeights(op string, w tensor.Tensor, t tensor.DType, out, in int) {
	if w.DType.Quantized() && len(w.Shape) > 0 && w.Dim(-1) == in {
		t = w.DType
		wantQuantized(op, "w", w)
	}
	want(op, "w", w, t, out, in)
}

// wantQuantized panics with the operation's name unless x has a quantized type, and whole blocks if the type is GGUF's.
func wantQuantized(op, operand string, x tensor.Tensor) {
	c := x.DType.Coding()
	if !x.Ok() || c.Bits == 0 {
		panic(fmt.Sprintf("%s: %s is %v: must be INT8, INT4, INT4Z, NF4 or a type of GGUF", op, operand, x))
	}
	if block := max(c.Unit, 32); c.Group > 0 && c.Group <= 32 && x.Dim(-1)%block != 0 {
		panic(fmt.Sprintf("%s: %s is %v: rows must be whole blocks of %d weights", op, operand, x, block))
	}
}
