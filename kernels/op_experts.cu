// The sum of what experts computed, and the gradient of their weights. The formulas are in op_experts.go.
#include "common.cuh"
#include "block.cuh"

// combine has a thread per vector of y.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	combine(T *y, const T *x, const float *weights, const int *place, int rows, int k) {
	waitForPrerequisites();
	const long long at = thread(), row = at / VECTORS, column = at % VECTORS;
	if (row >= rows) return;
	float sum[WIDTH] = {};
	for (int s = 0; s < k; s++) {
		const Vector v = loadStreaming(x, (long long)place[row * k + s] * VECTORS + column);
		const float w = weights ? weights[row * k + s] : 1;
#pragma unroll
		for (int i = 0; i < WIDTH; i++) sum[i] += w * v[i];
	}
	store(y, at, each([&](int i) { return sum[i]; }));
}

// weigh_pairs has a warp per pair.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	weigh_pairs(float *dweights, T *dx, T *x, const float *weights, const int *place, int pairs) {
	waitForPrerequisites();
	const long long pair = thread() / 32;
	if (pair >= pairs) return;
	const long long row = (long long)place[pair] * VECTORS;
	const float w = weights[pair];
	float sum = 0;
	for (int i = threadIdx.x % 32; i < VECTORS; i += 32) {
		const Vector u = loadStreaming(dx, row + i), v = loadStreaming(x, row + i);
#pragma unroll
		for (int j = 0; j < WIDTH; j++) sum += u[j] * v[j];
		store(dx, row + i, each([&](int j) { return w * u[j]; }));
		store(x, row + i, each([&](int j) { return w * v[j]; }));
	}
	sum = lanes(sum);
	if (threadIdx.x % 32 == 0) dweights[pair] = sum;
}
