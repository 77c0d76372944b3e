// FlashAttention-2 (Dao 2023), the gradient of the queries. The formulas are in op_attention.go, and the operations on
// tiles in flash.cuh.
//
// The scores are computed twice, here and in op_attention_flash_dkv.cu: two products of seven. In return, no sum is
// added up by several thread blocks in turn.
//
// A thread block has as many queries of one head and one sequence as its warps have rows for, as in
// op_attention_flash.cu.
//
//   KEYS       keys per tile
//   TILES      tiles of 16 queries per warp
//   HELD       1 if warps keep them in registers
//   RESIDENT   thread blocks per multiprocessor
#include "flash.cuh"

constexpr int QUERIES = BLOCK_DIM / 32 * TILES * 16;

extern "C" __global__ void __launch_bounds__(BLOCK_DIM, RESIDENT)
	flash_dq(T *dq, const T *dy, const float *lse, const float *delta, const T *q, const T *k, const T *v,
	         const int *offsets, int rows, int heads, int stride, int share, int window, int causal, float scale) {
	waitForPrerequisites();
	extern __shared__ __align__(128) char tiles[]; // queries, gradients of y, and two of keys and values
	const int head = blockIdx.x % heads, sequence = blockIdx.x / heads;
	const int begin = offsets[sequence], length = offsets[sequence + 1] - begin;
	const int first = (gridDim.y - 1 - blockIdx.y) * QUERIES; // the last queries of a sequence see most: they start first
	if (first >= length) return;

	const int firstKey = window ? max(0, first - window + 1) / KEYS * KEYS : 0,
			  endKey = causal ? min(first + QUERIES, length) : length;
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4;
	const int skipped = warp * TILES * 16, mine = first + skipped; // the warp's first query
	const bool idle = mine >= length;
	const long long row = begin + first;
	q += row * stride + head * DIM;
	dy += (row * heads + head) * DIM;
	k += (long long)begin * stride + head / share * DIM;
	v += (long long)begin * stride + head / share * DIM;

	char *const own = tiles + skipped * ROW;
	auto tile = [&](int key, int which) { return tiles + 2 * QUERIES * ROW + (key / KEYS % 2 * 2 + which) * KEYS * ROW; };
	auto next = [&](int key) {
		bring<KEYS>(tile(key, 0), k + (long long)key * stride, stride, length - key);
		bring<KEYS>(tile(key, 1), v + (long long)key * stride, stride, length - key);
		copyCommit();
	};
	bring<QUERIES>(tiles, q, stride, length - first);
	bring<QUERIES>(tiles + QUERIES * ROW, dy, heads * DIM, length - first);
	copyCommit();
	next(firstKey);
	Rows<TILES> queries = {own}, gradients = {own + QUERIES * ROW};
	if (HELD) {
		copyWait<1>();
		__syncthreads();
		queries.hold();
		gradients.hold();
	}

	float base[TILES][2], of[TILES][2];
#pragma unroll
	for (int i = 0; i < TILES; i++) {
#pragma unroll
		for (int e = 0; e < 2; e++) {
			const int query = mine + i * 16 + e * 8 + g;
			const long long number = (long long)head * rows + begin + query;
			base[i][e] = query < length ? lse[number] * LOG2E : 0;
			of[i][e] = query < length ? delta[number] : 0;
		}
	}
	Sum<TILES, DIM / 8> out = {};
	const float steps = scale * LOG2E; // from scores to exponents of 2

	for (int key = firstKey; key < endKey; key += KEYS) {
		copyWait<0>();
		__syncthreads();
		if (key + KEYS < endKey) next(key + KEYS);
		if (idle || causal && key > mine + TILES * 16 - 1 || window && key + KEYS <= mine - window + 1) continue;

		Sum<TILES, KEYS / 8> p = {}, dp;
		addScores(p, queries, tile(key, 0));
		if (key + KEYS > length || causal && key + KEYS - 1 > mine || window && key < mine + TILES * 16 - window) {
			hide(p, mine, key, [&](int position) {
				return Range{window ? position - window + 1 : 0, causal ? min(position, length - 1) : length - 1};
			});
		}
#pragma unroll
		for (int i = 0; i < TILES; i++) {
#pragma unroll
			for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
				for (int e = 0; e < 4; e++) dp.at[i][n][e] = -of[i][e / 2];
			}
		}
		addRows(dp, gradients, tile(key, 1));
#pragma unroll
		for (int i = 0; i < TILES; i++) {
#pragma unroll
			for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
				for (int e = 0; e < 4; e++) p.at[i][n][e] = weight(p.at[i][n][e] * steps - base[i][e / 2]) * dp.at[i][n][e];
			}
		}
		addColumns(out, p, tile(key, 0));
	}
	if (idle) return;
	finish(dq + (row + skipped) * stride + head * DIM, stride, length - mine, out, own, [&](int, int) { return scale; });
}
