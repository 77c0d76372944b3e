// What the kernels of attention's gradients by wgmma share. Macros:
//
//   BY_COLUMN  1 if queries are columns, 0 if they are rows
//   COLUMNS    columns of the scores at a time
//   STAGES     tiles of that many columns in shared memory at a time
//   OWNS       tiles of a thread block's own rows in shared memory at a time: of 2, one comes while the other is used
//   OVERLAP    1: the products for the next columns start before the sums of these are there, which takes more
//              registers; 2: only their scores do; 0: nothing does
//
// A thread block has ROWS rows of the scores at a time, 64 for each warpgroup that multiplies, and goes through the
// columns that these need. With its own tiles, first and second, and the columns' tiles, one and other, it computes
//
//   s = first·oneᵀ                scores
//   p = 2^(s·steps - base)        weights, where base is the logarithm of the sum of a query
//   g = p (second·otherᵀ - of)    gradients of scores, where of is dy·y of a query
//
// and adds g·one and, for keys and values, p·other to its sums. Scores become weights in the registers in which the
// next products need them. One warp only copies: whole tiles, ahead of who multiplies.
#pragma once
#include "flash_wgmma.cuh"

constexpr int ROWS = GROUPS * 64;
constexpr int FLOATS = BY_COLUMN ? 2 * COLUMNS : 0; // base and of, if queries are columns
static_assert(COLUMNS == 64 || COLUMNS == 128, "");
// With OVERLAP, a warpgroup has tiles that it still multiplies, may pass over the next ones because it does not see
// them, and waits for those that follow.
static_assert(!OVERLAP || STAGES >= 3, "");

// A Memory is the shared memory of a thread block. full: tiles are there; empty: they have been multiplied; raw: of
// tiles that have rows of the next sequence, these are still to be cleared.
struct Memory {
	char *own, *tiles;
	float *floats;
	Barrier *ownFull, *ownEmpty, *full, *empty, *raw;

	Memory(uint4 *memory) {
		own = aligned(memory), tiles = own + OWNS * 2 * tileBytes(ROWS);
		floats = (float *)(tiles + STAGES * 2 * tileBytes(COLUMNS));
		ownFull = (Barrier *)(floats + STAGES * FLOATS), ownEmpty = ownFull + OWNS;
		full = ownEmpty + OWNS, empty = full + STAGES, raw = empty + STAGES;
	}
	char *ownTile(int i, int which) const { return own + (2 * i + which) * tileBytes(ROWS); }
	char *tile(int stage, int which) const { return tiles + (2 * stage + which) * tileBytes(COLUMNS); }
	float *floatsOf(int stage) const { return floats + stage * FLOATS; }
	void begin() const {
		if (threadIdx.x == 0) {
#pragma unroll
			for (int i = 0; i < OWNS; i++) barrierInit(ownFull + i, 1), barrierInit(ownEmpty + i, GROUPS);
#pragma unroll
			for (int i = 0; i < STAGES; i++) barrierInit(full + i, 1), barrierInit(empty + i, GROUPS);
			barrierInit(raw, 1);
			barrierFence();
		}
		__syncthreads();
		waitForPrerequisites();
	}
};

// A Place is the rows that a thread block has at a time: those from first on of a head of a sequence, which begins at
// a row and has a length.
struct Place {
	int head, begin, length, first;

	Place(int number, const int *offsets, int sequences, int heads) {
		const int sequence = number / heads % sequences;
		head = number % heads, first = number / heads / sequences * ROWS;
		begin = same(offsets[sequence]), length = same(offsets[sequence + 1]) - begin;
	}
	bool exists() const { return first < length; }
};

// eachNumber calls f for the numbers of a thread block's places. Those with small numbers have most to do: the thread
// blocks that are first in one round are last in the next.
template <typename F> inline void eachNumber(int places, F f) {
	const int blocks = gridDim.x;
	for (int round = 0; round * blocks < places; round++) {
		const int number = round * blocks + (round % 2 ? blocks - 1 - (int)blockIdx.x : (int)blockIdx.x);
		if (number < places) f(number);
	}
}

