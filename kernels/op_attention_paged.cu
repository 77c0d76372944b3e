// Attention of rows of many sequences to a pool of keys and values. The formulas are in op_attention.go, and the
// operations on tiles in flash.cuh.
//
// The bits of a row depend only on its position and its keys, not on the rows next to it, nor on what computes it:
//
//   - Keys are cut into spans of SPAN_KEYS, counted from the sequence's first. A span's result, a Sums, is computed by
//     one warp, KEYS at a time, and the results are joined in the order of the spans, always by join.
//   - A row of mma's result depends only on that row of its left matrix, and not on where in it the row is. Keys that
//     only other rows of a warp see have weight 0, so what they add to a row changes no bit of it. (Unless their values
//     are infinite or NaN. They belong to the same sequence, a few tokens later.)
//   - Where the compiler could replace a product and a sum by an fma in one kernel but not in the other, it has no
//     choice.
//
// A warp has 16 rows of tiles: the query heads of one key head, of as many tokens as fit. These follow each other in
// qkv and in the sequence. attention_paged_parts gives each span to a warp, for few rows, and who has a row's last one
// joins the results. In attention_paged, for many rows, a warp processes one span after the other, and the warps of a
// thread block share the keys of one sequence.
//
//   HELD   1 if warps keep queries in registers
//   KEYS   keys of a tile
#include "flash.cuh"

constexpr int SPAN_KEYS = 256; // pagedSpan in op_paged_gpu.go
constexpr int PAGE = 16;       // keys of a block of the pool
constexpr int PART = DIM + 8;  // of a row and a span: a Sums, with its top and total for each of the row's four lanes
constexpr int WARPS = BLOCK_DIM / 32, TILE = KEYS * ROW;
static_assert(SPAN_KEYS / PAGE <= 32, "");

// column returns the column of an element of a Sum: number e of tile n of a lane with t.
inline int column(int n, int t, int e) {
	return sizeof(T) == 2 ? n * 8 + t * 2 + e : n / 4 * 32 + t * 8 + e * 4 + n % 4; // see addColumns
}

// Pool is where the keys and values of a sequence are.
struct Pool {
	const T *k, *v;    // of the key head
	const int *blocks; // of the sequence
	int row;           // elements from one row to the next
};

// A Job is what a thread block computes: n tokens, the first in some row, at a position of its sequence. They see some
// keys.
struct Job {
	int row, position, n;
	Range keys;
};

// first returns the first key that a token at a position sees.
inline int first(int position, int window) { return window ? max(0, position - window + 1) : 0; }

// jobOf finds the job of the thread block of a row, or one without tokens if the row belongs to an earlier row's: rows
// that follow each other do, up to a multiple of group rows.
inline Job jobOf(const int *places, int row, int rows, int group, int window) {
	const int sequence = places[2 * row], position = places[2 * row + 1], lane = threadIdx.x % 32;
	auto follows = [&](int other) {
		return places[2 * other] == sequence && places[2 * other + 1] - position == other - row;
	};
	int n = 0;
	if (row % group == 0 || !follows(row - 1)) {
		const int most = min(group - row % group, rows - row);
		unsigned all = ~0u;
		for (int from = 0; from < most && all == ~0u; from += 32) {
			all = __ballot_sync(~0u, from + lane < most && follows(row + from + lane));
			n = from + (all == ~0u ? 32 : __ffs(~all) - 1);
		}
	}
	return {row, position, n, {first(position, window), position + n - 1}};
}

// bringKeys starts to copy keys and values from a key on. Keys outside the range become zeros. ids are the ids of the
// blocks of the key's span, one per lane. THREADS threads call it.
template <int THREADS> inline void bringKeys(char *tile, const Pool &pool, int ids, int key, Range range) {
	for (int at = threadIdx.x % THREADS; at < KEYS * CHUNKS; at += THREADS) {
		const int i = at / CHUNKS, chunk = at % CHUNKS;
		const int block = __shfl_sync(~0u, ids, (key + i) % SPAN_KEYS / PAGE);
		const long long from = ((long long)block * PAGE + (key + i) % PAGE) * pool.row + chunk * EACH;
		const bool there = key + i >= range.first && key + i <= range.last;
		copyAsync(tile + place(i, chunk), pool.k + from, there);
		copyAsync(tile + TILE + place(i, chunk), pool.v + from, there);
	}
	copyCommit();
}

