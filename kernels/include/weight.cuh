// The weights of scores in attention, as powers of 2.
#pragma once
#include "common.cuh"

constexpr float LOG2E = 1.44269504f;

// weight returns 2^x, where x is a score's exponent minus the exponent of its row's sum: at most 0, apart from
// rounding. For huge scores rounding can make it some hundred, so x is limited to keep gradients finite. A NaN stays a
// NaN.
inline float weight(float x) {
#if defined EMULATED || __CUDA_ARCH__ < 800
	return exp2Rough(x > 1 ? 1 : x);
#else
	float y;
	asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(1.0f));
	return exp2Rough(y);
#endif
}
