// The sum of two tensors, seen as rows of DIM elements. The formula is in add.go.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK) add(T *y, const T *a, const T *b, int rows) {
	const long long at = (long long)blockIdx.x * BLOCK + threadIdx.x;
	if (at >= (long long)rows * VECTORS) return;
	const Vector u = load(a, at), v = load(b, at);
	float out[WIDTH];
#pragma unroll
	for (int i = 0; i < WIDTH; i++) out[i] = u[i] + v[i];
	store(y, at, rounded(out));
}
