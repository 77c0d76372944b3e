// LayerNorm and its gradient, with and without the residual add. The formulas are in op_layernorm.go.
#include "norm.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	layernorm(T *y, float *mean, float *rstd, const T *x, const T *w, const T *bias, int rows, float eps) {
	waitForPrerequisites();
	forward<true, false>(y, mean, rstd, nullptr, x, nullptr, w, bias, rows, eps);
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	add_layernorm(T *y, float *mean, float *rstd, T *h, const T *a, const T *b, const T *w, const T *bias, int rows,
		float eps) {
	waitForPrerequisites();
	forward<true, true>(y, mean, rstd, h, a, b, w, bias, rows, eps);
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM, RESIDENT)
	layernorm_backward(T *dx, float *partials, const T *dy, const T *x, const T *w, const float *mean, const float *rstd,
		int rows, int add, int biased) {
	waitForPrerequisites();
	backward<true>(dx, partials, dy, x, w, mean, rstd, rows, add, biased);
}
