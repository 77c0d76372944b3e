// Attention of a single query to a KV cache. A thread block has span keys of one key head, and HEADS of the query heads
// that share it; combine combines the results of a head's thread blocks. DIM is the head dimension.
#include "common.cuh"

// of a head and a thread block: the largest score, the sum of weights relative to it, and the sums of values
constexpr int PART = DIM + 2;
constexpr int MAX_PARTS = 64; // per head: decodePartsLimit in op_attention_gpu.go

constexpr int nextPowerOf2(int n) { return n <= 1 ? 1 : 2 * nextPowerOf2((n + 1) / 2); }

// A group of LANES adjacent threads shares a key; each thread has EACH vectors of it. A thread block has GROUPS groups,
// and each group has PER keys of a tile: tiles of 64 keys, or of up to 8 vectors of keys per thread if groups are
// large.
constexpr int LANES = VECTORS < 32 ? nextPowerOf2(VECTORS) : 32, EACH = (VECTORS + LANES - 1) / LANES;
constexpr int GROUPS = BLOCK_DIM / LANES, WARPS = BLOCK_DIM / 32;
constexpr int PER = GROUPS > 64 ? 1 : GROUPS >= 8 ? 64 / GROUPS : EACH < 8 ? 8 / EACH : 1, TILE = GROUPS * PER;

// Rows are keys and values in the KV cache, stride elements from one row to the next. The row of the query's own token
// may be elsewhere: own is its index, or negative.
struct Rows {
	const T *keys, *values;
	int stride, own;
	const T *ownKey, *ownValue;
};

struct Tile {
	Vector keys[PER][EACH], values[PER][EACH];
};

// loadTile starts to load the tile at row first, of n rows, without the query's own row.
inline void loadTile(Tile &t, const Rows &rows, int first, int n) {
#pragma unroll
	for (int p = 0; p < PER; p++) {
		const int i = first + p * GROUPS + threadIdx.x / LANES;
		const long long at = (long long)i * rows.stride;
#pragma unroll
		for (int e = 0; e < EACH; e++) {
			const int c = e * LANES + threadIdx.x % LANES;
			const bool there = i < n && i != rows.own && c < VECTORS;
			t.keys[p][e] = there ? loadCached(rows.keys + at, c) : Vector();
			t.values[p][e] = there ? loadCached(rows.values + at, c) : Vector();
		}
	}
}

// attend lets HEADS consecutive queries see n rows, whose first tile is being loaded. parts is [heads, blocks, PART].
inline void attend(float *parts, int blocks, const T *q, Tile &t, const Rows &rows, int n, float scale) {
	const int lane = threadIdx.x % LANES, warp = threadIdx.x / 32;
	Vector query[HEADS][EACH];
	float top[HEADS], total[HEADS] = {}, sum[HEADS][EACH * WIDTH] = {}; // of the group's keys
#pragma unroll
	for (int h = 0; h < HEADS; h++) {
		top[h] = -INFINITY;
#pragma unroll
		for (int e = 0; e < EACH; e++)
			query[h][e] = e * LANES + lane < VECTORS ? loadCached(q + h * DIM, e * LANES + lane) : Vector();
	}
	for (int first = 0; first < n; first += TILE) {
		if (first > 0) loadTile(t, rows, first, n);
		float score[HEADS][PER];
#pragma unroll
		for (int p = 0; p < PER; p++) {
			const int i = first + p * GROUPS + threadIdx.x / LANES;
			if (i == rows.own) {
#pragma unroll
				for (int e = 0; e < EACH; e++) {
					if (e * LANES + lane >= VECTORS) continue;
					t.keys[p][e] = loadCached(rows.ownKey, e * LANES + lane);
					t.values[p][e] = loadCached(rows.ownValue, e * LANES + lane);
				}
			}
#pragma unroll
			for (int h = 0; h < HEADS; h++) {
				float s = 0;
#pragma unroll
				for (int e = 0; e < EACH; e++) {
#pragma unroll
					for (int j = 0; j < WIDTH; j++) s += query[h][e][j] * t.keys[p][e][j];
				}
#pragma unroll
				for (int j = 1; j < LANES; j *= 2) s += __shfl_xor_sync(~0u, s, j);
				score[h][p] = i < n ? __fmul_rn(s, scale) : -INFINITY; // without an fma below: see HUGE_SCORE
			}
		}
#pragma unroll
		for (int h = 0; h < HEADS; h++) {
			float highest = top[h];
#pragma unroll
			for (int p = 0; p < PER; p++) highest = fmaxf(highest, score[h][p]);
			const float base = highest == -INFINITY ? 0 : highest; // −∞: the group has no key yet
			const float rescale = expf(top[h] - base);
			top[h] = highest;
			total[h] *= rescale;
#pragma unroll
			for (int j = 0; j < EACH * WIDTH; j++) sum[h][j] *= rescale;
#pragma unroll
			for (int p = 0; p < PER; p++) {
				const float weight = expf(score[h][p] - base);
				total[h] += weight;
#pragma unroll
				for (int j = 0; j < EACH * WIDTH; j++) sum[h][j] += weight * t.values[p][j / WIDTH][j % WIDTH];
			}
		}
	}

	// Combine the groups of each warp, then the warps.
	__shared__ float tops[WARPS][HEADS], totals[WARPS][HEADS], sums[WARPS][HEADS][DIM];
#pragma unroll
	for (int h = 0; h < HEADS; h++) {
		float highest = top[h];
#pragma unroll
		for (int i = LANES; i < 32; i *= 2) highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, i));
		const float rescale = expf(top[h] - (highest == -INFINITY ? 0 : highest));
		total[h] *= rescale;
