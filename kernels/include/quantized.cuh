// Codes of quantized weights, as tensor.Coding describes them:
//
//   BITS     8, 6, 5 or 4
//   ZEROS    1: groups of 4-bit codes have zero points
//   TABLE    1: the codes are NF4's, and every 64 of them share a scale, a float
//   GROUP    neighbors that share a scale, 32 or 16: fine groups. Default: of 8-bit codes a row, whose scale is a
//            float, of 4-bit ones 128
//   UNIT     neighbors that share a unit, an F16: scales are signed bytes times it. Default: scales are F16
//   OFFSETS  1: groups have offsets, stored as their scales are
//   ZERO     the code of zero. Default: 8 without fine groups, or else 0
#pragma once
#include "common.cuh"
#ifndef TABLE
#define TABLE 0
#endif
#ifndef UNIT
#define UNIT 0
#endif
#ifndef OFFSETS
#define OFFSETS 0
#endif
#ifdef GROUP
#define FINE 1
#else
#define FINE 0
#define GROUP (BITS == 8 ? 0 : TABLE ? 64 : 128)
#define ZERO 8
#endif
#ifndef ZERO
#define ZERO 0
#endif

constexpr int HIGH = BITS == 8 ? 0 : BITS - 4; // bits of a code that are stored behind the low four of all codes
constexpr int SCALE_BYTES = UNIT ? 1 : GROUP == 0 || TABLE ? 4 : 2;

// These return the number of groups of a row, and where its parts begin: offsets, units, the offsets' units, zero
// points and codes. lowBytes returns the bytes of codes without the high bits that follow, and rowOf the bytes of a
// row.
inline int padded(int bytes) { return (bytes + 15) / 16 * 16; }
inline int groupsOf(int depth) { return GROUP ? (depth + GROUP - 1) / max(GROUP, 1) : 1; }
inline int offsetsAt(int depth) { return padded(groupsOf(depth) * SCALE_BYTES); }
inline int unitsAt(int depth) { return (1 + OFFSETS) * offsetsAt(depth); }
inline int offsetUnitsAt(int depth) {
	return unitsAt(depth) + (UNIT ? padded((depth + UNIT - 1) / max(UNIT, 1) * 2) : 0);
}
inline int zerosAt(int depth) { return (1 + OFFSETS) * offsetUnitsAt(depth) - OFFSETS * unitsAt(depth); }
inline int headOf(int depth) { return zerosAt(depth) + (ZEROS ? padded(groupsOf(depth)) : 0); }
inline int lowBytes(int depth) { return BITS == 8 ? padded(depth) : (depth + 127) / 128 * 64; }
inline long long rowOf(int depth) { return headOf(depth) + lowBytes(depth) / 4 * (4 + HIGH); }

// scaleOf and offsetOf return the scale and the offset of a group. Behind a row's last group are zeros.
inline float numberOf(const unsigned char *numbers, const unsigned char *units, int group) {
#if UNIT
	return (signed char)numbers[group] * value(((const f16 *)units)[group / (UNIT / GROUP)]);
#else
	return SCALE_BYTES == 4 ? ((const float *)numbers)[group] : value(((const f16 *)numbers)[group]);
#endif
}
inline float scaleOf(const unsigned char *row, int depth, int group) {
	return numberOf(row, row + unitsAt(depth), group);
}
inline float offsetOf(const unsigned char *row, int depth, int group) {
	return OFFSETS ? numberOf(row + offsetsAt(depth), row + offsetUnitsAt(depth), group) : 0;
}

// fourCodes returns four codes of less than 8 bits as bytes: of the low four bits of the bytes of low or, if far is
// set, of their high ones, which are 64 elements further. high has the codes' other bits, shifted down by highShift.
// These other bits of the elements from at on, of each 128, begin in byte highByte of HIGH_BYTES.
constexpr int HIGH_BYTES = 16 * HIGH; // of 128 elements
inline int highByte(int at) { return HIGH ? at % max(HIGH_BYTES, 1) : 0; }
inline int highShift(int at) { return HIGH ? at / max(HIGH_BYTES, 1) * HIGH : 0; }
inline unsigned fourCodes(unsigned low, unsigned high, int far) {
	const unsigned codes = low >> 4 * far & 0x0F0F0F0F;
	return HIGH ? codes | (far ? high : high << 4) & (HIGH == 1 ? 0x10101010 : 0x30303030) : codes;
}

#if TABLE
// lookUp returns the value of an NF4 code, and pairOf the values of the low four bits of both halves times a scale, as
// BF16. A thread block has a copy of the table in shared memory, where lanes can read different numbers at once.
__shared__ float table[16];
inline float lookUp(unsigned code) { return table[code & 15]; }
inline unsigned pairOf(unsigned codes, float scale) {
	return pairRounded(bf16(), lookUp(codes) * scale, lookUp(codes >> 16) * scale);
}

inline float codeValue(unsigned code, int) { return table[code]; }

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
#else
inline float codeValue(unsigned code, int zero) { return (int)code - zero; }
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

// fineValue returns the value of one of four codes that are bytes, with the scale and the offset of its group. The bits
// of 2^23 with a byte in the lowest ones represent 2^23 + the byte. It rounds once, in every kernel: a compiler could
// join another product with the sum.
inline float fineValue(unsigned four, int byte, float scale, float offset) {
	constexpr int BYTE_ZERO = BITS == 8 ? 128 : ZERO;
	const float code = __uint_as_float(permute(four, 0x4B000000, 0x7650 | byte)) - (0x1p23f + BYTE_ZERO);
	return fmaf(code, scale, offset);
}

// Masks are constants in registers: an instruction has room for one immediate constant. So that the compiler does not
// load them again for each instruction, they depend on a number that is never negative.
struct Masks {
	unsigned four, one, seven; // of both halves: the low four bits, the highest of the low eight, and the others
	inline Masks(int positive)
		: four(0x000F000F | positive >> 31), one(0x00800080 | positive >> 31), seven(0x007F007F | positive >> 31) {}
};

// pair4 returns the low four bits of both halves, minus the zero points, as BF16. minus is minusZero of these: the bits
// of 128 with a code in the lowest bits represent 128 + code.
inline unsigned minusZero(unsigned zero) { return (0xC300 | zero) * 0x10001u; }
inline unsigned pair4(unsigned codes, unsigned minus, Masks is) {
	return addPairs((codes & is.four) | 0x43004300, 0x3F803F80, minus);
}

// A Scaled computes values of the 4-bit codes of a group: their products with its scale, rounded to BF16. The scale is
// the sum of its upper eight bits and the others, which both are BF16, twice.
struct Scaled {
	unsigned high, low, minus;
	Scaled() {}
	Scaled(f16 scale, unsigned zero) {
		const unsigned bits = __float_as_uint(value(scale));
		const float rest = value(scale) - __uint_as_float(bits & 0xFFFF0000);
		high = permute(bits, 0, 0x3232), low = permute(__float_as_uint(rest), 0, 0x3232), minus = minusZero(zero);
	}
	// pair returns the values of two codes: x has 0x43 above each.
	unsigned pair(unsigned x) const {
		const unsigned code = addPairs(x, 0x3F803F80, minus);
		return addPairs(code, high, addPairs(code, low, 0));
	}
};

// pair8 returns the signed bytes at the lower ends of both halves as BF16: (128 + low seven bits) - (128, or 256 if the
// sign is set).
inline unsigned pair8(unsigned codes, Masks is) {
	return addPairs((codes & is.one) | 0x43004300, 0xBF80BF80, (codes & is.seven) | 0x43004300);
}
