// The sum of two tensors. The formula is in op_add.go.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK_DIM) add(T *y, const T *a, const T *b, long long vectors) {
	waitForPrerequisites();
	const long long at = thread();
	if (at >= vectors) return;
	const Vector u = loadStreaming(a, at), v = loadStreaming(b, at);
	store(y, at, each([&](int i) { return u[i] + v[i]; }));
}
