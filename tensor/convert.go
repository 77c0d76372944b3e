package tensor

import "math"

// BF16FromF32 rounds f to the nearest bfloat16, ties to even, and returns its bits. A NaN stays a NaN.
func BF16FromF32(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&0x7FFFFFFF > 0x7F800000 {
		return uint16(bits>>16) | 0x40 // rounding could carry a NaN into an infinity
	}
	return uint16((bits + 0x7FFF + bits>>16&1) >> 16)
}

// BF16ToF32 returns the value of the bfloat16 with these bits. Every bfloat16 is a float32.
func BF16ToF32(bits uint16) float32 { return math.Float32frombits(uint32(bits) << 16) }

// RoundBF16 rounds f to a bfloat16: it returns what remains of f after storing it as one.
func RoundBF16(f float32) float32 { return BF16ToF32(BF16FromF32(f)) }

// Round rounds f to a type that operations compute in: it returns what remains of f after storing it.
func Round(f float32, t DType) float32 {
	switch t {
	case BF16:
		return RoundBF16(f)
	case F16:
		return F16ToF32(F16FromF32(f))
	}
	return f
}

// F16ToF32 returns the value of the IEEE binary16 with these bits. Each is a float32, including subnormal ones.
func F16ToF32(bits uint16) float32 {
	sign := uint32(bits&0x8000) << 16
	exp := uint32(bits >> 10 & 0x1F)
	frac := uint32(bits & 0x3FF)
	switch exp {
	case 0: // zero and subnormal: frac · 2⁻²⁴
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 0x1F:
		return math.Float32frombits(sign | 0x7F800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// F16FromF32 rounds f to the nearest IEEE binary16, ties to even, and returns its bits. Too large a value becomes an
// infinity. A NaN stays a NaN.
func F16FromF32(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits >> 16 & 0x8000)
	abs := bits & 0x7FFFFFFF
	switch {
	case abs > 0x7F800000:
		return sign | 0x7E00
	case abs >= 0x477FF000: // 65,520: halfway between the largest binary16 and the next power of two
		return sign | 0x7C00
	case abs < 0x38800000: // below 2⁻¹⁴: a multiple of 2⁻²⁴. The sum is rounded there, to even, as every sum is.
		const shift = 0.5 // ulp(0.5) = 2⁻²⁴
		return sign | uint16(math.Float32bits(math.Float32frombits(abs)+shift)-math.Float32bits(shift))
	}
	abs += 0xFFF + abs>>13&1
	return sign | uint16(abs>>13-(127-15)<<10)
}