// A Walk goes through the tiles of a range of columns, once for each of some heads.
struct Walk {
	int begin, end, left, at, head;

	Walk(int begin, int end, int heads)
		: begin(begin), end(end), left(heads * ((end - begin + COLUMNS - 1) / COLUMNS)), at(begin), head(0) {}
	void next() {
		left--, at += COLUMNS;
		if (at >= end) at = begin, head++;
	}
};

// A Source is what tiles are copied of: the map of a matrix, and where a row and a head are in it.
struct Source {
	const TileMap *map;
	int row, column;

	template <int R> void copy(char *to, Barrier *there) const { bring<R>(to, map, row, column, there); }
};

// A Copier is the warp that copies tiles.
struct Copier {
	const Memory &memory;
	const bool one; // the thread that starts copies
	Ring<OWNS> owns;
	Ring<STAGES> ring;
	Ring<1> raws;

	Copier(const Memory &memory) : memory(memory), one(threadIdx.x % 32 == 0) {}
	// copyOwn copies the tiles of a place.
	void copyOwn(const Source &first, const Source &second) {
		if (one) {
			Barrier *const there = memory.ownFull + owns.stage;
			barrierWait(memory.ownEmpty + owns.stage, owns.parity ^ 1);
			barrierExpect(there, 2 * tileBytes(ROWS));
			first.copy<ROWS>(memory.ownTile(owns.stage, 0), there);
			second.copy<ROWS>(memory.ownTile(owns.stage, 1), there);
		}
		owns.next();
	}
	// copy copies tiles of columns, the first exist of which belong to the sequence: what follows belongs to another
	// one, and becomes zeros, as NaN times a weight of 0 is NaN. Before, write(stage) writes what else the stage has.
	template <typename F> void copy(const Source &first, const Source &second, int exist, F write) {
		const bool whole = exist >= COLUMNS;
		Barrier *const full = memory.full + ring.stage, *const there = whole ? full : memory.raw;
		barrierWait(memory.empty + ring.stage, ring.parity ^ 1);
		write(ring.stage);
		__syncwarp();
		if (one) {
			barrierExpect(there, 2 * tileBytes(COLUMNS));
			first.copy<COLUMNS>(memory.tile(ring.stage, 0), there);
			second.copy<COLUMNS>(memory.tile(ring.stage, 1), there);
		}
		if (!whole) {
			barrierWait(there, raws.parity);
			raws.next();
			clear<COLUMNS>(memory.tile(ring.stage, 0), exist);
			clear<COLUMNS>(memory.tile(ring.stage, 1), exist);
			if (one) barrierArrive(full);
		}
		ring.next();
	}
};

typedef float Scores[COLUMNS / 2], Sums[DIM / 2];
typedef Held Left[COLUMNS / 16];

// settle puts sums that were set into the registers to which a product adds.
inline void settle(Scores &sums) {
#ifndef EMULATED
#pragma unroll
	for (int i = 0; i < COLUMNS / 2; i++) asm volatile("" : "+f"(sums[i])::"memory");
#endif
}

// A Multiplier is a warpgroup that multiplies.
struct Multiplier {
	const Memory &memory;
	const int group;
	Ring<OWNS> owns;
	Ring<STAGES> ring;

