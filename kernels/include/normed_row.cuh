// The RMSNorm of a row, which every thread block of a product computes itself: that takes less time than another
// launch, because the row is cached.
#pragma once
#include "common.cuh"

// normScale returns what RMSNorm multiplies a row by, besides the weights. All threads of a thread block call it, with
// the squares of what they have of the row.
inline float normScale(float squares, int depth, float eps) {
	constexpr int WARPS = BLOCK_DIM / 32;
	__shared__ float parts[WARPS];
#pragma unroll
	for (int i = 1; i < 32; i *= 2) squares += __shfl_xor_sync(~0u, squares, i);
	if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = squares;
	__syncthreads();
	squares = 0;
#pragma unroll
	for (int i = 0; i < WARPS; i++) squares += parts[i];
	return 1 / sqrtf(squares / depth + eps);
}

// normed returns the norm of eight elements.
template <typename E> inline Vec<E, 8> normed(const Vec<E, 8> &x, const Vec<E, 8> &w, float scale) {
	float out[8];
#pragma unroll
	for (int i = 0; i < 8; i++) out[i] = x[i] * scale * w[i];
	Vec<E, 8> y;
	narrow(y.at, out);
	return y;
}

// squaresOf returns the sum of the squares of eight elements.
template <typename E> inline float squaresOf(const Vec<E, 8> &x) {
	float squares = 0;
#pragma unroll
	for (int i = 0; i < 8; i++) squares += x[i] * x[i];
	return squares;
}

// row is the norm of a, and whatever else a source has in dynamic shared memory.
extern __shared__ uint4 row[];

template <typename E> inline void normalize(const E *a, const E *norm, int depth, float eps) {
	float squares = 0;
	for (int k = threadIdx.x; k < depth / 8; k += BLOCK_DIM) squares += squaresOf(loadCachedOf<8>(a, k));
	const float scale = normScale(squares, depth, eps);
	for (int k = threadIdx.x; k < depth / 8; k += BLOCK_DIM) {
		row[k] = normed(loadCachedOf<8>(a, k), loadCachedOf<8>(norm, k), scale).words[0];
	}
	__syncthreads();
}
