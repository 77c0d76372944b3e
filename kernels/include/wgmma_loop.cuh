// A product of matrices on the tensor cores of sm_90, c = a·b: what the kernels of product_wgmma*.cu have in common.
// Macros:
//
//   F16        if it is defined, operands are F16, otherwise BF16
//   TRANS_A, TRANS_B   1: the operand is stored transposed, as TRANS_B is if neither is defined
//   TILE_N     columns of the product per tile, which has 128 rows
//   STAGES     steps of 64 along k in shared memory at a time
//   TURNS      1: two warpgroups take tiles alternately, 0: each computes half of the rows of a tile
//   GATED      1: half of a tile's columns are gates, the others what they gate, and c is SwiGLU of them
//   ACT        the activation that follows, or 0, numbered as in package cpu: of gates, SiLU
//   PAIR       1: c gets the product of a second pair of operands too: further steps, in the last part of k
//   GROUPED    if it is defined, rows of a and c belong to one expert after the other, and each has its own b
//
// Tensor cores multiply a step faster than memory answers, so copies of a step start long before it is multiplied, and
// who multiplies does nothing else. One warpgroup only copies: one of its threads starts the copies of whole tiles, up
// to STAGES steps ahead, and needs so few registers that the others take over the rest. Two warpgroups only multiply. A
// stage goes round between them: it is full when its bytes have come, and empty when all who multiply it are done.
//
// The end of a tile costs most: a warpgroup multiplies nothing while it rounds, activates and stores its sums. With
// TURNS, the two have different tiles, and one finishes its tile while the other multiplies: the tensor cores are
// always busy, but the sums of a whole tile must fit into the registers of one warpgroup. If there are no more tiles
// than multiprocessors, there is no next tile to multiply meanwhile, and half a tile each is faster.
#pragma once
#include "wgmma.cuh"
#ifndef GROUPED
#define GROUPED 0
#endif
#ifndef PAIR
#define PAIR 0
#endif

constexpr int TILE_M = 128, DEPTH = 64;
constexpr int BLOCK = DEPTH * 128;      // bytes of a copy of 64 columns, of an operand whose rows are along k
constexpr bool DIRECT = sizeof(C) == 4; // F32: results are written from registers
constexpr int HALVES = TURNS ? 2 : 1;   // 64 rows each, of those that a warpgroup computes
constexpr int A_BYTES = TILE_M * DEPTH * 2, B_BYTES = TILE_N * DEPTH * 2, STAGE = A_BYTES + B_BYTES;
constexpr int COLUMNS = GATED ? TILE_N / 2 : TILE_N; // of c per tile
constexpr int OUT_N = COLUMNS % 64 ? 32 : 64;        // of these, stored at once
constexpr int OUT_BYTES = 64 * OUT_N * 2;            // of what is stored at once
constexpr int BUFFERS = COLUMNS > OUT_N ? COLUMNS / OUT_N : 2; // for that, of each of the two
// rows of tiles of thread blocks that run at the same time, so that they share what they read through the cache
constexpr int BAND = 8;
static_assert(COLUMNS % OUT_N == 0 && (TRANS_B || TILE_N % 64 == 0 && !GATED), "");
static_assert(!GROUPED || TRANS_B && !TRANS_A, "");
static_assert(A_BYTES % 1024 == 0 && B_BYTES % 2048 == 0, "");

// A Job is a product, as all kernels get it. a is [m, depth], b [depth, n] and c [m, n]. If GATED, b is [depth, 2n],
// the gates first. If keep is set, pre gets the product before what follows it, [m, n] or [m, 2n]. If add is set, the
// product is added to c. If parts is not 0, it gets the products of each partSteps steps, [m, n] each.
struct Job {
	const TileMap *a, *b, *cMap, *pre;
	C *c;
	long long cRow;
	const Half *bias;
	float *parts;
	int m, n, depth, partSteps, keep, add;
	Half *other = nullptr; // where pre is, or what an activation got whose gradient follows
	long long otherRow = 0;
	const TileMap *a2 = nullptr, *b2 = nullptr; // the second pair, laid out as the first
	int depth2 = 0;
};

// Tiles are the tiles of c, in each of the parts that k is divided into: of partSteps steps, or fewer in the last one.
// With GROUPED, they are one expert's at a time: of rows from begin to end, after the tiles of all experts before it.
struct Tiles {
	int down, across, steps, partSteps, paired; // paired: steps of the second pair, in the last part
	int expert = 0, begin = 0, end, before = 0;
	const int *const offsets;
	const int experts;

