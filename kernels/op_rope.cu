// RoPE and its gradient. The formula is in op_rope.go. DIM is half a head: each thread rotates one vector of a head's
// first half together with the corresponding vector of its second half.
#include "common.cuh"

// rope rotates the first heads of every row, of width vectors, by their positions, or back.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	rope(T *qkv, const int *positions, const float *cos, const float *sin, int rows, int heads, int width, int back) {
	launchDependents();
	waitForPrerequisites();
	const long long at = thread(), row = at / VECTORS / heads;
	if (row >= rows) return;
	const long long first = row * width + at / VECTORS % heads * 2 * VECTORS + at % VECTORS;
	const long long angle = (long long)positions[row] * DIM + at % VECTORS * WIDTH;
	const Vector a = loadStreaming(qkv, first), b = loadStreaming(qkv, first + VECTORS);
	float c[WIDTH], s[WIDTH];
#pragma unroll
	for (int i = 0; i < WIDTH; i++) {
		c[i] = cos[angle + i];
		s[i] = back ? -sin[angle + i] : sin[angle + i];
	}
	store(qkv, first, each([&](int i) { return a[i] * c[i] - b[i] * s[i]; }));
	store(qkv, first + VECTORS, each([&](int i) { return b[i] * c[i] + a[i] * s[i]; }));
}
