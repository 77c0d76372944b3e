package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A codec reads and writes the elements of a type: one block at a time, or any number for types without blocks.
type codec struct {
	decode func(x []float32, b []byte)
	encode func(b []byte, x []float32)
}

var codecs = map[Type]codec{
	F32:  {decodeF32, encodeF32},
	F16:  {decodeF16, encodeF16},
	BF16: {decodeBF16, encodeBF16},
	Q8_0: {decodeQ8, encodeQ8},
	Q4_0: {
		func(x []float32, b []byte) { decode32(x, b, 4, false) },
		func(b []byte, x []float32) { encodeCentered(b, x, 4) },
	},
	Q4_1: {
		func(x []float32, b []byte) { decode32(x, b, 4, true) },
		func(b []byte, x []float32) { encodeRange(b, x, 4) },
	},
	Q5_0: {
		func(x []float32, b []byte) { decode32(x, b, 5, false) },
		func(b []byte, x []float32) { encodeCentered(b, x, 5) },
	},
	Q5_1: {
		func(x []float32, b []byte) { decode32(x, b, 5, true) },
		func(b []byte, x []float32) { encodeRange(b, x, 5) },
	},
	Q4_K: {
		func(x []float32, b []byte) { decodeK(x, b, 4) },
		func(b []byte, x []float32) { encodeK(b, x, 4) },
	},
	Q5_K: {
		func(x []float32, b []byte) { decodeK(x, b, 5) },
		func(b []byte, x []float32) { encodeK(b, x, 5) },
	},
	Q6_K: {decodeQ6K, encodeQ6K},
}

// each calls f for the elements and the bytes of each block, or for all at once if the type has no blocks.
func (t Type) each(x []float32, b []byte, f func(x []float32, b []byte)) {
	n, size := t.Block()
	if n == 1 {
		n, size = len(x), len(b)
	}
	for ; len(x) > 0; x, b = x[n:], b[size:] {
		f(x[:n], b[:size])
	}
}

// check returns an error unless the number of bytes is right for the number of elements, in whole blocks.
func (t Type) check(elements, bytes int) error {
	n, _ := t.Block()
	switch {
	case n == 0:
		return fmt.Errorf("%v is not supported: use one of %v", t, Types)
	case elements%n != 0:
		return fmt.Errorf("%d elements as %v: use a multiple of %d", elements, t, n)
	case t.RowBytes(elements) != bytes:
		return fmt.Errorf("%d elements as %v take %d bytes, not %d", elements, t, t.RowBytes(elements), bytes)
	}
	return nil
}

// Dequantize computes the elements of whole blocks, of any number of rows. The values are ggml's, bit by bit: float32
// products and sums, each rounded. It is an error if the type is not supported, or if the length of src does not
// match dst's elements.
func (t Type) Dequantize(dst []float32, src []byte) error {
	if err := t.check(len(dst), len(src)); err != nil {
		return err
	}
	t.each(dst, src, codecs[t].decode)
	return nil
}

// A half is two bytes of a float16. It has the form of a float32, with fewer bits of mantissa and an exponent that is
// 112 lower.
func half(b []byte) float32 {
	h := uint32(binary.LittleEndian.Uint16(b))
	bits, sign := h&0x7FFF<<13, h&0x8000<<16
	if bits >= 0x0F800000 { // an infinity or NaN
		return math.Float32frombits(bits | 0x7F800000 | sign)
	}
	return math.Float32frombits(math.Float32bits(math.Float32frombits(bits)*0x1p112) | sign)
}

// putHalf stores f as float16, rounded to nearest, ties to even. From 65,520 on, the nearest is infinity.
func putHalf(b []byte, f float32) {
	u := math.Float32bits(f)
	bits, h := u&0x7FFFFFFF, u>>16&0x8000
	switch {
	case bits > 0x7F800000:
		h |= 0x7E00
	case bits >= 0x477FF000:
		h |= 0x7C00
	case bits < 0x38800000: // below 2⁻¹⁴, float16 has the last place of 0.5 as float32
		h |= math.Float32bits(math.Float32frombits(bits)+0.5) - 0x3F000000
	default:
		h |= (bits - 112<<23 + 0xFFF + bits>>13&1) >> 13
	}
	binary.LittleEndian.PutUint16(b, uint16(h))
}

