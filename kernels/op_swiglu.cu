// SwiGLU and its gradient, fused and in steps. The formulas are in op_swiglu.go. DIM is inner: rows of gateUp have
// 2·DIM elements.
#include "activation.cuh"

// Each thread has one vector of the result.

extern "C" __global__ void __launch_bounds__(BLOCK_DIM) swiglu(T *y, const T *gateUp, int rows) {
	waitForPrerequisites();
	const long long at = thread(), row = at / VECTORS, from = at + row * VECTORS;
	if (row >= rows) return;
	const Vector gate = loadStreaming(gateUp, from), up = loadStreaming(gateUp, from + VECTORS);
	store(y, at, each([&](int i) { return gate[i] * sigmoid(gate[i]) * up[i]; }));
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	swiglu_backward(T *dGateUp, const T *dy, const T *gateUp, int rows) {
	waitForPrerequisites();
	const long long at = thread(), row = at / VECTORS, from = at + row * VECTORS;
	if (row >= rows) return;
	const Vector gate = loadStreaming(gateUp, from), up = loadStreaming(gateUp, from + VECTORS), d = loadStreaming(dy, at);
	store(dGateUp, from, each([&](int i) {
		const float s = sigmoid(gate[i]);
		return d[i] * up[i] * siluSlope(gate[i], s);
	}));
	store(dGateUp, from + VECTORS, each([&](int i) { return d[i] * gate[i] * sigmoid(gate[i]); }));
}

// The steps, apart from op_mul.cu. Their operands are matrices of DIM columns, with a constant distance between rows.

extern "C" __global__ void __launch_bounds__(BLOCK_DIM) silu(T *y, int yRow, const T *x, int xRow, int rows) {
	waitForPrerequisites();
	const long long at = thread(), row = at / VECTORS, column = at % VECTORS;
	if (row >= rows) return;
	const Vector v = loadStreaming(x + row * xRow, column);
	store(y + row * yRow, column, each([&](int i) { return v[i] * sigmoid(v[i]); }));
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	silu_backward(T *dx, int dxRow, const T *dy, int dyRow, const T *x, int xRow, int rows) {
	waitForPrerequisites();
	const long long at = thread(), row = at / VECTORS, column = at % VECTORS;
	if (row >= rows) return;
	const Vector v = loadStreaming(x + row * xRow, column), d = loadStreaming(dy + row * dyRow, column);
	store(dx + row * dxRow, column, each([&](int i) {
		const float s = sigmoid(v[i]);
		return d[i] * siluSlope(v[i], s);
	}));
}
