// Other row operations of attention. DIM is the head dimension, or the length of the rows to store.
#include "common.cuh"

// head_dots multiplies each head's rows of a and b, [rows, heads·DIM], into y [heads, rows]. Adjacent threads share a
// row.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	head_dots(float *y, const T *a, const T *b, int rows, int heads) {
	waitForPrerequisites();
	constexpr int THREADS = 8;
	const int lane = thread() % THREADS;
	const long long number = thread() / THREADS, row = number / heads, head = number % heads;
	float sum = 0;
	for (int k = lane; k < VECTORS && row < rows; k += THREADS) {
		const Vector u = loadStreaming(a, number * VECTORS + k), v = loadStreaming(b, number * VECTORS + k);
#pragma unroll
		for (int i = 0; i < WIDTH; i++) sum += u[i] * v[i];
	}
#pragma unroll
	for (int i = 1; i < THREADS; i *= 2) sum += __shfl_xor_sync(~0u, sum, i);
	if (lane == 0 && row < rows) y[head * rows + row] = sum;
}

// store_rows rounds a, [rows, DIM], to y, whose rows are yRow vectors apart.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) store_rows(T *y, int yRow, const float *a, int rows) {
	waitForPrerequisites();
	const long long at = thread(), row = at / VECTORS;
	if (row >= rows) return;
	const Vec<float, WIDTH> v = loadStreaming(a, at);
	store(y, row * yRow + at % VECTORS, each([&](int i) { return v[i]; }));
}

// append_kv copies the last 2·DIM elements of each row of qkv, which has qkvRow vectors, to a row of k and a row of v.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) append_kv(T *k, T *v, const T *qkv, int qkvRow, int rows) {
	waitForPrerequisites();
	const long long at = thread(), row = at / (2 * VECTORS), column = at % (2 * VECTORS);
	if (row >= rows) return;
	const Vector x = loadStreaming(qkv, row * qkvRow + qkvRow - 2 * VECTORS + column);
	if (column < VECTORS) store(k, row * VECTORS + column, x);
	else store(v, row * VECTORS + column - VECTORS, x);
}