	Multiplier(const Memory &memory, int group) : memory(memory), group(group) {}
	// mine returns this warpgroup's rows of one of the own tiles.
	char *mine(int which) const { return memory.ownTile(same(owns.stage), which) + group * 64 * 128; }
	// arrive waits for the tiles of a place.
	void arrive() const { barrierWait(memory.ownFull + owns.stage, owns.parity); }
	// leave goes on to the next place.
	void leave() {
		tileFence(); // tiles are copied to where threads have read and written
		sync();
		if (first()) barrierArrive(memory.ownEmpty + owns.stage);
		owns.next();
	}
	void sync() const { syncSome(1 + group, 128); }
	void release(int stage) const {
		if (first()) barrierArrive(memory.empty + stage);
	}
	// find goes on to the next tiles of a walk that this warpgroup sees, and waits until they are there.
	template <typename Sees> bool find(Walk &walk, Sees sees) {
		for (; walk.left > 0; walk.next(), ring.next()) {
			barrierWait(memory.full + ring.stage, ring.parity);
			if (sees(walk.at)) return true;
			sync(); // all have waited: a thread must not miss a phase
			release(ring.stage);
		}
		return false;
	}
	// multiply starts d = a·bᵀ, or d += a·bᵀ if add is set, where a is this warpgroup's rows of one of the own tiles,
	// and b a tile of columns.
	void multiply(Scores &d, int stage, int which, int add) const {
		groupFence();
		multiplyRows(d, Operand<ROWS>(mine(which)), Operand<COLUMNS>(memory.tile(stage, which)), add);
		groupCommit();
	}
	// run goes through a walk. start(gradients, stage) sets gradients to minus of, weigh(scores, stage, column) turns
	// scores into weights, and add(stage, weights, gradients) starts to add to the sums.
	template <typename Sees, typename Start, typename Weigh, typename Add>
	void run(Walk walk, Sees sees, Start start, Weigh weigh, Add add) {
		Scores scores, gradients;
		Left weights, left;
		auto begin = [&](int stage) {
			start(gradients, stage);
			settle(gradients);
		};
		auto sum = [&](int stage) {
			groupFence();
			add(stage, weights, left);
			groupCommit();
		};
		auto finish = [&] {
			if (BY_COLUMN) hold(weights, scores);
#pragma unroll
			for (int i = 0; i < COLUMNS / 2; i++) scores[i] *= gradients[i];
			hold(left, scores);
		};
		auto next = [&] { walk.next(), ring.next(); };
		if (!OVERLAP) {
			for (; find(walk, sees); next()) {
				const int stage = same(ring.stage);
				begin(stage);
				multiply(scores, stage, 0, 0);
				multiply(gradients, stage, 1, 1);
				groupWait<1>();
				weigh(scores, stage, walk.at);
				groupWait<0>();
				finish();
				sum(stage);
				groupWait<0>();
				release(stage);
			}
			return;
		}
		if (!find(walk, sees)) return;
		int before = same(ring.stage);
		begin(before); // before any product: otherwise the compiler waits for those that have started
		multiply(scores, before, 0, 0);
		multiply(gradients, before, 1, 1);
		groupWait<1>();
		weigh(scores, before, walk.at);
		groupWait<0>();
		finish();
		for (next(); find(walk, sees); next()) {
			const int stage = same(ring.stage);
			multiply(scores, stage, 0, 0);
			sum(before);
			if (OVERLAP == 1) {
				begin(stage);
				multiply(gradients, stage, 1, 1);
			}
			groupWait<OVERLAP == 1 ? 2 : 1>();
			weigh(scores, stage, walk.at);
			groupWait<OVERLAP == 1 ? 1 : 0>();
			release(before);
			if (OVERLAP == 2) {
				begin(stage);
				multiply(gradients, stage, 1, 1);
			}
			groupWait<0>();
			finish();
			before = stage;
		}
		sum(before);
		groupWait<0>();
		release(before);
	}
	// write writes the first n of this warpgroup's rows of sums, times a scale, to rows that are stride elements apart.
	// It passes through the rows of an own tile, which all have been multiplied.
	void write(T *rows, int stride, int n, const Sums &sums, float scale, int which) const {
		writeRows<ROWS>(rows, stride, n, sums, mine(which), [=](int) { return scale; });
	}
};
