// KeepColumns. The formula is in op_keep_columns.go. Each thread has one vector.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK_DIM) keep_columns(
	T *y, const T *x, const int *columns, int rows, int n) {
	waitForPrerequisites();
	const long long at = thread(), row = at / VECTORS;
	launchDependents();
	if (row >= rows) return;
	const int first = at % VECTORS * WIDTH, lo = columns[2 * row], hi = columns[2 * row + 1];
	const Vector v = loadCached(x, at);
	store(y, at, each([&](int i) {
		const int j = (first + i) % n;
		return lo <= j && j < hi ? v[i] : 0;
	}));
}