func decodeF32(x []float32, b []byte) {
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
}

func decodeF16(x []float32, b []byte) {
	for i := range x {
		x[i] = half(b[2*i:])
	}
}

func decodeBF16(x []float32, b []byte) {
	for i := range x {
		x[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
	}
}

// decodeQ8: a scale d, and 32 signed codes q with the value q·d.
func decodeQ8(x []float32, b []byte) {
	d := half(b)
	for i, code := range b[2:34] {
		x[i] = float32(int8(code)) * d
	}
}

// decode32: a scale d; with ranged a minimum m; with 5 bits the fifth bits of all codes; 16 bytes of the low four
// bits, with code j in the lower half and code j+16 in the upper half of byte j. Values are q·d + m, or (q−8)·d and
// (q−16)·d.
func decode32(x []float32, b []byte, bits int, ranged bool) {
	d, m, zero := half(b), float32(0), 1<<(bits-1)
	b = b[2:]
	if ranged {
		m, zero, b = half(b), 0, b[2:]
	}
	fifth := uint32(0)
	if bits == 5 {
		fifth, b = binary.LittleEndian.Uint32(b), b[4:]
	}
	for j, pair := range b[:16] {
		low := int(pair&15) | int(fifth>>j&1<<4)
		high := int(pair>>4) | int(fifth>>(j+16)&1<<4)
		x[j] = float32(low-zero) * d
		x[j+16] = float32(high-zero) * d
		if ranged {
			x[j] += m
			x[j+16] += m
		}
	}
}

// scaleK returns the codes of scale and minimum of sub-block j, 0 to 7, from their 12 bytes: six bits each, for the
// last four sub-blocks the upper two in the bytes of the first.
func scaleK(b []byte, j int) (scale, minimum uint8) {
	if j < 4 {
		return b[j] & 63, b[j+4] & 63
	}
	return b[j+4]&15 | b[j-4]>>6<<4, b[j+4]>>4 | b[j]>>6<<4
}

// putScaleK stores what scaleK returns; the sub-blocks must come in order.
func putScaleK(b []byte, j int, scale, minimum uint8) {
	if j < 4 {
		b[j], b[j+4] = scale, minimum
		return
	}
	b[j+4] = scale&15 | minimum<<4
	b[j-4] |= scale >> 4 << 6
	b[j] |= minimum >> 4 << 6
}

// decodeK: scales d and dmin, 12 bytes of 8 pairs of six bits, with 5 bits the fifth bits (bit j of byte i: code i of
// sub-block j), then the low four bits: 32 bytes for two sub-blocks each. Values are d·scale·q − dmin·minimum.
func decodeK(x []float32, b []byte, bits int) {
	d, dmin, pairs := half(b), half(b[2:]), b[4:16]
	fifth, low := b[16:48], b[len(b)-128:]
	for j := range 8 {
		scale, minimum := scaleK(pairs, j)
		s, m := d*float32(scale), float32(dmin*float32(minimum))
		for i, pair := range low[j/2*32 : j/2*32+32] {
			code := pair >> (j % 2 * 4) & 15
			if bits == 5 {
				code |= fifth[i] >> j & 1 << 4
			}
			x[32*j+i] = float32(s*float32(code)) - m
		}
	}
}

// decodeQ6K: 128 bytes of low four bits, 64 of upper two, 16 signed codes of scales, and d. Of each half of 128 codes,
// code l+32·k has its low bits in byte l+32·(k%2), the upper half of it if k > 1, and its upper bits 2·k in byte l.
// Values are d·scale·(q−32).
func decodeQ6K(x []float32, b []byte) {
	d, scales := half(b[208:]), b[192:208]
	for i := range x {
		l, k, part := i%32, i/32%4, i/128
		low := b[64*part+32*(k%2)+l] >> (k / 2 * 4) & 15
		code := low | b[128+32*part+l]>>(2*k)&3<<4
		x[i] = float32(d*float32(int8(scales[i/16]))) * float32(int(code)-32)
	}
}
