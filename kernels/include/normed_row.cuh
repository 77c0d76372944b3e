// The RMSNorm of a row, which every thread block of a product computes itself: that takes less time than another
// launch, because the row is cached.
#pragma once
#include "common.cuh"

// normScale returns what RMSNorm multiplies a row by, besides the weights. All threads of a thread block call it.
template <typename E> inline float normScale(const E *a, int depth, float eps) {
	constexpr int WARPS = BLOCK_DIM / 32;
	__shared__ float parts[WARPS];
	float squares = 0;
	for (int k = threadIdx.x; k < depth / 8; k += BLOCK_DIM) {
		const Vec<E, 8> x = loadCachedOf<8>(a, k);
#pragma unroll
		for (int i = 0; i < 8; i++) squares += x[i] * x[i];
	}
#pragma unroll
	for (int i = 1; i < 32; i *= 2) squares += __shfl_xor_sync(~0u, squares, i);
	if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = squares;
	__syncthreads();
	squares = 0;
#pragma unroll
	for (int i = 0; i < WARPS; i++) squares += parts[i];
	return 1 / sqrtf(squares / depth + eps);
}

// normed returns vector k of a row's norm, given its scale.
template <typename E> inline Vec<E, 8> normed(const E *a, const E *norm, float scale, int k) {
	const Vec<E, 8> x = loadCachedOf<8>(a, k), w = loadCachedOf<8>(norm, k);
	float out[8];
#pragma unroll
	for (int i = 0; i < 8; i++) out[i] = x[i] * scale * w[i];
	Vec<E, 8> y;
	narrow(y.at, out);
	return y;
}

// row is the norm of a, and whatever else a source has in dynamic shared memory.
extern __shared__ uint4 row[];

template <typename E> inline void normalize(const E *a, const E *norm, int depth, float eps) {
	const float scale = normScale(a, depth, eps);
	for (int k = threadIdx.x; k < depth / 8; k += BLOCK_DIM) row[k] = normed(a, norm, scale, k).words[0];
	__syncthreads();
}
