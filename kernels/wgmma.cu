// A product of matrices on the tensor cores of sm_90, c = a·bᵀ, and what follows it. One warpgroup copies tiles of a
// and b to shared memory, far ahead of two others, which multiply them. product_wgmma.go chooses:
//
//   F16        if it is defined, operands are F16, otherwise BF16
//   TILE_N     columns of the product per tile, which has 128 rows
//   STAGES     steps of 64 along k in shared memory at a time
//   TURNS      1: the two take tiles in turns, so that one finishes its tile while the other multiplies; 0: each
//              computes half of the rows of a tile
//   GATED      1: half of a tile's columns are gates, the others what they gate, and c is SwiGLU of them
//   ACT        otherwise: the activation that follows, numbered as in package cpu
#include "wgmma.cuh"
#include "activation.cuh"

constexpr int TILE_M = 128, DEPTH = 64;
constexpr int HALVES = TURNS ? 2 : 1; // 64 rows each, of those that a warpgroup computes
constexpr int A_BYTES = TILE_M * DEPTH * 2, B_BYTES = TILE_N * DEPTH * 2, STAGE = A_BYTES + B_BYTES;
constexpr int COLUMNS = GATED ? TILE_N / 2 : TILE_N; // of c per tile
constexpr int OUT_N = COLUMNS % 64 ? 32 : 64;        // of these, stored at once
constexpr int OUT_BYTES = 64 * OUT_N * 2;            // of what is stored at once
constexpr int BUFFERS = COLUMNS > OUT_N ? COLUMNS / OUT_N : 2; // for that, of each of the two
// rows of tiles of thread blocks that run at the same time, so that they share what they read through the cache
constexpr int BAND = 8;
static_assert(BLOCK_DIM == 3 * 128 && COLUMNS % OUT_N == 0 && A_BYTES % 1024 == 0 && B_BYTES % 2048 == 0, "");

// activated applies ACT, or SiLU to a gate.
inline float activated(float x) {
#ifdef ACT
	if (ACT < 3) return geluOf(x, ACT == 2);
#endif
	return x * reciprocal(1 + exp2Rough(-1.442695041f * x));
}

// A Place is where a tile is in c.
struct Place {
	int row, column;
	Place(int tile, int down, int across) {
		const int band = BAND * across, first = tile / band * BAND, rows = min(down - first, BAND), number = tile % band;
		row = (first + number % rows) * TILE_M, column = number / rows * COLUMNS;
	}
};

// A Ring counts steps: the stage of the next one, and the parity of that stage's phase.
struct Ring {
	int stage = 0, parity = 0;
	void skip(int steps) {
		stage += steps;
		parity ^= stage / STAGES & 1;
		stage %= STAGES;
	}
	void next() {
		if (++stage == STAGES) stage = 0, parity ^= 1;
	}
};

// first reports whether this is the first thread of its warpgroup.
inline bool first() { return threadIdx.x % 128 == 0; }

// An Output writes results of a warpgroup, 64 rows and OUT_N columns at a time, through buffers in turns.
struct Output {
	char *buffers;
	int barrier, turn, at; // at: where this lane's rows of the first 16 columns are in a buffer

	Output(char *buffers, int barrier) : buffers(buffers), barrier(barrier), turn(0) {
		at = (threadIdx.x / 32 % 4 * 16 + threadIdx.x % 16) * (OUT_N * 2) + threadIdx.x % 32 / 16 * 16;
	}
	// put writes pairs of elements: pair(j, i) returns pair i of this thread's four of 16 columns, 16j and on.
	template <typename F> void put(const TileMap *map, int row, int column, F pair) {
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
		if (first()) {
			tileStore(map, row, column, buffer);
			tileCommit();
		}
	}
};

// A Bias is that of a thread's columns, or 0. It is loaded before the product, so that nothing waits for it.
struct Bias {
	Vec<Half, 2> pairs[TILE_N / 8];

	Bias(const Half *bias, int left, int n) {
		if (!bias) return;
#pragma unroll
		for (int i = 0; i < TILE_N / 8; i++) {
			const bool up = GATED && i >= COLUMNS / 8;
			const int column = left + threadIdx.x % 4 * 2 + i * 8 - (up ? COLUMNS : 0);
			if (column < n) pairs[i] = loadCachedOf<2>(bias + (up ? n : 0) + column, 0);
		}
	}
	void add(float (&sums)[TILE_N / 2]) const {
#pragma unroll
		for (int i = 0; i < TILE_N / 2; i++) sums[i] += pairs[i / 4][i % 2];
	}
};

