// Activations, for the operations of their names and for what follows a product.
#pragma once
#include "common.cuh"

// Below -16 either Φ is 0, and above 16 it is 1. x is limited where 0 times an infinity would result. A NaN stays a
// NaN.
inline float atLeast(float x) { return x < -16 ? -16 : x; }
inline float limited(float x) { return x > 16 ? 16 : atLeast(x); }

// erfc(a/√2) / 2 = e^(-a²/2) · t · p(t), with t = 1 / (1 + SCALE·a) and a polynomial p with these coefficients, highest
// power first. Its relative error is 1e-6 for BF16 and F16, whose gradient cancels near 0, and 3e-8 for F32. erfcf
// takes so many instructions that BF16 would be limited by them instead of by memory.
#if defined BF16 || defined F16 || defined C_BF16 || defined C_F16
#define ROUGH
#endif
#ifdef ROUGH
constexpr float SCALE = 0.36f;
constexpr float P[] = {
	0.04603951043f, -0.1762784901f, 0.176215098f, 0.02979668516f, 0.1385444648f, 0.1419837413f, 0.143698368f};
#else
constexpr float SCALE = 0x1.eb851ep-3f;
constexpr float P[] = {0x1.a7fe8ap-6f, -0x1.034ba2p-3f, 0x1.ae9bb4p-3f, -0x1.34ea78p-3f, 0x1.2d3864p-3f,
	0x1.9a497p-6f, 0x1.6c0372p-4f, 0x1.6b4606p-4f, 0x1.88c168p-4f, 0x1.882728p-4f};
#endif

// power returns e^(x·c). BF16 and F16 need less precision than expf has.
inline float power(float x, float c) {
#ifdef ROUGH
	return exp2Rough(x * (1.442695041f * c));
#else
	return expf(x * c);
#endif
}

// phi returns Φ(x), and sets slope to Φ′(x), for x within both limits. It computes the smaller of Φ(x) and Φ(-x) first:
// computed as 1 minus the other, it would lose its digits.
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

inline float geluOf(float x, int tanh) {
	float slope;
	const float from16 = atLeast(x);
	return from16 * phi(from16, tanh, slope);
}

// geluSlope is the derivative of geluOf.
inline float geluSlope(float x, int tanh) {
	float slope;
	const float at16 = limited(x), p = phi(at16, tanh, slope);
	return p + at16 * slope;
}

// siluSlope is the derivative of SiLU, with s = sigmoid(x).
inline float siluSlope(float x, float s) { return s * (1 + x * (1 - s)); }

inline float sigmoid(float x) { return __fdividef(1, 1 + expf(-x)); }
