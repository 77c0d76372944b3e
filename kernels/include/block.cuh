// Reductions over the threads of a block. BLOCK_DIM is a power of two, at least 32.
#pragma once

// neighbor returns the value of the lane whose number differs in the bits of i.
template <typename E> inline E neighbor(E x, int i) {
	union {
		E all;
		unsigned words[sizeof(E) / 4];
	} u = {x};
#pragma unroll
	for (unsigned &w : u.words) w = __shfl_xor_sync(~0u, w, i);
	return u.all;
}
inline double neighbor(double x, int i) { return __shfl_xor_sync(~0u, x, i); }

// fold joins the values of all threads of the block, two by two in an order that depends only on BLOCK_DIM, and returns
// the result to all of them.
template <typename E, typename F> inline E fold(E x, F join) {
	constexpr int WARPS = BLOCK_DIM / 32;
	__shared__ E parts[WARPS];
#pragma unroll
	for (int i = 1; i < 32; i *= 2) x = join(x, neighbor(x, i));
	__syncthreads(); // some threads may still read the parts of the previous fold
	if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
	__syncthreads();
	x = parts[threadIdx.x % WARPS];
#pragma unroll
	for (int i = 1; i < WARPS; i *= 2) x = join(x, neighbor(x, i));
	return x;
}

// lanes returns the sum of the values of a warp's lanes, to all of them.
inline float lanes(float x) {
#pragma unroll
	for (int i = 1; i < 32; i *= 2) x += __shfl_xor_sync(~0u, x, i);
	return x;
}

inline double blockSum(double x) {
	return fold(x, [](double a, double b) { return a + b; });
}

// sumWarps adds up the values of the lanes with the same number in all warps, warp after warp, and returns the sums to
// the first warp. A kernel calls it once.
template <int N> inline void sumWarps(float (&x)[N]) {
	__shared__ float parts[BLOCK_DIM / 32][N][32];
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
	for (int i = 0; i < N; i++) parts[warp][i][lane] = x[i];
	__syncthreads();
	if (warp > 0) return;
#pragma unroll
	for (int w = 1; w < BLOCK_DIM / 32; w++) {
#pragma unroll
		for (int i = 0; i < N; i++) x[i] += parts[w][i][lane];
	}
}
