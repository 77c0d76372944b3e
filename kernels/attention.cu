// Attention, and the gradient of its queries, without tensor cores. The formulas are in attention.go, and what a thread
// block computes is in attention.cuh.
#include "attention.cuh"

// attention has queries whose rows are qRow elements apart, and keys and values whose rows are kvRow apart: ahead of
// them before the first query's own. lse is NULL if it is not wanted.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM, RESIDENT)
	attention(T *to, float *lse, const T *q, const T *k, const T *v, const int *offsets, int rows, int heads, int qRow,
		int kvRow, int share, int ahead, int window, int causal, float scale) {
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

// attention_dq computes the gradient of the queries.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM, RESIDENT)
	attention_dq(T *dq, const T *dy, const float *lse, const float *delta, const T *q, const T *k, const T *v,
		const int *offsets, int rows, int heads, int stride, int share, int window, int causal, float scale) {
	__shared__ __align__(16) Staged a[ROWS], b[COLUMNS];
	__shared__ __align__(16) Weighed weights[ROWS];
	const int head = blockIdx.x % heads;
	const Sequence s(blockIdx.x / heads, offsets, rows);
	const int first = (gridDim.y - 1 - blockIdx.y) * ROWS;
	if (first >= s.length) return;
	const Seen seen = {s.length, window, causal};
	const int n = min(ROWS, s.length - first), end = seen.last(first + n - 1) + 1;
	const long long row = s.begin + first;
	q += row * stride + head * DIM;
	dy += (row * heads + head) * DIM;
	k += (long long)s.begin * stride + head / share * DIM;
	v += (long long)s.begin * stride + head / share * DIM;

	float base[MINE], of[MINE];
#pragma unroll
	for (int i = 0; i < MINE; i++) {
		const long long number = (long long)head * rows + row + min(y() + i * 16, n - 1);
		base[i] = lse[number];
		of[i] = delta[number];
	}
	Products p, dp;
	Sums out = {};
	for (int key = seen.first(first); key < end; key += COLUMNS) {
		multiply(p, a, b, q, stride, n, k + (long long)key * stride, stride, end - key);
		multiply(dp, a, b, dy, heads * DIM, n, v + (long long)key * stride, stride, end - key);
#pragma unroll
		for (int i = 0; i < MINE; i++) {
#pragma unroll
			for (int j = 0; j < EACH; j++) {
				const bool sees = seen(first + y() + i * 16, key + x() + j * 8);
				p[i][j] = sees ? expf(__fmul_rn(p[i][j], scale) - base[i]) * (dp[i][j] - of[i]) : 0;
			}
		}
		keep(weights, p);
		accumulate(out, b, weights, k + (long long)key * stride, stride, end - key);
	}
	write(dq + row * stride + head * DIM, stride, n, out, [&](int) { return scale; });
}
