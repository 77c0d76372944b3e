// Copying whole rows of DIM elements from one matrix to another. The formulas are in op_gather.go.
#include "common.cuh"

// gather_rows has a thread per vector.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) gather_rows(T *y, const T *x, const int *index, int rows) {
	waitForPrerequisites();
	const long long at = thread(), row = at / VECTORS;
	launchDependents();
	if (row >= rows) return;
	store(y, at, loadCached(x, (long long)index[row] * VECTORS + at % VECTORS));
}

// scatter_rows writes dx once, so that it need not be zeroed before: the row of dy that the index, which increases, has
// for it, or zeros. A thread block has ROWS rows of dx, and searches for the first index among them.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	scatter_rows(T *dx, const T *dy, const int *index, int rows, int n) {
	waitForPrerequisites();
	constexpr int AT_ONCE = 4;
	__shared__ int from[ROWS];
	const int first = blockIdx.x * ROWS;
	int lo = max(0, first - (rows - n)), hi = min(n, first); // no index occurs twice
	while (lo < hi) {
		const int middle = (lo + hi) / 2;
		if (index[middle] < first) lo = middle + 1;
		else hi = middle;
	}
	for (int i = threadIdx.x; i < ROWS; i += BLOCK_DIM) from[i] = -1;
	__syncthreads();
	for (int i = threadIdx.x; i < ROWS && lo + i < n; i += BLOCK_DIM) {
		const int row = index[lo + i] - first;
		if (row < ROWS) from[row] = lo + i;
	}
	__syncthreads();
	const int count = min(ROWS, rows - first) * VECTORS;
	for (int at = threadIdx.x; at < count; at += AT_ONCE * BLOCK_DIM) {
		Vector v[AT_ONCE];
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
			const int i = at + k * BLOCK_DIM;
			v[k] = Vector();
			if (i < count && from[i / VECTORS] >= 0)
				v[k] = loadStreaming(dy, (long long)from[i / VECTORS] * VECTORS + i % VECTORS);
		}
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
			if (at + k * BLOCK_DIM < count) store(dx, (long long)first * VECTORS + at + k * BLOCK_DIM, v[k]);
		}
	}
}
