// Attention without tensor cores. The formulas are in op_attention.go, and what a thread block computes is in
// attention.cuh.
#include "attention.cuh"

// attention has queries whose rows are qRow elements apart, and keys and values whose rows are kvRow apart: ahead of
// them before the first query's own. lse is NULL if it is not wanted.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM, RESIDENT)
	attention(T *to, float *lse, const T *q, const T *k, const T *v, const int *offsets, int rows, int heads, int qRow,
		int kvRow, int share, int ahead, int window, int causal, float scale) {
	waitForPrerequisites();
	__shared__ __align__(16) Staged a[ROWS], b[COLUMNS];
	__shared__ __align__(16) Weighed weights[ROWS];
	const int head = blockIdx.x % heads;
	const Sequence s(blockIdx.x / heads, offsets, rows);
	const int first = (gridDim.y - 1 - blockIdx.y) * ROWS; // the last queries of a sequence see most: they start first
	if (first >= s.length) return;
	const Seen seen = {s.length + ahead, window, causal};
	const int position = first + ahead, n = min(ROWS, s.length - first), end = seen.last(position + n - 1) + 1;
	const long long row = s.begin + first;
	q += row * qRow + head * DIM;
	k += (long long)s.begin * kvRow + head / share * DIM;
	v += (long long)s.begin * kvRow + head / share * DIM;

	Products p;
	Sums out = {};
	float top[MINE], total[MINE] = {}; // of each row: the largest score, and the sum of weights relative to it
#pragma unroll
	for (int i = 0; i < MINE; i++) top[i] = -INFINITY;
	for (int key = seen.first(position); key < end; key += COLUMNS) {
		multiply(p, a, b, q, qRow, n, k + (long long)key * kvRow, kvRow, end - key);
#pragma unroll
		for (int i = 0; i < MINE; i++) {
			const float before = top[i];
#pragma unroll
			for (int j = 0; j < EACH; j++) {
				p[i][j] = seen(position + y() + i * 16, key + x() + j * 8) ? __fmul_rn(p[i][j], scale) : -INFINITY;
				top[i] = fmaxf(top[i], p[i][j]);
			}
			top[i] = together(top[i], [](float one, float other) { return fmaxf(one, other); });
			const float base = top[i] > -INFINITY ? top[i] : 0; // 0 of a row that has seen nothing yet
			const float factor = expf(before - base);
			total[i] *= factor;
#pragma unroll
			for (int j = 0; j < EACH; j++) {
				p[i][j] = expf(p[i][j] - base);
				total[i] += p[i][j];
			}
#pragma unroll
			for (int chunk = 0; chunk < CHUNKS; chunk++) {
#pragma unroll
				for (int e = 0; e < 4; e++) out[i][chunk][e] *= factor;
			}
		}
		keep(weights, p);
		accumulate(out, b, weights, v + (long long)key * kvRow, kvRow, end - key);
	}
#pragma unroll
	for (int i = 0; i < MINE; i++) {
		total[i] = together(total[i], [](float one, float other) { return one + other; });
		const int query = y() + i * 16;
		if (lse && x() == 0 && query < n) lse[(long long)head * rows + row + query] = top[i] + logf(total[i]);
	}
	write(to + (row * heads + head) * DIM, heads * DIM, n, out, [&](int i) { return 1 / total[i]; });
}
