// Codes of 8 bits for the numbers of a block, in the dynamic maps. dynamicmap.go says what they are. A warp has a block.
#pragma once
#include "common.cuh"

typedef unsigned char byte;

constexpr int QUANTIZE_BLOCK = 256, HALF = QUANTIZE_BLOCK / 2, EACH = QUANTIZE_BLOCK / 32;

// A lane has EACH elements of the block, four neighbours in either half: element is the number of its ith.
inline int element(int i) { return i / 4 * HALF + threadIdx.x % 32 * 4 + i % 4; }

template <typename E> struct Elements {
	Vec<E, 4> half[2];
	E &at(int i) { return half[i / 4].at[i % 4]; }
	float operator[](int i) const { return half[i / 4][i % 4]; }
};

// read and write move a lane's elements of a block of which there are so many. WHOLE says that it has all of them, from an
// address on that is a multiple of four of them. Elements that are not there count as beyond.
template <bool WHOLE, typename E> inline Elements<E> read(const E *block, int count, E beyond = E()) {
	Elements<E> x;
	if constexpr (WHOLE) {
#pragma unroll
		for (int h = 0; h < 2; h++) x.half[h] = loadOf<4>(block, h * 32 + threadIdx.x % 32);
	} else {
#pragma unroll
		for (int i = 0; i < EACH; i++) x.at(i) = element(i) < count ? block[element(i)] : beyond;
	}
	return x;
}
template <bool WHOLE, typename E> inline void write(E *block, int count, Elements<E> x) {
	if constexpr (WHOLE) {
#pragma unroll
		for (int h = 0; h < 2; h++) store(block, h * 32 + threadIdx.x % 32, x.half[h]);
	} else {
#pragma unroll
		for (int i = 0; i < EACH; i++) {
			if (element(i) < count) block[element(i)] = x.at(i);
		}
	}
}

// largest is the largest |x| of the block, by their bits. As integers these have the floats' order, with NaN beyond infinity:
// where there is one, it is the largest.
inline float largest(const float (&x)[EACH]) {
	unsigned most = 0;
#pragma unroll
	for (int i = 0; i < EACH; i++) most = max(most, __float_as_uint(x[i]) & 0x7FFFFFFF);
	return __uint_as_float(largestOfWarp(most));
}

// inverse is 1/x, and 0 where that is infinite, as for a block of less than 2^-128, or where there is nothing to divide by.
inline float inverse(float x) {
	const float by = 1 / x;
	return by <= 3.40282347e38f ? by : 0;
}

// A Map is the numbers of codes, the signed ones or those not below zero, and what a magnitude must exceed to have an index
// larger than the one here. In a map of roots only 0 has the code of 0.
template <bool Signed> struct Map {
	static constexpr int LAST = Signed ? 128 : 255; // index of 1
	float number[256], above[LAST];

	// magnitude is the number of an index, by DynamicMap's arithmetic: the middle of part k of n, which its decade is cut into.
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

	// fill has the block's threads fill the map.
	void fill(bool roots) {
		for (int i = threadIdx.x; i < 256; i += BLOCK) {
			number[i] = !Signed ? magnitude(i) : i < 127 ? -magnitude(127 - i) : magnitude(i - 127);
			if (i >= LAST) continue;
			const float middle = (magnitude(i) + magnitude(i + 1)) * 0.5f;
			// Halfway, a magnitude has the even one of the two codes. In the signed map these are odd indices.
			above[i] = roots && i == 0 ? 0 : __uint_as_float(__float_as_uint(middle) - ((i % 2 == 1) != Signed));
		}
		__syncthreads();
	}

	// index is that of the number nearest to x, from 0 to 1. Where there are n numbers in each tenfold, evenly spaced, indices
	// are a line over x; n doubles from one tenfold to the next and the lines' slope falls, so that of all lines the least is the
	// right one. Its whole part is the index or the one below. What is no number has index 0.
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

	// code is that of the number nearest to x, from -1 to 1. There is none for -1: it has the code of the next to it.
	byte code(float x) const {
		if constexpr (!Signed) return index(x);
		const int j = index(fabsf(x));
		return x < 0 ? 127 - min(j, 127) : 127 + j;
	}
};