#pragma unroll
		for (int i = LANES; i < 32; i *= 2) total[h] += __shfl_xor_sync(~0u, total[h], i);
#pragma unroll
		for (int j = 0; j < EACH * WIDTH; j++) {
			sum[h][j] *= rescale;
#pragma unroll
			for (int i = LANES; i < 32; i *= 2) sum[h][j] += __shfl_xor_sync(~0u, sum[h][j], i);
			const int column = (j / WIDTH * LANES + lane) * WIDTH + j % WIDTH;
			if (threadIdx.x % 32 < LANES && column < DIM) sums[warp][h][column] = sum[h][j];
		}
		if (threadIdx.x % 32 == 0) tops[warp][h] = highest, totals[warp][h] = total[h];
	}
	__syncthreads();
	for (int i = threadIdx.x; i < HEADS * PART; i += BLOCK_DIM) {
		const int h = i / PART, column = i % PART - 2;
		float highest = -INFINITY, all = 0;
#pragma unroll
		for (int w = 0; w < WARPS; w++) highest = fmaxf(highest, tops[w][h]);
#pragma unroll
		for (int w = 0; w < WARPS; w++)
			all += expf(tops[w][h] - highest) * (column < 0 ? totals[w][h] : sums[w][h][column]);
		parts[(long long)h * blocks * PART + i % PART] = column == -2 ? highest : all;
	}
}

// combine computes the rows of HEADS heads from the first n parts of each. parts is [heads, blocks, PART].
inline void combine(T *y, const float *parts, int blocks, int n) {
	__shared__ float tops[HEADS][MAX_PARTS], totals[HEADS][MAX_PARTS];
	for (int i = threadIdx.x; i < HEADS * n; i += BLOCK_DIM) {
		const float *part = parts + ((long long)(i / n) * blocks + i % n) * PART;
		tops[i / n][i % n] = part[0], totals[i / n][i % n] = part[1];
	}
	__syncthreads();
	for (int i = threadIdx.x; i < HEADS * DIM; i += BLOCK_DIM) {
		const int h = i / DIM;
		const float *part = parts + (long long)h * blocks * PART + 2 + i % DIM;
		float top = -INFINITY, total = 0, sum = 0;
		for (int p = 0; p < n; p++) top = fmaxf(top, tops[h][p]);
#pragma unroll 8
		for (int p = 0; p < n; p++) {
			const float rescale = expf(tops[h][p] - top);
			total += rescale * totals[h][p];
			sum += rescale * part[p * PART];
		}
		T rounded[1];
		narrow(rounded, {sum / total});
		y[i] = rounded[0];
	}
}

