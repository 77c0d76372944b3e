// FlashAttention-2 (Dao 2023), the gradients of the keys and values. The formulas are in op_attention.go, and the
// operations on tiles in flash.cuh.
//
// A thread block has as many keys of one key head and one sequence as its warps have rows for. It processes the queries
// that see these, of all heads that share them, QUERIES at a time. Rows are keys and columns queries, so the weights
// are in the registers in which the next products need them.
//
//   QUERIES    queries per tile
//   TILES      tiles of 16 keys per warp
//   HELD       1 if warps keep them in registers
//   RESIDENT   thread blocks per multiprocessor
#include "flash.cuh"

constexpr int KEYS = BLOCK_DIM / 32 * TILES * 16;

extern "C" __global__ void __launch_bounds__(BLOCK_DIM, RESIDENT) flash_dkv(T *dk, T *dv, const T *dy,
	const float *lse, const float *delta, const T *q, const T *k, const T *v, const int *offsets, int rows,
	int kvHeads, int stride, int share, int window, int causal, float scale) {
	waitForPrerequisites();
	// keys, values, two of queries and gradients of y, and two of the queries' lse and delta
	extern __shared__ __align__(128) char tiles[];
	const int kvHead = blockIdx.x % kvHeads, sequence = blockIdx.x / kvHeads, heads = kvHeads * share;
	const int begin = offsets[sequence], length = offsets[sequence + 1] - begin;
	const int first = blockIdx.y * KEYS; // the first keys of a sequence are seen most: they start first
	if (first >= length) return;

	const int firstQuery = causal ? first / QUERIES * QUERIES : 0,
			  endQuery = window ? min(length, first + KEYS - 1 + window) : length;
	// tiles of queries, one head after the other
	const int turns = share * ((endQuery - firstQuery + QUERIES - 1) / QUERIES);
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, t = lane % 4;
	const int skipped = warp * TILES * 16, mine = first + skipped; // the warp's first key
	const bool idle = mine >= length;
	const long long at = ((long long)begin + first) * stride + kvHead * DIM;
	q += (long long)begin * stride + kvHead * share * DIM;
	dy += ((long long)begin * heads + kvHead * share) * DIM;
	lse += (long long)kvHead * share * rows + begin;
	delta += (long long)kvHead * share * rows + begin;

	char *const own = tiles + skipped * ROW;
	auto tile = [&](int turn, int which) { return tiles + 2 * KEYS * ROW + (turn % 2 * 2 + which) * QUERIES * ROW; };
	float (*const had)[2][QUERIES] = (float(*)[2][QUERIES])(tiles + (2 * KEYS + 4 * QUERIES) * ROW); // lse and delta
	float nextBase = 0, nextOf = 0;
	int head = 0;
	auto next = [&](int turn, int query) {
		bring<QUERIES>(tile(turn, 0), q + (long long)query * stride + head * DIM, stride, length - query);
		bring<QUERIES>(tile(turn, 1), dy + ((long long)query * heads + head) * DIM, heads * DIM, length - query);
		copyCommit();
		if (threadIdx.x < QUERIES) {
			const long long n = (long long)head * rows + query + threadIdx.x;
			nextBase = nextOf = 0; // of a query that does not exist, which weights a gradient of zeros
			if (query + (int)threadIdx.x >= length) return;
			nextBase = lse[n];
			nextOf = delta[n];
		}
	};
	auto keep = [&](int turn) {
		if (threadIdx.x < QUERIES) {
			had[turn % 2][0][threadIdx.x] = nextBase * LOG2E;
			had[turn % 2][1][threadIdx.x] = nextOf;
		}
	};
	bring<KEYS>(tiles, k + at, stride, length - first);
	bring<KEYS>(tiles + KEYS * ROW, v + at, stride, length - first);
	copyCommit();
	next(0, firstQuery);
	keep(0);
	Rows<TILES> keys = {own}, values = {own + KEYS * ROW};
	if (HELD) {
		copyWait<1>();
		__syncthreads();
		keys.hold();
		values.hold();
	}

	Sum<TILES, DIM / 8> outK = {}, outV = {};
	const float steps = scale * LOG2E; // from scores to exponents of 2
	for (int turn = 0, query = firstQuery, following; turn < turns; turn++, query = following) {
		copyWait<0>();
		__syncthreads();
		following = query + QUERIES;
		if (following >= endQuery) {
			following = firstQuery;
			head++;
		}
		if (turn + 1 < turns) next(turn + 1, following);
		const bool apart = causal && query + QUERIES - 1 < mine || window && query >= mine + TILES * 16 - 1 + window;
		if (!idle && !apart) {
			Sum<TILES, QUERIES / 8> p = {}, dp;
			addScores(p, keys, tile(turn, 0));
			if (causal && query < mine + TILES * 16 - 1 || window && query + QUERIES - 1 >= mine + window) {
				hide(p, mine, query, [&](int key) { return Range{key, window ? key + window - 1 : length}; });
			}
#pragma unroll
			for (int n = 0; n < QUERIES / 8; n++) {
				const float2 base = *(const float2 *)&had[turn % 2][0][n * 8 + t * 2];
				const float2 of = *(const float2 *)&had[turn % 2][1][n * 8 + t * 2];
#pragma unroll
				for (int i = 0; i < TILES; i++) {
#pragma unroll
					for (int e = 0; e < 4; e++) {
						p.at[i][n][e] = weight(p.at[i][n][e] * steps - (e % 2 ? base.y : base.x));
						dp.at[i][n][e] = e % 2 ? -of.y : -of.x;
					}
				}
			}
			addColumns(outV, p, tile(turn, 1));
			addRows(dp, values, tile(turn, 1));
#pragma unroll
			for (int i = 0; i < TILES; i++) {
#pragma unroll
				for (int n = 0; n < QUERIES / 8; n++) {
#pragma unroll
					for (int e = 0; e < 4; e++) p.at[i][n][e] *= dp.at[i][n][e];
				}
			}
			addColumns(outK, p, tile(turn, 0));
		}
		if (turn + 1 < turns) keep(turn + 1);
	}
	if (idle) return;
	const long long to = at + (long long)skipped * stride;
	finish(dk + to, stride, length - mine, outK, own, [&](int, int) { return scale; });
	finish(dv + to, stride, length - mine, outV, own + KEYS * ROW, [&](int, int) { return 1.0f; });
}
