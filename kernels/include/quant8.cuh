// 8-bit codes for the numbers of a quantization block, in the dynamic maps that op_map8.go describes. A warp has a
// quantization block.
#pragma once
#include "common.cuh"

typedef unsigned char byte;

constexpr int QUANT_BLOCK = 256, HALF = QUANT_BLOCK / 2, EACH = QUANT_BLOCK / 32;

// A lane has EACH elements of the quantization block, four adjacent ones in either half. It is given the address of its
// first: element returns the offset of its ith element from there.
inline constexpr int element(int i) { return i / 4 * HALF + i % 4; }
inline int lane() { return threadIdx.x % 32; }

template <typename E> struct Elements {
	Vec<E, 4> half[2];
	E &at(int i) { return half[i / 4].at[i % 4]; }
	float operator[](int i) const { return half[i / 4][i % 4]; }
};
typedef Elements<byte> Codes;

// read and write move a lane's elements of a quantization block; from the lane's first on, count elements exist. WHOLE
// promises that all of them exist, and that the address is a multiple of the size of four. Elements that do not exist
// are read as beyond.
template <bool WHOLE, typename E> inline Elements<E> read(const E *mine, int count, E beyond = E()) {
	Elements<E> x;
	if constexpr (WHOLE) {
#pragma unroll
		for (int h = 0; h < 2; h++) x.half[h] = loadStreamingOf<4>(mine, h * 32);
	} else {
#pragma unroll
		for (int i = 0; i < EACH; i++) x.at(i) = element(i) < count ? mine[element(i)] : beyond;
	}
	return x;
}
template <bool WHOLE, typename E> inline void write(E *mine, int count, Elements<E> x) {
	if constexpr (WHOLE) {
#pragma unroll
		for (int h = 0; h < 2; h++) store(mine, h * 32, x.half[h]);
	} else {
#pragma unroll
		for (int i = 0; i < EACH; i++) {
			if (element(i) < count) mine[element(i)] = x.at(i);
		}
	}
}

// largest returns the largest |x| of the quantization block, by its bits. As integers these have the order of floats,
// with NaN above infinity: if there is a NaN, it is the largest. Without SIGNS no x is negative.
template <bool SIGNS = true> inline float largest(const float (&x)[EACH]) {
	unsigned bits = 0;
#pragma unroll
	for (int i = 0; i < EACH; i++) bits = max(bits, __float_as_uint(x[i]) & (SIGNS ? 0x7FFFFFFF : ~0u));
	return __uint_as_float(largestOfWarp(bits));
}

// inverse returns 1/x, or 0 if that or x is infinite: a quantization block whose largest magnitude is less than 2^-126
// becomes zeros.
inline float inverse(float x) {
	const float rough = reciprocal(x), by = fmaf(fmaf(-x, rough, 1), rough, rough);
	return by <= 3.40282347e38f ? by : 0;
}

