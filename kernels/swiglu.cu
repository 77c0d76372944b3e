// SwiGLU and its gradient, whole and in the steps that it is made of. The formulas are in swiglu.go. DIM is inner: rows of
// gateUp have 2·DIM elements.
#include "common.cuh"

inline float sigmoid(float x) { return __fdividef(1, 1 + expf(-x)); }

// Each thread has one vector of the result.

extern "C" __global__ void __launch_bounds__(BLOCK) swiglu(T *y, const T *gateUp, int rows) {
	const long long at = (long long)blockIdx.x * BLOCK + threadIdx.x, row = at / VECTORS, from = at + row * VECTORS;
	if (row >= rows) return;
	const Vector gate = load(gateUp, from), up = load(gateUp, from + VECTORS);
	float out[WIDTH];
#pragma unroll
	for (int i = 0; i < WIDTH; i++) out[i] = gate[i] * sigmoid(gate[i]) * up[i];
	store(y, at, rounded(out));
}

extern "C" __global__ void __launch_bounds__(BLOCK) swiglu_backward(T *dGateUp, const T *dy, const T *gateUp, int rows) {
	const long long at = (long long)blockIdx.x * BLOCK + threadIdx.x, row = at / VECTORS, from = at + row * VECTORS;
	if (row >= rows) return;
	const Vector gate = load(gateUp, from), up = load(gateUp, from + VECTORS), d = load(dy, at);
	float dGate[WIDTH], dUp[WIDTH];
#pragma unroll
	for (int i = 0; i < WIDTH; i++) {
		const float g = gate[i], s = sigmoid(g);
		dGate[i] = d[i] * up[i] * s * (1 + g * (1 - s));
		dUp[i] = d[i] * g * s;
	}
	store(dGateUp, from, rounded(dGate));
	store(dGateUp, from + VECTORS, rounded(dUp));
}

// The steps. Their operands are matrices of DIM columns whose rows lie so many elements apart.

extern "C" __global__ void __launch_bounds__(BLOCK) silu(T *y, int yRow, const T *x, int xRow, int rows) {
	const long long at = (long long)blockIdx.x * BLOCK + threadIdx.x, row = at / VECTORS, column = at % VECTORS;
	if (row >= rows) return;
	const Vector v = load(x + row * xRow, column);
	float out[WIDTH];
#pragma unroll
	for (int i = 0; i < WIDTH; i++) out[i] = v[i] * sigmoid(v[i]);
	store(y + row * yRow, column, rounded(out));
}

extern "C" __global__ void __launch_bounds__(BLOCK)
	silu_backward(T *dx, int dxRow, const T *dy, int dyRow, const T *x, int xRow, int rows) {
	const long long at = (long long)blockIdx.x * BLOCK + threadIdx.x, row = at / VECTORS, column = at % VECTORS;
	if (row >= rows) return;
	const Vector v = load(x + row * xRow, column), d = load(dy + row * dyRow, column);
	float out[WIDTH];
#pragma unroll
	for (int i = 0; i < WIDTH; i++) {
		const float s = sigmoid(v[i]);
		out[i] = d[i] * s * (1 + v[i] * (1 - s));
	}
	store(dx + row * dxRow, column, rounded(out));
}

extern "C" __global__ void __launch_bounds__(BLOCK)
	mul(T *y, int yRow, const T *a, int aRow, const T *b, int bRow, int rows) {
	const long long at = (long long)blockIdx.x * BLOCK + threadIdx.x, row = at / VECTORS, column = at % VECTORS;
	if (row >= rows) return;
	const Vector u = load(a + row * aRow, column), v = load(b + row * bRow, column);
	float out[WIDTH];
#pragma unroll
	for (int i = 0; i < WIDTH; i++) out[i] = u[i] * v[i];
	store(y + row * yRow, column, rounded(out));
}