// attention_decode lets the query see keys first to last, of rows that are kvRow elements apart.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) attention_decode(float *parts, const T *q, const T *k,
	const T *v, int first, int last, int span, int kvRow, int share, float scale) {
	waitForPrerequisites();
	const int head = blockIdx.y * HEADS, from = first + blockIdx.x * span, n = min(span, last - from + 1);
	const long long at = (long long)from * kvRow + head / share * DIM;
	const Rows rows = {k + at, v + at, kvRow, -1, nullptr, nullptr};
	Tile tile;
	loadTile(tile, rows, 0, n);
	attend(parts + ((long long)head * gridDim.x + blockIdx.x) * PART, gridDim.x, q + head * DIM, tile, rows, n, scale);
}

// attention_combine computes each head's row from its n parts. A thread block has HEADS heads.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) attention_combine(T *y, const float *parts, int n) {
	waitForPrerequisites();
	const int head = blockIdx.x * HEADS;
	combine(y + head * DIM, parts + (long long)head * n * PART, n, n);
}

// attention_next rotates the queries and the key of a token by its position, as op_rope.cu does, stores its key and
// value in the KV cache, and lets the queries see the keys up to that position. The grid has thread blocks for the
// maximum number of keys, because a graph keeps it. The last of those that have keys, by the counter of its heads,
// combines the results of all.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	attention_next(T *y, float *parts, unsigned *counters, const T *qkv, T *k, T *v, const int *position,
		const float *cos, const float *sin, int heads, int kvHeads, int window, int span, float scale) {
	constexpr int HALF = DIM / 2;
	const int last = *position, first = window > 0 ? max(0, last - window + 1) : 0, from = first + blockIdx.x * span;
	launchDependents();
	if (from > last) return waitForPrerequisites();
	const int share = heads / kvHeads, head = blockIdx.y * HEADS, kvHead = head / share, kvRow = kvHeads * DIM,
			  thread = threadIdx.x;
	__shared__ __align__(16) T q[HEADS * DIM];
	__shared__ __align__(16) T key[DIM];
	const T *const newKey = qkv + (heads + kvHead) * DIM, *const newValue = newKey + kvHeads * DIM;
	k += kvHead * DIM;
	v += kvHead * DIM;
	const int n = min(span, last - from + 1), own = last - from < span ? last - from : -1;
	const Rows rows = {k + (long long)from * kvRow, v + (long long)from * kvRow, kvRow, own, key, newValue};
	Tile tile;
	loadTile(tile, rows, 0, n); // no kernel of this graph writes these rows
	waitForPrerequisites();
	for (int i = thread; i < (HEADS + 1) * HALF; i += BLOCK_DIM) {
		const int h = i / HALF, c = i % HALF;
		const T *const x = h < HEADS ? qkv + (head + h) * DIM : newKey;
		const float a = value(x[c]), b = value(x[c + HALF]);
		const float cosine = cos[(long long)last * HALF + c], sine = sin[(long long)last * HALF + c];
		T turned[2];
		narrow(turned, {a * cosine - b * sine, b * cosine + a * sine});
		T *const to = h < HEADS ? q + h * DIM : key;
		to[c] = turned[0], to[c + HALF] = turned[1];
	}
	__syncthreads();
	if (own >= 0 && head % share == 0) { // of the thread blocks that have this key, one stores it
		for (int c = thread; c < DIM; c += BLOCK_DIM) {
			k[(long long)last * kvRow + c] = key[c];
			v[(long long)last * kvRow + c] = newValue[c];
		}
	}
	parts += (long long)head * gridDim.x * PART;
	attend(parts + blockIdx.x * PART, gridDim.x, q, tile, rows, n, scale);
	const int seen = (last - first) / span + 1; // thread blocks that have keys
	if (isLastBlock(counters + blockIdx.y, seen)) combine(y + head * DIM, parts, gridDim.x, seen);
}