// Sums are what a warp's rows have over some keys: the largest score, times log2 e, the sum of weights relative to it,
// and the sum of values.
struct Sums {
	float top[2] = {-INFINITY, -INFINITY}, total[2] = {};
	Sum<1, DIM / 8> out = {};
};

// see adds the keys of a tile. A lane's totals are the totals of its columns. seen are the keys that the lane's rows
// see, and steps is what turns scores into exponents of 2.
inline void see(Sums &s, const Rows<1> &queries, const char *tile, int key, const Range (&seen)[2], float steps) {
	const int t = threadIdx.x % 4;
	Sum<1, KEYS / 8> p = {};
	addScores(p, queries, tile);
#pragma unroll
	for (int e = 0; e < 2; e++) {
		float top = s.top[e];
#pragma unroll
		for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
			for (int c = 0; c < 2; c++) {
				const int at = key + n * 8 + t * 2 + c;
				float &x = p.at[0][n][e * 2 + c];
				x = at < seen[e].first || at > seen[e].last ? -INFINITY : __fmul_rn(x, steps);
				top = fmaxf(top, x);
			}
		}
		top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
		top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
		const float keep = top == s.top[e] ? 1 : exp2Rough(__fadd_rn(s.top[e], -top));
		const float base = top == -INFINITY ? 0 : top; // −∞: the row has seen nothing yet
		s.top[e] = top;
		s.total[e] = __fmul_rn(s.total[e], keep);
#pragma unroll
		for (int n = 0; n < DIM / 8; n++) {
			s.out.at[0][n][e * 2] = __fmul_rn(s.out.at[0][n][e * 2], keep);
			s.out.at[0][n][e * 2 + 1] = __fmul_rn(s.out.at[0][n][e * 2 + 1], keep);
		}
#pragma unroll
		for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
			for (int c = 0; c < 2; c++) {
				float &x = p.at[0][n][e * 2 + c];
				x = exp2Rough(__fadd_rn(x, -base));
				s.total[e] = __fadd_rn(s.total[e], x);
			}
		}
	}
	addColumns(s.out, p, tile + TILE);
}

// finishTotals adds up the totals of the lanes of each row.
inline void finishTotals(Sums &s) {
#pragma unroll
	for (int e = 0; e < 2; e++) {
		s.total[e] = __fadd_rn(s.total[e], __shfl_xor_sync(~0u, s.total[e], 1));
		s.total[e] = __fadd_rn(s.total[e], __shfl_xor_sync(~0u, s.total[e], 2));
	}
}

// joinTotals joins the next span's top and total to the top and total of the spans before, and returns what their sums
// are multiplied by; join joins an element of these.
struct Factors { float was, next; };
inline Factors joinTotals(float &top, float &total, float nextTop, float nextTotal) {
	const float most = fmaxf(top, nextTop);
	const Factors f = {top == most ? 1 : exp2Rough(__fadd_rn(top, -most)),
		nextTop == most ? 1 : exp2Rough(__fadd_rn(nextTop, -most))};
	top = most;
	total = __fmaf_rn(nextTotal, f.next, __fmul_rn(total, f.was));
	return f;
}
inline float join(float sum, float next, Factors f) { return __fmaf_rn(next, f.next, __fmul_rn(sum, f.was)); }

// A Warp is the part of a job that a warp has: its queries, which it puts into a tile, and for both rows of a lane the
// row of qkv and the head, and the keys that they see: none if a lane has no such row.
struct Warp {
	Rows<1> queries;
	int row[2], head[2];
	Range seen[2];

	Warp(const Job &job, char *tile, const T *qkv, int before, int heads, int kvHeads, int window) : queries{tile} {
		const int lane = threadIdx.x % 32, share = heads / kvHeads, firstHead = blockIdx.y * share;
		const int n = min(job.n - before, 16 / share); // tokens
		for (int at = lane; at < 16 * CHUNKS; at += 32) {
			const int i = at / CHUNKS, chunk = at % CHUNKS, token = i / share;
			const long long row = job.row + before + token;
			const T *const from = qkv + (row * (heads + 2 * kvHeads) + firstHead + i % share) * DIM + chunk * EACH;
			copyAsync(tile + place(i, chunk), from, token < n);
		}
		copyCommit();
#pragma unroll
		for (int e = 0; e < 2; e++) {
			const int i = e * 8 + lane / 4, token = i / share, position = job.position + before + token;
			row[e] = job.row + before + token, head[e] = firstHead + i % share;
			seen[e] = token < n ? Range{first(position, window), position} : Range{1, 0};
		}
	}
	// sees reports whether the lane's row e sees keys of a span.
	bool sees(int e, int span) const {
		return seen[e].first <= seen[e].last && seen[e].last >= span * SPAN_KEYS && seen[e].first < (span + 1) * SPAN_KEYS;
	}
};

