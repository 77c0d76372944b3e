// Sums of columns: gradients of biases, and weight gradients from partials. Thread blocks are 32 threads wide; which
// terms they add up depends only on the sizes.
#include "common.cuh"
#include "block.cuh"

// column_sums stores in row y of partials [grid, columns] the column sums of the y-th share of the rows of x, which are
// apart elements apart.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	column_sums(float *partials, const T *x, long long apart, int rows, int columns, int share) {
	waitForPrerequisites();
	constexpr int AT_ONCE = 8;
	const int column = blockIdx.x * 32 + threadIdx.x % 32, vectors = columns / WIDTH;
	const int from = blockIdx.y * share + threadIdx.x / 32, to = min(rows, (int)(blockIdx.y + 1) * share);
	float sums[WIDTH] = {};
	for (int first = from; first < to && column < vectors; first += AT_ONCE * BLOCK_DIM / 32) {
		Vector v[AT_ONCE];
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
			const int row = first + k * BLOCK_DIM / 32;
			v[k] = row < to ? loadStreaming(x + row * apart, column) : Vector();
		}
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
#pragma unroll
			for (int i = 0; i < WIDTH; i++) sums[i] += v[k][i];
		}
	}
	sumWarps(sums);
	if (threadIdx.x < 32 && column < vectors) {
		store(partials + (long long)blockIdx.y * columns, column, each<float>([&](int i) { return sums[i]; }));
	}
}

// add_column_sums adds the column sums of partials, which has count rows, to dw; along y, the sums of the next columns
// to next.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	add_column_sums(To *dw, To *next, const float *partials, int apart, int columns, int count) {
	waitForPrerequisites();
	const int column = blockIdx.x * 32 + threadIdx.x % 32;
	if (blockIdx.y) dw = next, partials += columns;
	float sum[1] = {};
	if (column < columns) {
#pragma unroll 8
		for (int i = threadIdx.x / 32; i < count; i += BLOCK_DIM / 32) sum[0] += partials[(long long)i * apart + column];
	}
	sumWarps(sum);
	if (threadIdx.x >= 32 || column >= columns) return;
	To out[1];
	sum[0] += value(dw[column]);
	narrow(out, sum);
	dw[column] = out[0];
}
