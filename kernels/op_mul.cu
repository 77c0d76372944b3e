// The product of two tensors, element by element, and its gradients. The formulas are in op_mul.go. Each thread has one
// vector.
#include "common.cuh"

// mul multiplies matrices of DIM columns, with a constant distance between rows.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	mul(T *y, int yRow, const T *a, int aRow, const T *b, int bRow, int rows) {
	waitForPrerequisites();
	const long long at = thread(), row = at / VECTORS, column = at % VECTORS;
	if (row >= rows) return;
	const Vector u = loadStreaming(a + row * aRow, column), v = loadStreaming(b + row * bRow, column);
	store(y + row * yRow, column, each([&](int i) { return u[i] * v[i]; }));
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	mul_backward(T *da, T *db, const T *dy, const T *a, const T *b, long long vectors) {
	waitForPrerequisites();
	const long long at = thread();
	if (at >= vectors) return;
	const Vector u = loadStreaming(a, at), v = loadStreaming(b, at), d = loadStreaming(dy, at);
	store(da, at, each([&](int i) { return d[i] * v[i]; }));
	store(db, at, each([&](int i) { return d[i] * u[i]; }));
}