// blocksOf returns the ids of the blocks of the span of a key, one per lane, of those that have keys up to last.
inline int blocksOf(const Pool &pool, int key, int last) {
	const int i = key / SPAN_KEYS * (SPAN_KEYS / PAGE) + threadIdx.x % 32;
	return threadIdx.x % 32 < SPAN_KEYS / PAGE && i <= last / PAGE ? pool.blocks[i] : 0;
}

inline Pool poolOf(const T *k, const T *v, const int *tables, int sequence, int maxBlocks, int kvHeads) {
	return {k + blockIdx.y * DIM, v + blockIdx.y * DIM, tables + (long long)sequence * maxBlocks, kvHeads * DIM};
}

// joinSpans joins a lane's sums of row e, which sees n spans, with the sums of the other spans, if it is the last to
// have them: otherwise it keeps them, and returns false. Each lane has its own counter, so that none waits for another.
inline bool joinSpans(Sums &s, int e, float *parts, unsigned *arrived, int span, int n) {
	const int t = threadIdx.x % 4;
	float top = -INFINITY, total = 0, out[DIM / 4] = {};
	if (n > 1) {
		float *const part = parts + span * PART;
		part[2 * t] = s.top[e], part[2 * t + 1] = s.total[e];
#pragma unroll
		for (int i = 0; i < DIM / 4; i++) part[8 + column(i / 2, t, i % 2)] = s.out.at[0][i / 2][e * 2 + i % 2];
		__threadfence();
		const bool last = atomicInc(arrived + t, n - 1) == n - 1;
		__threadfence();
		if (!last) return false;
		for (span = 0; span < n; span++, parts += PART) {
			const Factors f = joinTotals(top, total, __ldcg(parts + 2 * t), __ldcg(parts + 2 * t + 1));
#pragma unroll
			for (int i = 0; i < DIM / 4; i++) out[i] = join(out[i], __ldcg(parts + 8 + column(i / 2, t, i % 2)), f);
		}
	} else {
		const Factors f = joinTotals(top, total, s.top[e], s.total[e]);
#pragma unroll
		for (int i = 0; i < DIM / 4; i++) out[i] = join(0, s.out.at[0][i / 2][e * 2 + i % 2], f);
	}
	s.total[e] = total;
#pragma unroll
	for (int i = 0; i < DIM / 4; i++) s.out.at[0][i / 2][e * 2 + i % 2] = out[i];
	return true;
}

// put stores a lane's part of row e.
inline void put(T *to, const Sums &s, int e) {
#pragma unroll
	for (int i = 0; i < DIM / 4; i++) {
		T rounded[1];
		narrow(rounded, {__fdiv_rn(s.out.at[0][i / 2][e * 2 + i % 2], s.total[e])});
		to[column(i / 2, threadIdx.x % 4, i % 2)] = rounded[0];
	}
}

