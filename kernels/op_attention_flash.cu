// FlashAttention-2 (Dao 2023), forward. The formulas are in op_attention.go, and the operations on tiles in flash.cuh.
//
// A thread block has as many queries of one head and one sequence as its warps have rows for. It processes the keys
// that these see, KEYS at a time: while it works on one tile of keys and values, the next is on its way.
//
//   KEYS       keys per tile
//   TILES      tiles of 16 queries per warp
//   HELD       1 if warps keep them in registers
//   RESIDENT   thread blocks per multiprocessor
#include "flash.cuh"

constexpr int QUERIES = BLOCK_DIM / 32 * TILES * 16;

extern "C" __global__ void __launch_bounds__(BLOCK_DIM, RESIDENT)
	flash(T *y, float *lse, const T *q, const T *k, const T *v, const int *offsets, int rows, int heads,
		int qRow, int kvRow, int share, int ahead, int window, int causal, float scale) {
	waitForPrerequisites();
	extern __shared__ __align__(128) char tiles[]; // queries, and two of keys and values
	const int head = blockIdx.x % heads, sequence = blockIdx.x / heads;
	const int begin = offsets ? offsets[sequence] : 0, length = (offsets ? offsets[sequence + 1] : rows) - begin;
	const int first = (gridDim.y - 1 - blockIdx.y) * QUERIES; // the last queries of a sequence see most: they start first
	if (first >= length) return;

	// Positions count keys: query i of the sequence has position i + ahead.
	const int total = length + ahead, from = first + ahead;
	const int firstKey = window ? max(0, from - window + 1) / KEYS * KEYS : 0,
			  endKey = causal ? min(from + QUERIES, total) : total;
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
	const int mine = from + warp * TILES * 16; // the warp's first query
	const bool idle = mine >= total;
	const long long row = begin + first;
	q += row * qRow + head * DIM;
	k += (long long)begin * kvRow + head / share * DIM;
	v += (long long)begin * kvRow + head / share * DIM;

	char *const own = tiles + warp * TILES * 16 * ROW;
	auto tile = [&](int key, int which) { return tiles + QUERIES * ROW + (key / KEYS % 2 * 2 + which) * KEYS * ROW; };
	auto next = [&](int key) {
		bring<KEYS>(tile(key, 0), k + (long long)key * kvRow, kvRow, total - key);
		bring<KEYS>(tile(key, 1), v + (long long)key * kvRow, kvRow, total - key);
		copyCommit();
	};
	bring<QUERIES>(tiles, q, qRow, length - first);
	copyCommit();
	next(firstKey);
	Rows<TILES> queries = {own};
	if (HELD) {
		copyWait<1>();
		__syncthreads();
		queries.hold();
	}

	Sum<TILES, DIM / 8> out = {};
	// per row: the largest score or one slightly smaller, and the sum of weights relative to it
	float top[TILES][2], sum[TILES][2] = {};
#pragma unroll
	for (int i = 0; i < TILES; i++) top[i][0] = top[i][1] = -INFINITY;
	const float steps = scale * LOG2E; // from scores to exponents of 2

	for (int key = firstKey; key < endKey; key += KEYS) {
		copyWait<0>();
		__syncthreads();
		if (key + KEYS < endKey) next(key + KEYS);
		if (idle || causal && key > mine + TILES * 16 - 1 || window && key + KEYS <= mine - window + 1) continue;

		Sum<TILES, KEYS / 8> p = {};
		addScores(p, queries, tile(key, 0));
		if (key + KEYS > total || causal && key + KEYS - 1 > mine || window && key < mine + TILES * 16 - window) {
			hide(p, mine, key, [&](int position) {
				return Range{window ? position - window + 1 : 0, causal ? min(position, total - 1) : total - 1};
			});
		}

		// A new largest score scales down the sums so far. As long as no score is 2^8 times as large as the one that counts
		// as the largest, nothing has to change: a sum of floats has room for it.
		float rowMax[TILES][2];
		bool larger = false;
#pragma unroll
		for (int i = 0; i < TILES; i++) {
#pragma unroll
			for (int e = 0; e < 2; e++) {
				float x = top[i][e];
#pragma unroll
				for (int n = 0; n < KEYS / 8; n++) x = fmaxf(x, fmaxf(p.at[i][n][e * 2], p.at[i][n][e * 2 + 1]));
				x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
				x = fmaxf(x, __shfl_xor_sync(~0u, x, 2));
				rowMax[i][e] = x;
				larger = larger || (x - top[i][e]) * steps > 8;
			}
		}
		if (__any_sync(~0u, larger)) {
#pragma unroll
			for (int i = 0; i < TILES; i++) {
#pragma unroll
				for (int e = 0; e < 2; e++) {
					const float keep = rowMax[i][e] > top[i][e] ? exp2Rough((top[i][e] - rowMax[i][e]) * steps) : 1;
					top[i][e] = rowMax[i][e];
					sum[i][e] *= keep;
#pragma unroll
					for (int n = 0; n < DIM / 8; n++) {
						out.at[i][n][e * 2] *= keep;
						out.at[i][n][e * 2 + 1] *= keep;
					}
				}
			}
		}
#pragma unroll
		for (int i = 0; i < TILES; i++) {
#pragma unroll
			for (int e = 0; e < 2; e++) {
				float base = top[i][e] > -INFINITY ? top[i][e] * steps : 0; // of a row that has seen nothing yet
				if (fabsf(base) >= HUGE_SCORE) {
					base = 0;
#pragma unroll
					for (int n = 0; n < KEYS / 8; n++) p.at[i][n][e * 2] -= top[i][e], p.at[i][n][e * 2 + 1] -= top[i][e];
				}
#pragma unroll
				for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
					for (int c = 0; c < 2; c++) {
						float &x = p.at[i][n][e * 2 + c];
						x = exp2Rough(fmaf(x, steps, -base));
						sum[i][e] += x;
					}
				}
			}
		}
		addColumns(out, p, tile(key, 1));
	}
	if (idle) return;

#pragma unroll
	for (int i = 0; i < TILES; i++) {
#pragma unroll
		for (int e = 0; e < 2; e++) {
			sum[i][e] += __shfl_xor_sync(~0u, sum[i][e], 1);
			sum[i][e] += __shfl_xor_sync(~0u, sum[i][e], 2);
			const int query = mine - from + i * 16 + e * 8 + g;
			if (lse && t == 0 && first + query < length)
				lse[(long long)head * rows + row + query] = top[i][e] * scale + logf(sum[i][e]);
		}
	}
	const int skipped = mine - from;
	finish(y + ((row + skipped) * heads + head) * DIM, heads * DIM, length - first - skipped, out, own,
	       [&](int i, int e) { return 1 / sum[i][e]; });
}
