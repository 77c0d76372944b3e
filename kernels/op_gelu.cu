// GELU and its gradient, in both forms. The formulas are in op_gelu.go.
#include "activation.cuh"

// Each thread has one vector of the result.

extern "C" __global__ void __launch_bounds__(BLOCK_DIM) gelu(T *y, const T *x, long long vectors, int tanh) {
	waitForPrerequisites();
	const long long at = thread();
	if (at >= vectors) return;
	const Vector v = loadStreaming(x, at);
	store(y, at, each([&](int i) { return geluOf(v[i], tanh); }));
}

// gelu_tanh_approx computes the form with tanh by the instruction that is off by 2^-11.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) gelu_tanh_approx(T *y, const T *x, long long vectors) {
	waitForPrerequisites();
	const long long at = thread();
	if (at >= vectors) return;
	const Vector v = loadStreaming(x, at);
	store(y, at, each([&](int i) {
		const float from16 = atLeast(v[i]), u = from16 * (0.7978845608f + 0.0356774081f * from16 * from16);
		return 0.5f * from16 * (1 + tanhRough(u));
	}));
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	gelu_backward(T *dx, const T *dy, const T *x, long long vectors, int tanh) {
	waitForPrerequisites();
	const long long at = thread();
	if (at >= vectors) return;
	const Vector v = loadStreaming(x, at), d = loadStreaming(dy, at);
	store(dx, at, each([&](int i) { return d[i] * geluSlope(v[i], tanh); }));
}
