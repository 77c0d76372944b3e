// Dropout. The formula is in op_dropout.go. Each thread has one vector.
#include "random.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK_DIM) dropout(
	T *y, const T *x, long long vectors, long long below, float scale, long long key) {
	waitForPrerequisites();
	const long long at = thread();
	if (at >= vectors) return;
	const Vector v = loadStreaming(x, at);
	store(y, at, each([&](int i) {
		const long long number = at * WIDTH + i;
		const unsigned keys[2] = {(unsigned)key, (unsigned)(key >> 32) + (unsigned)(number >> 32)};
		return mixed((unsigned)number, keys) >= below ? scale * v[i] : 0;
	}));
}
