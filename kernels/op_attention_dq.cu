// The gradient of attention's queries, without tensor cores. The formulas are in op_attention.go, and what a thread
// block computes is in attention.cuh.
#include "attention.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK_DIM, RESIDENT)
	attention_dq(T *dq, const T *dy, const float *lse, const float *delta, const T *q, const T *k, const T *v,
		const int *offsets, int rows, int heads, int stride, int share, int window, int causal, float scale) {
	waitForPrerequisites();
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
