// The decisions of a training step, made on the device. The formulas are in step_control.go. One thread block is
// enough.
#include "common.cuh"
#include "block.cuh"

// addAll adds n numbers to a sum, in an order that depends only on n.
template <typename E> inline void addAll(double *to, const E *x, int n) {
	double sum = 0;
#pragma unroll 4
	for (int i = threadIdx.x; i < n; i += BLOCK_DIM) sum += x[i];
	sum = blockSum(sum);
	if (threadIdx.x == 0) *to += sum;
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM) add_loss(double *control, const float *losses, int n) {
	waitForPrerequisites();
	addAll(&control[0], losses, n);
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM) add_sums(double *control, const double *sums, int n) {
	waitForPrerequisites();
	addAll(&control[1], sums, n);
}

inline bool finite(double x) { return x - x == 0; }

extern "C" __global__ void __launch_bounds__(BLOCK_DIM) decide(double *control, double limit, double unscale) {
	waitForPrerequisites();
	if (threadIdx.x > 0) return;
	control[1] *= unscale * unscale;
	const double loss = control[0], norm = sqrt(control[1]), scale = limit / (norm + 1e-6);
	control[2] = limit <= 0 || scale > 1 ? unscale : unscale * scale; // a NaN stays a NaN
	control[3] = finite(loss) && finite(norm);
}
