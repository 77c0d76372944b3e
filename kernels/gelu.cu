// GELU and its gradient, in both forms. The formulas are in gelu.go.
#include "common.cuh"

// Below -16 either Φ is 0 and above 16 it is 1. Beyond these x stays there, so that nothing overflows. A NaN stays one.
inline float atLeast(float x) { return x < -16 ? -16 : x; }
inline float limited(float x) { return x > 16 ? 16 : atLeast(x); }

// phi is Φ(x), for x within the limits, and slope Φ′(x). 1 - tanh would have lost the digits of a small one.
inline float phi(float x, int tanh, float &slope) {
	const float square = x * x;
	if (!tanh) {
		slope = 0.3989422804f * expf(-0.5f * square);
		return 0.5f * erfcf(-0.7071067812f * x);
	}
	const float e = expf(-fabsf(x) * (1.5957691216f + 0.0713548163f * square)); // e^-2|u|
	const float large = 1 / (1 + e), small = e * large;
	slope = small * large * (1.5957691216f + 0.2140644488f * square);
	return x < 0 ? small : large;
}

// Each thread has one vector of the result.

extern "C" __global__ void __launch_bounds__(BLOCK) gelu(T *y, const T *x, long long vectors, int tanh) {
	const long long at = thread();
	if (at >= vectors) return;
	const Vector v = load(x, at);
	float slope;
	store(y, at, each([&](int i) { return atLeast(v[i]) * phi(limited(v[i]), tanh, slope); }));
}

extern "C" __global__ void __launch_bounds__(BLOCK)
	gelu_backward(T *dx, const T *dy, const T *x, long long vectors, int tanh) {
	const long long at = thread();
	if (at >= vectors) return;
	const Vector v = load(x, at), d = load(dy, at);
	float slope;
	store(dx, at, each([&](int i) {
		const float at16 = limited(v[i]), p = phi(at16, tanh, slope);
		return d[i] * (p + at16 * slope);
	}));
}
