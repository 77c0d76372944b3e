package hf

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"restyle/tensor"
)

// numbers returns a view of bytes as numbers of the machine, which are little-endian, as in the format.
func numbers[T uint16 | float32](b []byte) []T {
	var size T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(size)))
}

// widen converts F32, F16 or BF16 to float32, without loss.
func widen(dst []float32, src []byte, from tensor.DType) {
	switch from {
	case tensor.F32:
		copy(dst, numbers[float32](src))
	case tensor.BF16:
		for i, h := range numbers[uint16](src)[:len(dst)] {
			dst[i] = tensor.BF16ToF32(h)
		}
	case tensor.F16:
		for i, h := range numbers[uint16](src)[:len(dst)] {
			dst[i] = tensor.F16ToF32(h)
		}
	}
}

// narrow converts float32 to F32, F16 or BF16, rounded to nearest even.
func narrow(dst []byte, to tensor.DType, src []float32) {
	switch to {
	case tensor.F32:
		copy(numbers[float32](dst), src)
	case tensor.BF16:
		out := numbers[uint16](dst)[:len(src)]
		for i, f := range src {
			out[i] = tensor.BF16FromF32(f)
		}
	case tensor.F16:
		out := numbers[uint16](dst)[:len(src)]
		for i, f := range src {
			out[i] = tensor.F16FromF32(f)
		}
	}
}

// convert converts numbers between F32, F16 and BF16. dst and src have the same length. If a number is not finite or
// too large for its new type, the error has type unfit.
func convert(dst []byte, to tensor.DType, src []byte, from tensor.DType) error {
	if !finite(src, from) {
		var f [1]float32
		i := firstInfinite(src, from)
		widen(f[:], src[i*from.Size():], from)
		return unfit{i, fmt.Sprint(f[0])}
	}
	if to == from {
		copy(dst, src)
		return nil
	}
	var block [1024]float32
	for at, n := 0, len(src)/from.Size(); at < n; at += len(block) {
		part := block[:min(len(block), n-at)]
		widen(part, src[at*from.Size():], from)
		narrow(dst[at*to.Size():], to, part)
	}
	if !finite(dst, to) {
		return unfit{firstInfinite(dst, to), "too large for " + to.String()}
	}
	return nil
}

// transposed returns the numbers of a matrix of rows rows in the order of its columns.
func transposed(matrix []byte, rows int, t tensor.DType) []byte {
	out := make([]byte, len(matrix))
	if t == tensor.F32 {
		transpose(numbers[float32](out), numbers[float32](matrix), rows)
	} else {
		transpose(numbers[uint16](out), numbers[uint16](matrix), rows)
	}
	return out
}

func transpose[T any](to, from []T, rows int) {
	cols := len(from) / rows
	for c := range cols {
		for r := range rows {
			to[c*rows+r] = from[r*cols+c]
		}
	}
}

// unfit is a number that cannot be converted.
type unfit struct {
	at   int
	what string
}

func (u unfit) Error() string { return fmt.Sprintf("element %d is %s", u.at, u.what) }

// finite reports whether no number is an infinity or NaN. In all three types these have an exponent of all ones. It
// checks several numbers in one word: unless the inverted bits of an exponent are all 0, adding all ones to them
// carries into the sign bit, and no further.
func finite(b []byte, t tensor.DType) bool {
	exponent, sign := uint64(0x7F800000_7F800000), uint64(0x80000000_80000000)
	switch t {
	case tensor.BF16:
		exponent, sign = 0x7F807F80_7F807F80, 0x80008000_80008000
	case tensor.F16:
		exponent, sign = 0x7C007C00_7C007C00, 0x80008000_80008000
	}
	all := sign
	for ; len(b) >= 8; b = b[8:] {
		all &= (^binary.LittleEndian.Uint64(b) & exponent) + exponent
	}
	var rest [8]byte
	copy(rest[:], b)
	all &= (^binary.LittleEndian.Uint64(rest[:]) & exponent) + exponent
	return all&sign == sign
}

// firstInfinite returns the index of a number that finite has found.
func firstInfinite(b []byte, t tensor.DType) int {
	i := 0
	for finite(b[i*t.Size():(i+1)*t.Size()], t) {
		i++
	}
	return i
}