	// whole: steps are a multiple of this; beyond depth, a is 0
	Tiles(const Job &job, int whole, const int *offsets, int experts)
		: down((job.m + TILE_M - 1) / TILE_M), across((job.n + COLUMNS - 1) / COLUMNS),
		  steps((job.depth + DEPTH - 1) / DEPTH), partSteps(job.partSteps),
		  paired(PAIR ? (job.depth2 + DEPTH - 1) / DEPTH : 0), end(job.m), offsets(offsets), experts(experts) {
		if (whole > 1) steps = (steps + whole - 1) / whole * whole;
		if (GROUPED) {
			begin = offsets[0];
			take(offsets[1]);
		}
	}
	int count() const { return down * across * (GROUPED ? 1 : (steps + partSteps - 1) / partSteps); }
	// has reports whether there is a tile of that number. With GROUPED, its expert is found: numbers must ascend.
	bool has(int tile) {
		while (GROUPED && tile >= before + count() && expert < experts - 1) {
			before += count(), begin = end, expert++;
			take(offsets[expert + 1]);
		}
		return tile < before + count();
	}
	void take(int to) { end = to, down = (end - begin + TILE_M - 1) / TILE_M; }
};

// A Place is where a tile is in c, how many rows and which steps it has, and where the rows of its b start.
struct Place {
	int row, rows, column, part, begin, steps, b;
	Place(int tile, const Tiles &all, int n) {
		tile -= all.before, b = all.expert * (GATED ? 2 * n : n);
		part = tile / (all.down * all.across), tile %= all.down * all.across;
		begin = part * all.partSteps, steps = min(all.steps - begin, all.partSteps);
		if (PAIR && begin + steps == all.steps) steps += all.paired;
		const int band = BAND * all.across, first = tile / band * BAND, rows = min(all.down - first, BAND);
		const int number = tile % band;
		row = all.begin + (first + number % rows) * TILE_M, column = number / rows * COLUMNS;
		this->rows = min(TILE_M, all.end - row);
	}
};

// A Source is the map of an operand for a step at k, and where the step is in it: of the second pair, from the end of
// the first one's steps on.
struct Source {
	const TileMap *map;
	int k;

	Source(const Job &job, const TileMap *first, const TileMap *second, int k) : map(first), k(k) {
		const int end = (job.depth + DEPTH - 1) / DEPTH * DEPTH;
		if (PAIR && k >= end) map = second, this->k = k - end;
	}
};

// A Memory is the shared memory of a thread block: the stages, further bytes of a kernel, and the buffers for results;
// then barriers. full: a stage is there; empty: it has been multiplied; turns: a warpgroup may multiply; the kernel's
// own follow.
struct Memory {
	char *stages, *further, *outputs;
	Barrier *full, *empty, *turns, *others;

	Memory(uint4 *memory, int bytes) {
		stages = (char *)memory + (1024 - (size_t)shared(memory) % 1024) % 1024;
		further = stages + STAGES * STAGE, outputs = further + bytes;
		full = (Barrier *)(outputs + 2 * BUFFERS * OUT_BYTES), empty = full + STAGES;
		turns = empty + STAGES, others = turns + 2;
	}
	// begin initializes the barriers, and lets more do so with the kernel's own. fills is how many arrive when a stage is
	// there.
	template <typename F> void begin(const Job &job, int fills, F more) const {
		if (threadIdx.x == 0) {
			prefetchMap(job.a), prefetchMap(job.b);
			if (PAIR) prefetchMap(job.a2), prefetchMap(job.b2);
			if (!DIRECT) prefetchMap(job.cMap), prefetchMap(job.pre);
#pragma unroll
			for (int i = 0; i < STAGES; i++) barrierInit(full + i, fills), barrierInit(empty + i, TURNS ? 1 : 2);
			barrierInit(turns, 1), barrierInit(turns + 1, 1);
			more();
			barrierFence();
		}
		__syncthreads();
		waitForPrerequisites();
	}
};

// A Copier is the thread that copies a, and maybe b. Of fewer rows of a, a tile is only these: beyond the matrix, a
// copy is slow. With GROUPED, a tile is copied as two halves, or one if the expert has no further rows.
struct Copier {
	static constexpr int ROWS = GROUPED ? TILE_M / 2 : TILE_M;
	const Job &job;
	const Memory &memory;
	const int bytes; // of a, of each copy
	Ring<STAGES> ring;

