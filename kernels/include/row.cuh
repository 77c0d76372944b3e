// Reductions over the THREADS adjacent threads that share a row. THREADS is a power of two, at most BLOCK_DIM.
#pragma once

constexpr int ROWS = BLOCK_DIM / THREADS; // per thread block

// joinEach joins each x of the THREADS adjacent threads that share a row, and returns the results to all of them.
// Between two calls with the same turn, 0 or 1, there must be one with the other, so that no thread overwrites what a
// slower one still reads.
template <int N, typename F> inline void joinEach(float (&x)[N], int turn, F join) {
#pragma unroll
	for (int n = 0; n < N; n++) {
#pragma unroll
		for (int i = 1; i < THREADS && i < 32; i *= 2) x[n] = join(x[n], __shfl_xor_sync(~0u, x[n], i));
	}
	if constexpr (THREADS > 32) {
		constexpr int WARPS = (THREADS + 31) / 32;
		__shared__ float parts[2][N][BLOCK_DIM / 32];
		const int warp = threadIdx.x / 32, first = warp - warp % WARPS;
		if (threadIdx.x % 32 == 0) {
#pragma unroll
			for (int n = 0; n < N; n++) parts[turn][n][warp] = x[n];
		}
		__syncthreads();
#pragma unroll
		for (int n = 0; n < N; n++) {
			x[n] = parts[turn][n][first];
#pragma unroll
			for (int i = 1; i < WARPS; i++) x[n] = join(x[n], parts[turn][n][first + i]);
		}
	}
}
template <typename F> inline float joined(float x, int turn, F join) {
	float one[1] = {x};
	joinEach(one, turn, join);
	return one[0];
}

template <int N> inline void sums(float (&x)[N], int turn) {
	joinEach(x, turn, [](float a, float b) { return a + b; });
}
inline float sum(float x, int turn) {
	float one[1] = {x};
	sums(one, turn);
	return one[0];
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
