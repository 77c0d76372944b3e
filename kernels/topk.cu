// The largest elements of rows. The formulas are in topk.go.
#include "common.cuh"
#include "block.cuh"
#include "rank.cuh"

// next returns the largest rank below another of a row of n elements, to all threads of the block.
inline Rank next(const T *row, int n, Rank below) {
	Rank best = 0;
#pragma unroll 4
	for (int k = threadIdx.x; k < n / WIDTH; k += BLOCK_DIM) {
		const Vector v = loadCached(row, k);
#pragma unroll
		for (int i = 0; i < WIDTH; i++) {
			const Rank r = rank(v[i], k * WIDTH + i);
			if (r < below && r > best) best = r;
		}
	}
	return fold(best, larger);
}

// topk has a thread block per row, which looks for one element after the other: k is small.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) topk(T *values, int *indices, const T *x, int n, int k) {
	const T *row = x + (long long)blockIdx.x * n;
	Rank last = ~0ull;
	for (int i = 0; i < k; i++) {
		last = next(row, n, last);
		if (threadIdx.x > 0) continue;
		const long long to = (long long)blockIdx.x * k + i;
		indices[to] = indexOf(last);
		if (values) values[to] = row[indexOf(last)];
	}
}

// topk_backward has a thread for each vector of dx, which looks for its elements among the k of its row.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	topk_backward(T *dx, const T *dvalues, const int *indices, int n, int k, long long vectors) {
	const long long at = thread();
	if (at >= vectors) return;
	const long long from = at * WIDTH / n * k;
	const int column = (int)(at * WIDTH % n);
	Vector out;
	for (int i = 0; i < k; i++) {
		const int index = indices[from + i] - column;
#pragma unroll
		for (int j = 0; j < WIDTH; j++) {
			if (index == j) out.at[j] = dvalues[from + i];
		}
	}
	store(dx, at, out);
}
