// The pool of a KV cache. DIM is the length of its rows, which hold all key heads.
#include "common.cuh"

// append_paged copies the last 2·DIM elements of row r of qkv, which has qkvRow vectors, to row slots[r] of k and of v.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	append_paged(T *k, T *v, const T *qkv, const int *slots, int qkvRow, int rows) {
	launchDependents();
	waitForPrerequisites();
	const long long at = thread(), row = at / (2 * VECTORS), column = at % (2 * VECTORS);
	if (row >= rows) return;
	const Vector x = loadCached(qkv, row * qkvRow + qkvRow - 2 * VECTORS + column);
	const long long to = (long long)slots[row] * VECTORS;
	if (column < VECTORS) store(k, to + column, x);
	else store(v, to + column - VECTORS, x);
}
