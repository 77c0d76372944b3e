// Reductions over the THREADS adjacent threads that share a row. THREADS is a power of two, at most BLOCK_DIM.
#pragma once

constexpr int ROWS = BLOCK_DIM / THREADS; // per thread block

// joined joins x of the THREADS adjacent threads that share a row, and returns the result to all of them. In a loop,
// turn must alternate between 0 and 1, so that no thread overwrites what a slower one still reads.
template <typename F> inline float joined(float x, int turn, F join) {
#pragma unroll
	for (int i = 1; i < THREADS && i < 32; i *= 2) x = join(x, __shfl_xor_sync(~0u, x, i));
	if constexpr (THREADS > 32) {
		constexpr int WARPS = (THREADS + 31) / 32;
		__shared__ float parts[2][BLOCK_DIM / 32];
		const int warp = threadIdx.x / 32, first = warp - warp % WARPS;
		if (threadIdx.x % 32 == 0) parts[turn][warp] = x;
		__syncthreads();
		x = parts[turn][first];
#pragma unroll
		for (int i = 1; i < WARPS; i++) x = join(x, parts[turn][first + i]);
	}
	return x;
}

inline float sum(float x, int turn) {
	return joined(x, turn, [](float a, float b) { return a + b; });
}

#ifdef DIM
constexpr int EACH = (VECTORS + THREADS - 1) / THREADS; // vectors of a row per thread

// sumRows adds up each element of a row over the ROWS rows of the thread block, and stores it in part [DIM].
inline void sumRows(float *part, const float (&x)[EACH][WIDTH]) {
	__shared__ float sums[ROWS > 1 ? ROWS * DIM : 1];
	const int lane = threadIdx.x % THREADS, group = threadIdx.x / THREADS;
	__syncthreads(); // some threads may still read the previous sums
#pragma unroll
	for (int k = 0; k < EACH; k++) {
		if (k * THREADS + lane >= VECTORS) continue;
#pragma unroll
		for (int i = 0; i < WIDTH; i++) {
			const int column = (k * THREADS + lane) * WIDTH + i;
			(ROWS > 1 ? sums + group * DIM : part)[column] = x[k][i];
		}
	}
	if (ROWS == 1) return;
	__syncthreads();
	for (int column = threadIdx.x; column < DIM; column += BLOCK_DIM) {
		float total = 0;
#pragma unroll
		for (int g = 0; g < ROWS; g++) total += sums[g * DIM + column];
		part[column] = total;
	}
}
#endif