	Copier(const Job &job, const Memory &memory)
		: job(job), memory(memory), bytes(TRANS_A ? A_BYTES : min(ROWS, (job.m + 7) / 8 * 8) * DEPTH * 2) {}
	// copy copies the steps of a tile, and what copyB(to, k, barrier) starts to copy of b: bytesOfB bytes.
	template <typename F> void copy(const Place &at, int bytesOfB, F copyB) {
		const bool two = GROUPED && at.rows > ROWS;
		for (int step = 0; step < at.steps; step++, ring.next()) {
			char *const to = memory.stages + ring.stage * STAGE;
			Barrier *const there = memory.full + ring.stage;
			barrierWait(memory.empty + ring.stage, ring.parity ^ 1);
			barrierExpect(there, (two ? 2 : 1) * bytes + bytesOfB);
			const int k = (at.begin + step) * DEPTH;
			const Source a(job, job.a, job.a2, k);
#pragma unroll
			for (int i = 0; TRANS_A && i < TILE_M / 64; i++) tileLoad(to + i * BLOCK, a.map, a.k, at.row + i * 64, there);
			if (!TRANS_A) tileLoad(to, a.map, at.row, a.k, there);
			if (two) tileLoad(to + A_BYTES / 2, a.map, at.row + ROWS, a.k, there);
			copyB(to + A_BYTES, k, there);
		}
	}
};

// copyTile copies what a tile has of b at k: the rows of columns of the product, or if GATED, of gates and of what they
// gate.
inline void copyTile(const Job &job, const Place &at, char *to, int bytes, int k, Barrier *there) {
	const Source b(job, job.b, job.b2, k);
#pragma unroll
	for (int i = 0; !TRANS_B && i < TILE_N / 64; i++) tileLoad(to + i * BLOCK, b.map, b.k, at.column + i * 64, there);
	if (TRANS_B) tileLoad(to, b.map, at.b + at.column, b.k, there);
	if (GATED) tileLoad(to + bytes / 2, b.map, at.b + job.n + at.column, b.k, there);
}

// copyTiles is the main loop of the warpgroup that copies both operands.
inline void copyTiles(const Job &job, const Memory &memory, Tiles all) {
	const bool copies = first();
	Copier copier(job, memory);
	for (int tile = blockIdx.x; copies && all.has(tile); tile += gridDim.x) {
		const Place at(tile, all, job.n);
		copier.copy(at, B_BYTES, [&](char *to, int k, Barrier *there) {
			copyTile(job, at, to, B_BYTES, k, there);
		});
	}
}

// A Result is a matrix to which results go.
struct Result {
	const TileMap *map;
	Half *at;
	long long stride;
	int columns;
};

// An Output writes results of a warpgroup, 64 rows and OUT_N columns at a time, through buffers that take turns. With
// GROUPED, it may have fewer rows, of an expert: the next expert's follow.
struct Output {
	char *buffers;
	int barrier, turn, at; // at: where this lane's rows of the first 16 columns are in a buffer
	int rows = 64;

	Output(char *buffers, int barrier) : buffers(buffers), barrier(barrier), turn(0) {
		at = (threadIdx.x / 32 % 4 * 16 + threadIdx.x % 16) * (OUT_N * 2) + threadIdx.x % 32 / 16 * 16;
	}
	// put writes pairs of elements: pair(j, i) returns pair i of this thread's four of 16 columns, 16j and on.
	template <typename F> void put(const Result &to, int row, int column, F pair) {
		char *const buffer = buffers + turn * OUT_BYTES;
		if (++turn == BUFFERS) turn = 0;
		if (first()) tileWait<BUFFERS - 1>(); // for the last store from this buffer
		syncSome(barrier, 128);
#pragma unroll
		for (int j = 0; j < OUT_N / 16; j++) {
			const unsigned r[4] = {pair(j, 0), pair(j, 1), pair(j, 2), pair(j, 3)};
			stmatrix(buffer + swizzled(at + 32 * j, OUT_N * 2), r);
		}
		tileFence();
		syncSome(barrier, 128);
		if (GROUPED && rows < 64) {
			constexpr int WORDS = OUT_N / 8;
			for (int i = threadIdx.x % 128; i < rows * WORDS; i += 128) {
				const int r = i / WORDS, s = column + i % WORDS * 8;
				const uint4 word = *(const uint4 *)(buffer + swizzled(i * 16, OUT_N * 2));
				if (s < to.columns) *(uint4 *)(to.at + (row + r) * to.stride + s) = word;
			}
		} else if (first()) {
			tileStore(to.map, row, column, buffer);
		}
		if (first()) tileCommit();
	}
};

