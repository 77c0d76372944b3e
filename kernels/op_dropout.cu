// Dropout. The formula is in op_dropout.go. Each thread has one vector.
#include "random.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK_DIM) dropout(
	T *y, const T *x, long long vectors, long long below, float scale, long long key) {
	waitForPrerequisites();
	const long long at = thread();
	if (at >= vectors) return;
	const unsigned keys[2] = {(unsigned)key, (unsigned)(key >> 32)};
	const Vector v = loadStreaming(x, at);
	store(y, at, each([&](int i) {
		return mixed((unsigned)(at * WIDTH + i), keys) >= below ? scale * v[i] : 0;
	}));
}
