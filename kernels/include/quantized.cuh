// Codes of quantized weights; package tensor has their layout.
//
//   BITS   8 or 4
//   ZEROS  1: groups of 4-bit codes have zero points
//   TABLE  1: the codes are NF4's, and a scale is that of 64 of them, a float
#pragma once
#include "common.cuh"
#ifndef TABLE
#define TABLE 0
#endif

// groupsOf returns the number of groups of a 4-bit row, and headOf the bytes before the codes of a row, which rowOf
// returns the bytes of.
inline int groupsOf(int depth) { return (depth + 127) / 128; }
inline int padded(int bytes) { return (bytes + 15) / 16 * 16; }
inline int headOf(int depth) {
	if constexpr (BITS == 8) return 16;
	if constexpr (TABLE) return padded((depth + 63) / 64 * 4);
	return padded(2 * groupsOf(depth)) + (ZEROS ? padded(groupsOf(depth)) : 0);
}
inline long long rowOf(int depth) { return headOf(depth) + (BITS == 8 ? padded(depth) : 64 * groupsOf(depth)); }

#if TABLE
// lookUp returns the value of an NF4 code, and pairOf those of the low four bits of both halves times a scale, as
// BF16. A thread block has a copy of the table in shared memory, where lanes can read different numbers at once.
__shared__ float table[16];
inline float lookUp(unsigned code) { return table[code & 15]; }
inline unsigned pairOf(unsigned codes, float scale) {
	return pairRounded(bf16(), lookUp(codes) * scale, lookUp(codes >> 16) * scale);
}

// copyTable makes that copy. All threads of a thread block call it before they look up anything.
inline void copyTable() {
	const float values[16] = {-1, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
		-0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0, 0.07958029955625534f,
		0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,
		0.7229568362236023f, 1};
	if (threadIdx.x == 0) {
#pragma unroll
		for (int i = 0; i < 16; i++) table[i] = values[i];
	}
	__syncthreads();
}
#endif

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
