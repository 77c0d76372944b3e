// The sum of squares. The formula is in op_squares.go. WIDTH depends on the alignment of x; the elements after the last
// vector are read one by one.
#include "common.cuh"
#include "block.cuh"

constexpr int AT_ONCE = 8; // vectors in flight per thread: their latency limits the speed

inline double square(float x) { return (double)x * x; }

// add_squares stores each thread block's share of the sum in sums.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) add_squares(double *sums, const T *x, long long n) {
	waitForPrerequisites();
	const long long vectors = n / WIDTH, stride = (long long)gridDim.x * BLOCK_DIM;
	double sum[2] = {};
	auto add = [&](Vector v) {
#pragma unroll
		for (int i = 0; i < WIDTH; i++) sum[i % 2] += square(v[i]);
	};
	long long at = thread();
	for (; at + (AT_ONCE - 1) * stride < vectors; at += AT_ONCE * stride) {
		Vector v[AT_ONCE];
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) v[k] = loadStreaming(x, at + k * stride);
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) add(v[k]);
	}
	for (; at < vectors; at += stride) add(loadStreaming(x, at));
	if (thread() < n % WIDTH) sum[0] += square(value(x[vectors * WIDTH + thread()]));
	const double total = blockSum(sum[0] + sum[1]);
	if (threadIdx.x == 0) sums[blockIdx.x] = total;
}
