// Attention and its gradient for any type and head dimension. The formulas are in attention.go. DIM is the head
// dimension.
//
// A warp has one row of one head: a query, or in attention_backward_kv a key. It processes the rows that this row sees,
// or that see it, 32 at a time: first a product and a weight per lane, then some columns of the sum over all 32 per
// lane.
#include "common.cuh"

constexpr int WARPS = BLOCK_DIM / 32;
constexpr int EACH = (DIM + 31) / 32; // columns per lane

// dot returns the product of two rows of heads. It always adds its terms in the same order, so the backward pass gets
// exactly the scores of the forward pass, however large they are.
inline float dot(const T *a, const T *b) {
	float sum = 0;
#pragma unroll 4
	for (int k = 0; k < VECTORS; k++) {
		const Vector x = loadCached(a, k), y = loadCached(b, k);
#pragma unroll
		for (int i = 0; i < WIDTH; i++) sum += x[i] * y[i];
	}
	return sum;
}

// A Sequence is the range of rows of a sequence.
struct Sequence {
	int begin, end;
};

// sequence returns the sequence of a row: one of those that start at offsets, or the only one if there are no offsets.
inline Sequence sequence(int row, const int *offsets, int sequences, int rows) {
	if (!offsets) return {0, rows};
	int lo = 0, hi = sequences; // the last sequence that does not start after the row
	while (hi - lo > 1) {
		const int middle = (lo + hi) / 2;
		if (offsets[middle] <= row) lo = middle;
		else hi = middle;
	}
	return {offsets[lo], offsets[lo + 1]};
}

// maximum and sum combine all lanes' values, and return the result to all of them.
inline float maximum(float x) {
#pragma unroll
	for (int i = 1; i < 32; i *= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, i));
	return x;
}
inline float sum(float x) {
#pragma unroll
	for (int i = 1; i < 32; i *= 2) x += __shfl_xor_sync(~0u, x, i);
	return x;
}

// accumulate adds n rows, each times its weight, to a lane's columns.
inline void accumulate(float (&out)[EACH], const float *weights, const T *rows, int stride, int n) {
	const int lane = threadIdx.x % 32;
	for (int i = 0; i < n; i++) {
		const T *row = rows + (long long)i * stride;
		const float weight = weights[i];
#pragma unroll
		for (int e = 0; e < EACH; e++) {
			if (e * 32 + lane < DIM) out[e] += weight * value(row[e * 32 + lane]);
		}
	}
}

// write stores a lane's columns.
inline void write(T *row, const float (&out)[EACH], float scale) {
	const int lane = threadIdx.x % 32;
#pragma unroll
	for (int e = 0; e < EACH; e++) {
		T rounded[1];
		narrow(rounded, {out[e] * scale});
		if (e * 32 + lane < DIM) row[e * 32 + lane] = rounded[0];
	}
}

// attention has queries whose rows are qRow elements apart, and keys and values whose rows are kvRow apart: ahead of
// them before the first query's own. lse is NULL if it is not wanted.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	attention(T *y, float *lse, const T *q, const T *k, const T *v, const int *offsets, int sequences, int rows,
		int qRow, int kvRow, int share, int ahead, int window, int causal, float scale) {
	__shared__ float weights[WARPS][32];
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	const int row = blockIdx.x * WARPS + warp, head = blockIdx.y;
	if (row >= rows) return;
	const Sequence s = sequence(row, offsets, sequences, rows);
	const int last = causal ? row + ahead : s.end - 1, first = window ? max(s.begin, last - window + 1) : s.begin;
	q += (long long)row * qRow + head * DIM;
	k += head / share * DIM;
	v += head / share * DIM;

	float top = -INFINITY, total = 0, out[EACH] = {};
	for (int from = first; from <= last; from += 32) {
		const bool there = from + lane <= last;
		const float score = there ? __fmul_rn(dot(q, k + (long long)(from + lane) * kvRow), scale) : -INFINITY;
		const float before = top;
		top = fmaxf(top, maximum(score));
		const float keep = expf(before - top), weight = expf(score - top);
		total = total * keep + weight;
		weights[warp][lane] = weight;
		__syncwarp();
#pragma unroll
		for (int e = 0; e < EACH; e++) out[e] *= keep;
		accumulate(out, weights[warp], v + (long long)from * kvRow, kvRow, min(32, last - from + 1));
		__syncwarp();
	}
	total = sum(total);
	write(y + ((long long)row * gridDim.y + head) * DIM, out, 1 / total);
	if (lse && lane == 0) lse[(long long)head * rows + row] = top + logf(total);
}

