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

// addPairs returns a·b + c for pairs of BF16, rounded once. It is exact in float32.
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

// Masks are constants in registers: an instruction has room for one immediate constant. So that the compiler does not
// load them again for each instruction, they depend on a number that is never negative.
struct Masks {
	unsigned four, one, seven; // of both halves: the low four bits, the highest of the low eight, and the others
	inline Masks(int positive)
		: four(0x000F000F | positive >> 31), one(0x00800080 | positive >> 31), seven(0x007F007F | positive >> 31) {}
};

// pair4 returns the low four bits of both halves, minus the zero points, as BF16. minus is minusZero of these: the bits
// of 128 with a code in the lowest bits are those of 128 + code.
inline unsigned minusZero(unsigned zero) { return (0xC300 | zero) * 0x10001u; }
inline unsigned pair4(unsigned codes, unsigned minus, Masks is) {
	return addPairs((codes & is.four) | 0x43004300, 0x3F803F80, minus);
}

// pair8 returns the signed bytes at the lower ends of both halves as BF16: (128 + low seven bits) - (128, or 256 if the
// sign is set).
inline unsigned pair8(unsigned codes, Masks is) {
	return addPairs((codes & is.one) | 0x43004300, 0xBF80BF80, (codes & is.seven) | 0x43004300);
}