// rowOfB returns the row of b that a row of the tile at a column of c is, or a last one instead of those beyond.
inline int rowOfB(int column, int row, int n) {
	const bool up = GATED && row >= COLUMNS;
	return (up ? n : 0) + min(column + row - (up ? COLUMNS : 0), n - 1);
}

// A Bias is the bias of a thread's columns, or 0. It is loaded before the product, so that nothing waits for it.
struct Bias {
	Vec<Half, 2> pairs[TILE_N / 8];

	Bias(const Half *bias, int column, int n) {
		if (!bias) return;
#pragma unroll
		for (int i = 0; i < TILE_N / 8; i++) // n is even
			pairs[i] = loadCachedOf<2>(bias + (rowOfB(column, threadIdx.x % 4 * 2 + i * 8, n) & ~1), 0);
	}
	void add(float (&y)[TILE_N / 2]) const {
#pragma unroll
		for (int i = 0; i < TILE_N / 2; i++) y[i] += pairs[i / 4][i % 2];
	}
};

// eachPair calls f for each pair of a thread's sums of 64 rows that is in [m, n], with its first index, row and column.
template <typename F> inline void eachPair(int m, int n, int row, int column, F f) {
	row += threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4, column += threadIdx.x % 4 * 2;
#pragma unroll
	for (int i = 0; i < TILE_N / 2; i += 2) {
		const int r = row + i / 2 % 2 * 8, s = column + i / 4 * 8; // n is even
		if (r < m && s < n) f(i, r, s);
	}
}

// putPair stores sums i and i + 1.
template <typename E> inline void putPair(E *to, const float (&sums)[TILE_N / 2], int i) {
	const float pair[2] = {sums[i], sums[i + 1]};
	Vec<E, 2> v;
	narrow(v.at, pair);
	store(to, 0, v);
}
inline void putPair(int *to, const int (&sums)[TILE_N / 2], int i) {
	Vec<int, 2> v;
	v.at[0] = sums[i], v.at[1] = sums[i + 1];
	store(to, 0, v);
}

// write writes what follows from the sums of 64 rows to c, and, if keep is set, the sums themselves to pre.
inline void write(Output &out, const float (&sums)[TILE_N / 2], const Result &c, const Result &pre, int row, int column,
	int n, int keep) {
#pragma unroll
	for (int part = 0; part < COLUMNS; part += OUT_N) {
		if (column + part >= n) continue;
		auto sum = [&](int j, int i) { return sums[part / 2 + 8 * j + i]; };
		auto up = [&](int j, int i) { return sums[(COLUMNS + part) / 2 + 8 * j + i]; };
		if (keep) {
			out.put(pre, row, column + part, [&](int j, int i) { return pack(sum(j, 2 * i), sum(j, 2 * i + 1)); });
			if (GATED)
				out.put(pre, row, n + column + part, [&](int j, int i) { return pack(up(j, 2 * i), up(j, 2 * i + 1)); });
		}
		out.put(c, row, column + part, [&](int j, int i) {
			float y[2];
#pragma unroll
			for (int e = 0; e < 2; e++) y[e] = activated(sum(j, 2 * i + e)) * (GATED ? up(j, 2 * i + e) : 1);
			return pack(y[0], y[1]);
		});
	}
}

// A Forward is how a tile ends: what is added to its sums and what follows them. Scales multiplies the sums before.
template <typename Scales> struct Forward {
	const Job &job;
	const Place &at;
	const Bias bias;
	Scales scales;

	Forward(const Job &job, const Place &at, int, Scales scales)
		: job(job), at(at), bias(job.bias, at.column, job.n), scales(scales) {}
	// load loads what only finish needs.
	void load() { scales.load(job, at); }
	// finish takes the sums of the 64 rows from row on; the rows from end on are not the tile's.
	void finish(Output &out, Sum (&sums)[TILE_N / 2], int half, int row, int end, const Result &c, const Result &pre)
		const {
		auto putPart = [&](auto *to, auto &values) {
			eachPair(end, job.n, row, at.column, [&](int i, int r, int s) {
				putPair(to + ((long long)at.part * job.m + r) * job.n + s, values, i);
			});
		};
		float *const parts = job.parts;
		if (Scales::AFTER_PARTS && parts) {
			putPart((Sum *)parts, sums);
			return;
		}
		float room[TILE_N / 2], (&y)[TILE_N / 2] = scales.multiply(sums, room, half);
		if (parts) {
			putPart(parts, y);
			return;
		}
		bias.add(y);
		const int add = job.add;
		if (add) {
			eachPair(end, job.n, row, at.column, [&](int i, int r, int s) {
				const Vec<C, 2> old = loadCachedOf<2>(job.c + r * job.cRow + s, 0);
				y[i] += old[0], y[i + 1] += old[1];
			});
		}
		if constexpr (DIRECT)
			eachPair(end, job.n, row, at.column, [&](int i, int r, int s) { putPair(job.c + r * job.cRow + s, y, i); });
		else
			write(out, y, c, pre, row, at.column, job.n, job.keep);
	}
};