// attention_paged_parts computes the Sums of one span. parts is [rows, heads, spans, PART], of the spans that a row
// sees, and arrived [rows, heads, 4] counts these. The grid has rows, key heads and spans.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) attention_paged_parts(T *y, float *parts, unsigned *arrived,
	const T *qkv, const T *k, const T *v, const int *tables, const int *places, int rows, int heads, int kvHeads,
	int maxBlocks, int spans, int window, float scale) {
	launchDependents();
	waitForPrerequisites();
	extern __shared__ __align__(128) char memory[];
	const Job job = jobOf(places, blockIdx.x, rows, 16 / (heads / kvHeads), window);
	const int span = job.keys.first / SPAN_KEYS + blockIdx.z;
	const Range keys = {max(job.keys.first, span * SPAN_KEYS), min(job.keys.last, (span + 1) * SPAN_KEYS - 1)};
	if (job.n == 0 || keys.first > keys.last) return;
	char *const own = memory, *const tiles = own + 16 * ROW;
	const Pool pool = poolOf(k, v, tables, places[2 * job.row], maxBlocks, kvHeads);
	const int ids = blocksOf(pool, keys.first, keys.last), from = keys.first / KEYS * KEYS;
	Warp warp(job, own, qkv, 0, heads, kvHeads, window);
	bringKeys<32>(tiles, pool, ids, from, keys);
	if (HELD) {
		copyWait<1>();
		__syncwarp();
		warp.queries.hold();
	}
	Sums s;
	char *tile = tiles, *next = tiles + 2 * TILE;
	for (int key = from; key <= keys.last; key += KEYS) {
		if (key + KEYS <= keys.last) {
			bringKeys<32>(next, pool, ids, key + KEYS, keys);
			copyWait<1>();
		} else {
			copyWait<0>();
		}
		__syncwarp();
		see(s, warp.queries, tile, key, warp.seen, scale * LOG2E);
		__syncwarp(); // all lanes have read the tile
		char *const done = tile;
		tile = next, next = done;
	}
	finishTotals(s);
#pragma unroll
	for (int e = 0; e < 2; e++) {
		if (!warp.sees(e, span)) continue;
		const int from = warp.seen[e].first / SPAN_KEYS, n = warp.seen[e].last / SPAN_KEYS - from + 1;
		const long long number = (long long)warp.row[e] * heads + warp.head[e];
		if (joinSpans(s, e, parts + number * spans * PART, arrived + number * 4, span - from, n)) put(y + number * DIM, s, e);
	}
}

// attention_paged computes rows from all spans. The grid has rows, the last of which see most and start first, and key
// heads.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) attention_paged(T *y, const T *qkv, const T *k, const T *v,
	const int *tables, const int *places, int rows, int heads, int kvHeads, int maxBlocks, int window, float scale) {
	waitForPrerequisites();
	extern __shared__ __align__(128) char memory[];
	const int tokens = 16 / (heads / kvHeads);
	const Job job = jobOf(places, rows - 1 - blockIdx.x, rows, tokens * WARPS, window);
	if (job.n == 0) return;
	const int number = threadIdx.x / 32, before = number * tokens, from = job.keys.first / KEYS * KEYS;
	char *const own = memory + number * 16 * ROW, *const tiles = memory + WARPS * 16 * ROW;
	const Pool pool = poolOf(k, v, tables, places[2 * job.row], maxBlocks, kvHeads);
	int ids = blocksOf(pool, from, job.keys.last);
	Warp warp(job, own, qkv, before, heads, kvHeads, window);
	const int end = job.position + min(job.n, before + tokens) - 1; // the last key that the warp sees, if it has tokens
	bringKeys<BLOCK_DIM>(tiles, pool, ids, from, job.keys);
	if (HELD) {
		copyWait<1>();
		__syncwarp();
		warp.queries.hold();
	}
	Sums all, s;
	char *tile = tiles, *next = tiles + 2 * TILE;
	for (int key = from; key <= job.keys.last; key += KEYS) {
		const int span = key / SPAN_KEYS, after = key + KEYS;
		if (after <= job.keys.last) {
			if (after % SPAN_KEYS == 0) ids = blocksOf(pool, after, job.keys.last);
			bringKeys<BLOCK_DIM>(next, pool, ids, after, job.keys);
			copyWait<1>();
		} else {
			copyWait<0>();
		}
		__syncthreads();
		if (before < job.n && key <= end) see(s, warp.queries, tile, key, warp.seen, scale * LOG2E);
		__syncthreads(); // all warps have read the tile
		char *const done = tile;
		tile = next, next = done;
		if (after % SPAN_KEYS != 0 && after <= job.keys.last) continue;
		finishTotals(s);
#pragma unroll
		for (int e = 0; e < 2; e++) {
			if (!warp.sees(e, span)) continue;
			const Factors f = joinTotals(all.top[e], all.total[e], s.top[e], s.total[e]);
#pragma unroll
			for (int n = 0; n < DIM / 8; n++) {
				all.out.at[0][n][e * 2] = join(all.out.at[0][n][e * 2], s.out.at[0][n][e * 2], f);
				all.out.at[0][n][e * 2 + 1] = join(all.out.at[0][n][e * 2 + 1], s.out.at[0][n][e * 2 + 1], f);
			}
		}
		s = Sums();
	}
#pragma unroll
	for (int e = 0; e < 2; e++) {
		if (warp.seen[e].first > warp.seen[e].last) continue;
		put(y + ((long long)warp.row[e] * heads + warp.head[e]) * DIM, all, e);
	}
}
