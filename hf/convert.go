package hf

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"restyle/tensor"
)

// numbers is a view of bytes as numbers of the machine, which like those of the format are little-endian.
func numbers[T uint16 | float32](b []byte) []T {
	var size T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(size)))
}

// widen writes numbers of type F32, F16 or BF16 as float32, which loses nothing.
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

// narrow writes numbers as ones of type F32, F16 or BF16, rounded to nearest even.
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

// convert writes numbers of one type as another, both of F32, F16 and BF16. dst and src hold as many. A number that is
// not finite, or that is too large for its new type, is an error of type unfit.
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

// unfit says which number is wrong and how.
type unfit struct {
	at   int
	what string
}

func (u unfit) Error() string { return fmt.Sprintf("element %d is %s", u.at, u.what) }

// finite tells whether no number is an infinity or NaN. In all three types those have an exponent of nothing but ones.
// Several numbers are looked at in one word: where the bits of an exponent, inverted, are not all 0, adding all ones to
// them carries into the sign's bit and no further.
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

// firstInfinite is the position of a number that finite has found.
func firstInfinite(b []byte, t tensor.DType) int {
	i := 0
	for finite(b[i*t.Size():(i+1)*t.Size()], t) {
		i++
	}
	return i
}