// multiplySteps multiplies the steps of a tile, and returns the stage of the last one, which is still being multiplied.
// Only then the stage before it is empty: the tensor cores always have a step to go on with.
template <int N>
inline int multiplySteps(Sum (&sums)[HALVES][TILE_N / 2], const Memory &memory, Ring<STAGES> &ring, const Place &at,
	int group) {
	int before = 0; // the stage of the step before
	for (int step = 0; step < at.steps; step++, ring.next()) {
		const char *const left = memory.stages + ring.stage * STAGE + (TURNS ? 0 : group * 64 * DEPTH * 2);
		const char *const right = memory.stages + ring.stage * STAGE + A_BYTES;
		barrierWait(memory.full + ring.stage, ring.parity);
		groupFence();
#pragma unroll
		for (int k = 0; k < DEPTH / 16; k++) {
#pragma unroll
			for (int h = 0; h < N; h++)
				groupMultiply(sums[h], left + h * 64 * DEPTH * 2 + groupStep(TRANS_A) * k, right + groupStep(!TRANS_B) * k,
					step + k > 0);
		}
		groupCommit();
		groupWait<1>();
		if (step > 0 && first()) barrierArrive(memory.empty + before);
		before = ring.stage;
	}
	return before;
}

// multiplyTiles is the main loop of a warpgroup that multiplies: it computes tiles, each of which an End finishes, such
// as Forward. An End is made before the steps, so that what it loads has come when they are over; load loads the rest
// while the last step is multiplied. With GROUPED, the last 64 rows of a tile may be the next expert's: nothing
// multiplies them.
template <typename End, typename... With>
inline void multiplyTiles(const Job &job, const Memory &memory, Tiles all, int group, With... with) {
	Output out(memory.outputs + group * BUFFERS * OUT_BYTES, 1 + group);
	Ring<STAGES> ring;
	const int skipped = TURNS ? all.steps + all.paired : 0; // the steps of the other one's tile
	if (group == 1) ring.skip(skipped);
	int turn = 1 - group; // its parity
	const Result c{job.cMap, (Half *)job.c, job.cRow, job.n};
	const Result pre{job.pre, job.other, job.otherRow, GATED ? 2 * job.n : job.n};
	for (int tile = blockIdx.x + (TURNS ? group * gridDim.x : 0); all.has(tile); tile += (TURNS ? 2 : 1) * gridDim.x) {
		const Place at(tile, all, job.n);
		const int live = GROUPED ? __shfl_sync(~0u, at.rows, 0) : TILE_M; // the compiler must see that it is the warp's
		End end(job, at, group, with...);
		Sum sums[HALVES][TILE_N / 2];
		// A thread may wait for a phase only after the one before the last has ended, so not earlier than its turn.
		if (TURNS) barrierWait(memory.turns + group, turn), turn ^= 1;
		int last;
		if (!GROUPED || live > 64 * (TURNS ? 1 : group)) last = multiplySteps<HALVES>(sums, memory, ring, at, group);
		else last = multiplySteps<HALVES - 1>(sums, memory, ring, at, group);
		if (TURNS && first()) barrierArrive(memory.turns + 1 - group);
		end.load();
		groupWait<0>();
		if (first()) barrierArrive(memory.empty + last);
		ring.skip(skipped);
#pragma unroll
		for (int h = 0; h < HALVES; h++) {
			const int row = at.row + 64 * (TURNS ? h : group);
			if (GROUPED && row >= all.end) continue;
			if (GROUPED) out.rows = min(64, all.end - row);
			end.finish(out, sums[h], h, row, all.end, c, pre);
		}
	}
	if (first()) tileWait<0>();
}
