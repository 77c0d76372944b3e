// RMSNorm and its gradient, with and without the residual add. The formulas are in op_rmsnorm.go.
#include "norm.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	rmsnorm(T *y, float *rstd, const T *x, const T *w, int rows, float eps) {
	launchDependents();
	waitForPrerequisites();
	forward<false, false>(y, nullptr, rstd, nullptr, x, nullptr, w, nullptr, rows, eps);
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	add_rmsnorm(T *y, float *rstd, T *h, const T *a, const T *b, const T *w, int rows, float eps) {
	launchDependents();
	waitForPrerequisites();
	forward<false, true>(y, nullptr, rstd, h, a, b, w, nullptr, rows, eps);
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM, RESIDENT)
	rmsnorm_backward(T *dx, float *partials, const T *dy, const T *x, const T *w, const float *rstd, int rows, int add) {
	waitForPrerequisites();
	backward<false>(dx, partials, dy, x, w, nullptr, rstd, rows, add, 0);
}