// attention_backward_q computes the gradient of the queries.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	attention_backward_q(T *dq, const T *dy, const float *lse, const float *delta, const T *q, const T *k, const T *v,
		const int *offsets, int sequences, int rows, int stride, int share, int window, int causal, float scale) {
	__shared__ float weights[WARPS][32];
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	const int row = blockIdx.x * WARPS + warp, head = blockIdx.y;
	if (row >= rows) return;
	const Sequence s = sequence(row, offsets, sequences, rows);
	const int last = causal ? row : s.end - 1, first = window ? max(s.begin, last - window + 1) : s.begin;
	const long long at = (long long)row * stride + head * DIM, number = (long long)head * rows + row;
	q += at;
	dy += ((long long)row * gridDim.y + head) * DIM;
	k += head / share * DIM;
	v += head / share * DIM;

	float out[EACH] = {};
	for (int from = first; from <= last; from += 32) {
		if (from + lane <= last) {
			const long long key = (long long)(from + lane) * stride;
			const float weight = expf(__fmul_rn(dot(q, k + key), scale) - lse[number]);
			weights[warp][lane] = weight * (dot(dy, v + key) - delta[number]);
		}
		__syncwarp();
		accumulate(out, weights[warp], k + (long long)from * stride, stride, min(32, last - from + 1));
		__syncwarp();
	}
	write(dq + at, out, scale);
}

// attention_backward_kv computes the gradients of the keys and values, over all query heads that share them.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) attention_backward_kv(T *dk, T *dv, const T *dy,
	const float *lse, const float *delta, const T *q, const T *k, const T *v, const int *offsets, int sequences,
	int rows, int stride, int share, int window, int causal, float scale) {
	__shared__ float weights[WARPS][2][32];
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	const int row = blockIdx.x * WARPS + warp, kvHead = blockIdx.y, heads = gridDim.y * share;
	if (row >= rows) return;
	const Sequence s = sequence(row, offsets, sequences, rows);
	const int first = causal ? row : s.begin, last = window ? min(s.end - 1, first + window - 1) : s.end - 1;
	const long long at = (long long)row * stride + kvHead * DIM;
	k += at;
	v += at;

	float outK[EACH] = {}, outV[EACH] = {};
	for (int head = kvHead * share; head < (kvHead + 1) * share; head++) {
		const T *queries = q + head * DIM, *gradients = dy + head * DIM;
		for (int from = first; from <= last; from += 32) {
			if (from + lane <= last) {
				const long long query = from + lane, number = (long long)head * rows + query;
				const float weight = expf(__fmul_rn(dot(queries + query * stride, k), scale) - lse[number]);
				weights[warp][0][lane] = weight * (dot(gradients + query * heads * DIM, v) - delta[number]);
				weights[warp][1][lane] = weight;
			}
			__syncwarp();
			const int n = min(32, last - from + 1);
			accumulate(outK, weights[warp][0], queries + (long long)from * stride, stride, n);
			accumulate(outV, weights[warp][1], gradients + (long long)from * heads * DIM, heads * DIM, n);
			__syncwarp();
		}
	}
	write(dk + at, outK, scale);
	write(dv + at, outV, 1);
}
