// The sum of a product's parts, if k was divided. product.go describes it.
#include "common.cuh"

// sum_parts adds up the parts, each [m, n], in their order.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	sum_parts(C *c, long long cRow, const float *parts, const T *bias, float alpha, int m, int n, int count, int add) {
	waitForPrerequisites();
	const long long at = thread(), size = (long long)m * n;
	if (at >= size) return;
	float sum = 0;
#pragma unroll 4
	for (int i = 0; i < count; i++) sum += parts[i * size + at];
	put(c + at / n * cRow + at % n, alpha * sum, bias, at % n, add);
}
