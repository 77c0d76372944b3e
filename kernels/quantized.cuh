// Codes of quantized weights; package tensor has their layout.
//
//   BITS   8 or 4
//   ZEROS  1: groups of 4-bit codes have zero points
#pragma once
#include "common.cuh"

// groupsOf returns the number of groups of a 4-bit row, and headOf the bytes before the codes of a row, which rowOf
// returns the bytes of.
inline int groupsOf(int depth) { return (depth + 127) / 128; }
inline int padded(int bytes) { return (bytes + 15) / 16 * 16; }
inline int headOf(int depth) {
	if constexpr (BITS == 8) return 16;
	return padded(2 * groupsOf(depth)) + (ZEROS ? padded(groupsOf(depth)) : 0);
}
inline long long rowOf(int depth) { return headOf(depth) + (BITS == 8 ? padded(depth) : 64 * groupsOf(depth)); }

// f16Value returns the value of an F16, subnormal or not. It is finite.
inline float f16Value(unsigned h) {
	const float x = __uint_as_float((h & 0x7FFF) << 13) * 0x1p112f;
	return h & 0x8000 ? -x : x;
}

// addPairs returns a·b + c for pairs of BF16 for which it is exact.
inline unsigned addPairs(unsigned a, unsigned b, unsigned c) {
#ifdef EMULATED
	unsigned y = 0;
	for (int i = 0; i < 32; i += 16) {
		auto half = [&](unsigned pair) { return __uint_as_float(pair >> i << 16); };
		y |= (unsigned)emulated_bf16(half(a) * half(b) + half(c)) << i;
	}
	return y;
#else
	unsigned y;
	asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(c));
	return y;
#endif
}

// pair4 returns the low four bits of both halves, minus the zero points, as BF16. minus is minusZero of these: the bits
// of 128 with a code in the lowest bits are those of 128 + code.
inline unsigned minusZero(unsigned zero) { return (0xC300 | zero) * 0x10001u; }
inline unsigned pair4(unsigned codes, unsigned minus) {
	return addPairs((codes & 0x000F000F) | 0x43004300, 0x3F803F80, minus);
}

// pair8 returns the signed bytes at the lower ends of both halves as BF16: (128 + low seven bits) - (128, or 256 if the
// sign is set).
inline unsigned pair8(unsigned codes) {
	return addPairs((codes & 0x00800080) | 0x43004300, 0xBF80BF80, (codes & 0x007F007F) | 0x43004300);
}