// write writes what follows from the sums of 64 rows to c, and, if keep is set, the sums themselves to pre.
inline void write(Output &out, const float (&sums)[TILE_N / 2], const TileMap *c, const TileMap *pre, int row,
	int column, int n, int keep) {
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

// a is [m, depth], b [n, depth] and c [m, n]. If GATED, b is [2n, depth], the gates first. If keep is set, pre gets the
// product before what follows it, [m, n] or [m, 2n].
extern "C" __global__ void __launch_bounds__(BLOCK_DIM, 1) product_wgmma(const __grid_constant__ TileMap a,
	const __grid_constant__ TileMap b, const __grid_constant__ TileMap c, const __grid_constant__ TileMap pre,
	const Half *bias, int m, int n, int depth, int keep) {
	extern __shared__ uint4 memory[];
	char *const stages = (char *)memory + (1024 - (size_t)shared(memory) % 1024) % 1024, *const outputs =
		stages + STAGES * STAGE;
	// full: a stage is there; empty: it has been multiplied; turns: a warpgroup may multiply
	Barrier *const full = (Barrier *)(outputs + 2 * BUFFERS * OUT_BYTES), *const empty = full + STAGES, *const turns =
		empty + STAGES;
	if (threadIdx.x == 0) {
		prefetchMap(&a), prefetchMap(&b), prefetchMap(&c), prefetchMap(&pre);
#pragma unroll
		for (int i = 0; i < STAGES; i++) barrierInit(full + i, 1), barrierInit(empty + i, TURNS ? 1 : 2);
		barrierInit(turns, 1), barrierInit(turns + 1, 1);
		barrierFence();
	}
	__syncthreads();

	const int down = (m + TILE_M - 1) / TILE_M, across = (n + COLUMNS - 1) / COLUMNS, tiles = down * across;
	const int steps = (depth + DEPTH - 1) / DEPTH;
	const int group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0); // the compiler must see that it is the warp's
	Ring ring;
	if (group == 2) {
		giveRegisters<40>();
		if (!first()) return;
		for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
			const Place at(tile, down, across);
			for (int step = 0; step < steps; step++, ring.next()) {
				char *const to = stages + ring.stage * STAGE;
				Barrier *const there = full + ring.stage;
				barrierWait(empty + ring.stage, ring.parity ^ 1);
				barrierExpect(there, STAGE);
				tileLoad(to, &a, at.row, step * DEPTH, there);
				tileLoad(to + A_BYTES, &b, at.column, step * DEPTH, there);
				if (GATED) tileLoad(to + A_BYTES + B_BYTES / 2, &b, n + at.column, step * DEPTH, there);
			}
		}
		return;
	}

	takeRegisters<232>();
	Output out(outputs + group * BUFFERS * OUT_BYTES, 1 + group);
	const int skipped = TURNS ? steps : 0; // the steps of the other one's tile
	if (group == 1) ring.skip(skipped);
	int turn = 1 - group; // its parity
	for (int tile = blockIdx.x + (TURNS ? group * gridDim.x : 0); tile < tiles; tile += (TURNS ? 2 : 1) * gridDim.x) {
		const Place at(tile, down, across);
		const Bias biases(bias, at.column, n);
		float sums[HALVES][TILE_N / 2];
		// A thread may wait for a phase only after the one before the last has ended, so not earlier than its turn.
		if (TURNS) barrierWait(turns + group, turn), turn ^= 1;
		int before = 0; // the stage of the step before
		for (int step = 0; step < steps; step++, ring.next()) {
			const char *const left = stages + ring.stage * STAGE + (TURNS ? 0 : group * 64 * DEPTH * 2);
			const char *const right = stages + ring.stage * STAGE + A_BYTES;
			barrierWait(full + ring.stage, ring.parity);
			groupFence();
#pragma unroll
			for (int k = 0; k < DEPTH / 16; k++) {
#pragma unroll
				for (int h = 0; h < HALVES; h++)
					groupMultiply(sums[h], left + h * 64 * DEPTH * 2 + 32 * k, right + 32 * k, step + k > 0);
			}
			groupCommit();
			groupWait<1>();
			if (step > 0 && first()) barrierArrive(empty + before);
			before = ring.stage;
		}
		if (TURNS && first()) barrierArrive(turns + 1 - group);
		groupWait<0>();
		if (first()) barrierArrive(empty + before);
		ring.skip(skipped);

#pragma unroll
		for (int h = 0; h < HALVES; h++) {
			biases.add(sums[h]);
			write(out, sums[h], &c, &pre, at.row + 64 * (TURNS ? h : group), at.column, n, keep);
		}
	}
	if (first()) tileWait<0>();
}
