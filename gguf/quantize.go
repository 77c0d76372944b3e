package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Quantize codes whole blocks of elements, of any number of rows, into dst. The bytes are the same as from ggml's
// quantizer for x86-64 without an importance matrix, on every machine. It is an error if the type is not supported,
// if the length of dst does not match src's elements, or if Check finds an error.
func (t Type) Quantize(dst []byte, src []float32) error {
	if err := t.check(len(src), len(dst)); err != nil {
		return err
	}
	encode := codecs[t].encode
	t.each(src, dst, func(x []float32, b []byte) { encode(b, x) })
	return t.Check(dst, src)
}

// tooLarge is above the largest number that any block can hold, 65,504·128·32 of Q6_K, and below numbers whose
// squares and sums overflow in a search for scales, which could then find that all is zero.
const tooLarge = 1 << 29

// scalesAt has the places of float16 scales in a block.
var scalesAt = map[Type][]int{
	Q8_0: {0}, Q4_0: {0}, Q5_0: {0}, Q4_1: {0, 2}, Q5_1: {0, 2}, Q4_K: {0, 2}, Q5_K: {0, 2}, Q6_K: {208},
}

// Check returns an error that names the first element of src that is NaN or infinite, or too large to be in dst, which
// Quantize or QuantizeBlocks of package kernels/cpu has made of it.
func (t Type) Check(dst []byte, src []float32) error {
	if err := t.check(len(src), len(dst)); err != nil {
		return err
	}
	n, size := t.Block()
	for i, x := range src {
		switch bits := math.Float32bits(x) &^ (1 << 31); {
		case bits >= 0x7F800000:
			return fmt.Errorf("element %d is %v: weights must be finite", i, x)
		case n > 1 && bits >= math.Float32bits(tooLarge), t == F16 && bits >= 0x477FF000, t == BF16 && bits >= 0x7F7F8000:
			return fmt.Errorf("element %d is %v, which is too large for %v", i, x, t)
		}
	}
	for _, at := range scalesAt[t] {
		for block := range len(src) / n {
			if binary.LittleEndian.Uint16(dst[block*size+at:])&0x7C00 == 0x7C00 {
				x := src[block*n:][:n]
				most := extreme(x)
				return fmt.Errorf("element %d is %v, which is too large for %v", block*n+slices.Index(x, most), most, t)
			}
		}
	}
	return nil
}

// extreme returns the first element of the largest magnitude, and 0 if all are 0 or -0.
func extreme(x []float32) (most float32) {
	for _, v := range x {
		if abs(v) > abs(most) {
			most = v
		}
	}
	return most
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// inverse returns 1/d, or 0 for 0.
func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

func encodeF32(b []byte, x []float32) {
	for i := range x {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(x[i]))
	}
}

func encodeF16(b []byte, x []float32) {
	for i := range x {
		putHalf(b[2*i:], x[i])
	}
}

func encodeBF16(b []byte, x []float32) {
	for i := range x {
		u := math.Float32bits(x[i])
		binary.LittleEndian.PutUint16(b[2*i:], uint16((u+0x7FFF+u>>16&1)>>16))
	}
}

// truncated returns a number without its fraction, and 0 if it does not fit an int32, which happens if a scale is so
// small that its inverse is infinite.
func truncated(x float64) int32 {
	if math.Abs(x) < 1<<31 {
		return int32(x)
	}
	return 0
}

// encodeQ8 divides by the scale before the scale is rounded, and rounds halves away from zero.
func encodeQ8(b []byte, x []float32) {
	d := abs(extreme(x)) / 127
	id := inverse(d)
	putHalf(b, d)
	for i := range x {
		v := float64(x[i] * id)
		b[2+i] = byte(truncated(v + math.Copysign(0.5, v)))
	}
}

// encodeCentered gives the element of the largest magnitude, the first of equals, the code 0.
func encodeCentered(b []byte, x []float32, bits int) {
	zero := float32(int(1) << (bits - 1))
	d := extreme(x) / -zero
	id := inverse(d)
	putHalf(b, d)
	var codes [32]uint8
	for i := range codes {
		codes[i] = uint8(min(truncated(float64(float32(x[i]*id)+(zero+0.5))), int32(2*zero-1)))
	}
	pack32(b[2:], &codes, bits)
}

// encodeRange gives the least element the code 0 and the greatest the highest.
func encodeRange(b []byte, x []float32, bits int) {
	least, greatest := x[0], x[0]
	for _, v := range x {
		if v < least {
			least = v
		}
		if v > greatest {
			greatest = v
		}
	}
	top := int32(1)<<bits - 1
	d := (greatest - least) / float32(top)
	id := inverse(d)
	putHalf(b, d)
	putHalf(b[2:], least)
	var codes [32]uint8
	for i := range codes {
		codes[i] = uint8(min(truncated(float64(float32((x[i]-least)*id)+0.5)), top))
	}
	pack32(b[4:], &codes, bits)
}

// pack32 stores codes as decode32 reads them.
func pack32(b []byte, codes *[32]uint8, bits int) {
	if bits == 5 {
		fifth := uint32(0)
		for i, code := range codes {
			fifth |= uint32(code) >> 4 << i
		}
		binary.LittleEndian.PutUint32(b, fifth)
		b = b[4:]
	}
	for j := range 16 {
		b[j] = codes[j]&15 | codes[j+16]<<4
	}
}
