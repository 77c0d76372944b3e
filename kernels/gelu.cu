// GELU and its gradient, in both forms. The formulas are in gelu.go.
#include "common.cuh"

// Below -16 either Φ is 0 and above 16 it is 1. There x stays where 0 times an infinity would come of it. A NaN stays one.
inline float atLeast(float x) { return x < -16 ? -16 : x; }
inline float limited(float x) { return x > 16 ? 16 : atLeast(x); }

// erfc(a/√2) / 2 = e^(-a²/2) · t · p(t), with t = 1 / (1 + SCALE·a) and a polynomial p whose coefficients these are, from the
// highest power down: of relative error 1e-6 for BF16, whose gradient cancels where it is 0, and 3e-8 for F32. erfcf takes so many
// instructions that BF16 would wait for them instead of for memory.
#ifdef BF16
constexpr float SCALE = 0.36f;
constexpr float P[] = {0.04603951043f, -0.1762784901f, 0.176215098f, 0.02979668516f, 0.1385444648f, 0.1419837413f, 0.143698368f};
#else
constexpr float SCALE = 0x1.eb851ep-3f;
constexpr float P[] = {0x1.a7fe8ap-6f, -0x1.034ba2p-3f, 0x1.ae9bb4p-3f, -0x1.34ea78p-3f, 0x1.2d3864p-3f,
	0x1.9a497p-6f, 0x1.6c0372p-4f, 0x1.6b4606p-4f, 0x1.88c168p-4f, 0x1.882728p-4f};
#endif

// power is e^(x·c). BF16 can do with less than expf.
inline float power(float x, float c) {
#ifdef BF16
	return exp2Rough(x * (1.442695041f * c));
#else
	return expf(x * c);
#endif
}

// phi is Φ(x), and slope Φ′(x) for x within both limits. The smaller of Φ(x) and Φ(-x) is computed first: as 1 less the other it
// would have lost its digits.
inline float phi(float x, int tanh, float &slope) {
	const float square = x * x, a = fabsf(x);
	float small, large;
	if (tanh) {
		const float e = power(a * (1.5957691216f + 0.0713548163f * square), -1); // e^-2|u|
		large = reciprocal(1 + e);
		small = e * large;
		slope = small * large * (1.5957691216f + 0.2140644488f * square);
	} else {
		const float e = power(square, -0.5f), t = reciprocal(1 + SCALE * a);
		float p = 0;
#pragma unroll
		for (float c : P) p = p * t + c;
		small = e * t * p;
		large = 1 - small;
		slope = 0.3989422804f * e;
	}
	return x < 0 ? small : large;
}

// Each thread has one vector of the result.

extern "C" __global__ void __launch_bounds__(BLOCK_DIM) gelu(T *y, const T *x, long long vectors, int tanh) {
	const long long at = thread();
	if (at >= vectors) return;
	const Vector v = loadStreaming(x, at);
	float slope;
	store(y, at, each([&](int i) {
		const float from16 = atLeast(v[i]);
		return from16 * phi(from16, tanh, slope);
	}));
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	gelu_backward(T *dx, const T *dy, const T *x, long long vectors, int tanh) {
	const long long at = thread();
	if (at >= vectors) return;
	const Vector v = loadStreaming(x, at), d = loadStreaming(dy, at);
	float slope;
	store(dx, at, each([&](int i) {
		const float at16 = limited(v[i]), p = phi(at16, tanh, slope);
		return d[i] * (p + at16 * slope);
	}));
}
