// The gradients of attention's keys and values, without tensor cores. The formulas are in op_attention.go, and what a
// thread block computes is in attention.cuh.
#include "attention.cuh"

// attention_dkv computes them over all query heads that share them.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM, RESIDENT)
	attention_dkv(T *dk, T *dv, const T *dy, const float *lse, const float *delta, const T *q, const T *k,
		const T *v, const int *offsets, int rows, int kvHeads, int stride, int share, int window, int causal, float scale) {
	waitForPrerequisites();
	__shared__ __align__(16) Staged a[ROWS], b[COLUMNS];
	__shared__ __align__(16) Weighed weights[ROWS];
	const int kvHead = blockIdx.x % kvHeads, heads = kvHeads * share;
	const Sequence s(blockIdx.x / kvHeads, offsets, rows);
	const int first = blockIdx.y * ROWS; // the first keys of a sequence are seen most: they start first
	if (first >= s.length) return;
	const Seen seen = {s.length, window, causal};
	const int n = min(ROWS, s.length - first), end = window ? min(s.length, first + n - 1 + window) : s.length;
	const long long row = s.begin + first;
	k += row * stride + kvHead * DIM;
	v += row * stride + kvHead * DIM;

	Products p, dp;
	Sums outK = {}, outV = {};
	for (int head = kvHead * share; head < (kvHead + 1) * share; head++) {
		for (int query = causal ? first : 0; query < end; query += COLUMNS) {
			const T *queries = q + ((long long)s.begin + query) * stride + head * DIM;
			const T *gradients = dy + (((long long)s.begin + query) * heads + head) * DIM;
			multiply(p, a, b, k, stride, n, queries, stride, end - query);
			multiply(dp, a, b, v, stride, n, gradients, heads * DIM, end - query);
#pragma unroll
			for (int j = 0; j < EACH; j++) {
				const int position = query + x() + j * 8;
				const long long number = (long long)head * rows + s.begin + min(position, end - 1);
				const float base = lse[number], of = delta[number];
#pragma unroll
				for (int i = 0; i < MINE; i++) {
					const bool sees = position < end && seen(position, first + y() + i * 16);
					p[i][j] = sees ? expf(__fmul_rn(p[i][j], scale) - base) : 0;
					dp[i][j] = p[i][j] * (dp[i][j] - of);
				}
			}
			keep(weights, p);
			accumulate(outV, b, weights, gradients, heads * DIM, end - query);
			keep(weights, dp);
			accumulate(outK, b, weights, queries, stride, end - query);
		}
	}
	write(dk + row * stride + kvHead * DIM, stride, n, outK, [&](int) { return scale; });
	write(dv + row * stride + kvHead * DIM, stride, n, outV, [&](int) { return 1.0f; });
}
