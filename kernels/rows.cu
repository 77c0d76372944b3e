// Whole rows of DIM elements from one matrix to another. The formulas are in rows.go. Each thread moves one vector.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK) gather_rows(T *y, const T *x, const int *index, int rows) {
	const long long at = thread(), row = at / VECTORS;
	if (row >= rows) return;
	store(y, at, fetch(x, (long long)index[row] * VECTORS + at % VECTORS));
}

// scatter_rows looks each row of dx up in the index, which increases, so that dx is written once and needs no zeroing before.
extern "C" __global__ void __launch_bounds__(BLOCK) scatter_rows(T *dx, const T *dy, const int *index, int rows, int n) {
	const long long at = thread(), row = at / VECTORS;
	if (row >= rows) return;
	int lo = 0, hi = n;
	while (lo < hi) {
		const int middle = (lo + hi) / 2;
		if (index[middle] < row) lo = middle + 1;
		else hi = middle;
	}
	const bool there = lo < n && index[lo] == row;
	store(dx, at, there ? load(dy, (long long)lo * VECTORS + at % VECTORS) : Vector());
}