// A Map holds the numbers of codes, signed or nonnegative, and finds the code of the number nearest to a given one. In
// a map of roots, codes stand for roots and numbers are their squares, and only 0 has the code of 0.
template <bool Signed> struct Map {
	static constexpr int LAST = Signed ? 128 : 255; // index of 1, counting from 0
	// Each lane looks up a different number. With interleaved copies, at most four lanes use the same bank of shared
	// memory.
	static constexpr int COPIES = 8;
	float number[256][COPIES];

	// A step is the set of magnitudes with the same upper half of their bits: so small that it has at most one midpoint
	// between two numbers. A step's word plus the lower bits of a magnitude has the code in its third byte: beyond the
	// midpoint, the lower half carries. So a code takes one look-up and yet is as exact as a search.
	static constexpr int LEAST = Signed ? -22 : -23; // magnitudes below 2^LEAST count as 2^LEAST
	static constexpr unsigned FIRST = (unsigned)(127 + LEAST) << 7, STEPS = 0x3F80 - FIRST + 1;
	unsigned steps[STEPS];
	float above[LAST]; // the midpoints

	// magnitude returns the number of an index, by DynamicMap's arithmetic: the midpoint of part k of the n parts of its
	// decade.
	static float magnitude(int index) {
		constexpr float TENTHS[] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1};
		if (index == 0 || index == LAST) return index > 0;
		const int from = Signed ? index : index + 1, bits = 31 - __clz(from), n = 1 << bits, k = from - n;
		auto edge = [&](int k) {
			const float part = (1 - 0.1f) / n;
			return 2 * k < n ? fmaf(part, k, 0.1f) : fmaf(-part, n - k, 1.0f);
		};
		return TENTHS[Signed ? bits : bits - 1] * ((edge(k) + edge(k + 1)) / 2);
	}

	// fill lets the threads of the block fill the map.
	void fill(bool roots) {
		for (int i = threadIdx.x; i < 256; i += BLOCK_DIM) {
			const float x = !Signed ? magnitude(i) : i < 127 ? -magnitude(127 - i) : magnitude(i - 127);
			for (int k = 0; k < COPIES; k++) number[i][k] = roots ? x * x : x;
			if (i >= LAST) continue;
			const float middle = (magnitude(i) + magnitude(i + 1)) * 0.5f;
			// Halfway, a magnitude gets the even code. In the signed map these are odd indices.
			above[i] = roots && i == 0 ? 0 : __uint_as_float(__float_as_uint(middle) - ((i % 2 == 1) != Signed));
		}
		__syncthreads();
		for (unsigned i = threadIdx.x; i < STEPS; i += BLOCK_DIM) {
			const unsigned step = FIRST + i;
			const int j = index(__uint_as_float(step << 16));
			const unsigned middle = j < LAST ? __float_as_uint(above[j]) : 0,
						   most = middle >> 16 == step ? middle & 0xFFFF : 0xFFFF;
			steps[i] = (unsigned)(j + (Signed ? 127 : 0)) * 0x10000 + (0xFFFF - most) - step * 0x10000;
		}
		__syncthreads();
	}

	// index returns the index of the number nearest to x, from 0 to 1. Within a decade the numbers are evenly spaced, so
	// the index is linear in x. From one decade to the next their number n doubles and the slope falls, so the smallest of
	// all these lines is the right one; its integer part is the index or one less.
	int index(float x) const {
		constexpr double TENS[] = {1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1};
		float line = 1e9f;
#pragma unroll
		for (int i = 0; i < 7; i++) {
			const double n = (Signed ? 1 : 2) << i;
			line = fminf(line, fmaf(x, (float)(n * TENS[i] / 0.9), (float)(n + (Signed ? 0 : -1) - n / 9 - 0.5)));
		}
		const int j = (int)fmaxf(line, 0);
		return j < LAST && x > above[j] ? j + 1 : j;
	}

	// decode returns the numbers of a lane's codes.
	void decode(float (&x)[EACH], const Codes &codes) const {
		const Shared mine = shared(&number[0][threadIdx.x % COPIES]);
#pragma unroll
		for (int i = 0; i < EACH; i++) {
			const unsigned code = permute(codes.half[i / 4].words[0], 0, 0x4440 + i % 4);
			x[i] = __uint_as_float(loadShared(mine + code * (unsigned)sizeof number[0]));
		}
	}

	// encode returns the codes of the numbers nearest to x / scale, from -1 or 0 to 1, where scale is the largest
	// magnitude of the quantization block. There is no number for -1: it gets the code of the number next to it. If the
	// scale is not finite, all codes are zero.
	Codes encode(const float (&x)[EACH], float scale) const {
		const float by = inverse(scale);
		const Shared first = shared(steps) - FIRST * (unsigned)sizeof steps[0];
		float y[EACH], least = 1;
		unsigned sum[EACH];
#pragma unroll
		for (int i = 0; i < EACH; i++) {
			y[i] = Signed ? fmaxf(x[i] * by, -0.99f) : x[i] * by;
			least = fminf(least, y[i]);
			const unsigned bits = __float_as_uint(fmaxf(fabsf(y[i]), __uint_as_float(FIRST << 16)));
			sum[i] = bits + loadShared(first + (bits >> 16) * (unsigned)sizeof steps[0]);
		}
		if (!Signed && least == 0) { // rare
#pragma unroll
			for (int i = 0; i < EACH; i++) sum[i] = y[i] == 0 ? 0 : sum[i];
		}
		auto four = [](const unsigned *x, unsigned two) {
			return permute(permute(x[0], x[1], two), permute(x[2], x[3], two), 0x5410);
		};
		Codes codes;
#pragma unroll
		for (int h = 0; h < 2; h++) {
			unsigned code = four(sum + 4 * h, 0x62);
			if constexpr (Signed) { // if x is negative, the code is as far below 0's
				unsigned signs[4];
#pragma unroll
				for (int i = 0; i < 4; i++) signs[i] = __float_as_uint(y[4 * h + i]);
				const unsigned minus = four(signs, 0xFB);
				code = (code ^ minus) - (minus & 0x01010101);
			}
			codes.half[h].words[0] = scale - scale == 0 ? code : Signed ? 0x7F7F7F7F : 0;
		}
		return codes;
	}
};
