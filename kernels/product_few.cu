// A few rows times weights on the tensor cores of sm_90, c = a·bᵀ, and what follows it, with the bits of the kernels of
// product_wgmma*.cu: see product_alone.go. mma has the bits of wgmma, whichever operand has the 16 rows, so here these
// are rows of b: a warp has 16 of b and up to 8·TILES of a.
//
// Macros:
//
//   F16      if it is defined, operands are F16, otherwise BF16
//   TILES    of eight rows of a each, that a warp multiplies
//   GATED    1: half of a warp's rows of b are gates, the others what they gate, and c is SwiGLU of them
//   ACT      the activation that follows, or 0, numbered as in package cpu: of gates, SiLU
//   PAIR     1: c gets the product of a second pair of operands too: further steps, in the last part of k
//   BITS …   if it is defined, how weights are stored: see quantized.cuh
//
// Weights come from memory as fast as it can: up to stages steps along k are on their way, each copied as a whole for
// all warps. Two threads do nothing but copy. The one of weights does not wait for the earlier kernels if it need not,
// so that their end and the beginning of this one overlap. If k is divided into parts, who computes the last one adds
// them up, in their order.
#include "wgmma.cuh"
#ifdef BITS
#include "quantized.cuh"
#else
#define BITS 16
#define FINE 0
#endif
#ifndef PAIR
#define PAIR 0
#endif

constexpr int WARPS = BLOCK_DIM / 32 - 2;               // that multiply, at most
constexpr int HALVES = BITS == 8 || BITS == 16 ? 1 : 2; // blocks of 64 along k of a step
constexpr int ROW = BITS == 16 ? 128 : 64;              // bytes of a step in a row of b
constexpr int OUTPUTS = GATED ? 8 : 16;                 // columns of c per warp
static_assert(!(PAIR && BITS < 16), "");

// A Job is a product, as the kernel gets it. a is [m, depth], b [n, depth] or, if GATED, [2n, depth], the gates first,
// and c [m, n]. w is where quantized weights are. warps counts the warps whose columns a tile of c has: they compute
// its first rows; as many others compute each further group of rows. stages steps are in shared memory. If parts is not
// 0, it has room for the sums of all parts of k, of each partSteps steps, and arrived counts those that have come.
struct Job {
	const TileMap *a, *b, *a2, *b2;
	C *c;
	long long cRow;
	const Half *bias;
	const unsigned char *w;
	float *parts;
	unsigned *arrived;
	int m, n, depth, depth2, partSteps, warps, stages, add;

	int across() const { return (n + OUTPUTS * warps - 1) / (OUTPUTS * warps); }
	int steps() const { return (depth + 64 * HALVES - 1) / (64 * HALVES); }
	int count() const { return (steps() + partSteps - 1) / partSteps; } // of parts
	int tileBytes() const { return 16 * warps * ROW; }                  // of b
	int groups() const { return (m + 8 * TILES - 1) / (8 * TILES); }    // of rows
	int block() const { return groups() * 8 * TILES * 128; }            // bytes of 64 along k of a
	int stage() const { return tileBytes() + HALVES * block(); }
};

// A Place is the first column of c of a tile, its part, and the steps of that part, with the second pair's.
struct Place {
	int column, part, begin, steps;
	Place(const Job &job, int tile)
		: column(tile % job.across() * OUTPUTS * job.warps), part(tile / job.across()), begin(part * job.partSteps),
		  steps(min(job.steps() - begin, job.partSteps)) {
		if (PAIR && begin + steps == job.steps()) steps += (job.depth2 + 63) / 64;
	}
};

// A Turn is the stage of a step, and the parity of its phase.
struct Turn {
	int stage = 0, parity = 0;
	void next(int stages) {
		if (++stage == stages) stage = 0, parity ^= 1;
	}
};

// Memory is the shared memory of a thread block. full: a stage is there; empty: it has been multiplied.
struct Memory {
	char *stages;
	Barrier *full, *empty;
	Memory(uint4 *memory, const Job &job) {
		stages = (char *)memory + (1024 - (size_t)shared(memory) % 1024) % 1024;
		full = (Barrier *)(stages + job.stages * job.stage()), empty = full + job.stages;
	}
};

// copySteps copies an operand of all steps, bytes of each, by copy(to, second pair, step of it, place, barrier).
template <typename F> inline void copySteps(const Job &job, const Memory &memory, int bytes, F copy) {
	Turn turn;
	for (int tile = blockIdx.x; tile < job.across() * job.count(); tile += gridDim.x) {
		const Place at(job, tile);
		for (int step = 0; step < at.steps; step++, turn.next(job.stages)) {
			barrierWait(memory.empty + turn.stage, turn.parity ^ 1);
			barrierExpect(memory.full + turn.stage, bytes);
			const int i = at.begin + step;
			const bool second = PAIR && i >= job.steps();
			copy(memory.stages + turn.stage * job.stage(), second, second ? i - job.steps() : i, at, memory.full + turn.stage);
		}
	}
}

// Weights are what a lane has of the rows g and g + 8 of its warp's, as left operands of mma. Where a lane reads in a
// stage is computed once.
struct Weights {
	const int lane, last;
	int row[2]; // in b
	int from[4], to[4];

	Weights(const Job &job, int warp, int column) : lane(threadIdx.x % 32), last(job.depth) {
		int first[2]; // where its rows start in the tile
#pragma unroll
		for (int i = 0; i < 2; i++) {
			first[i] = GATED ? 8 * (warp + i * job.warps) : 16 * warp + 8 * i;
			const int output = column + OUTPUTS * warp + lane / 4 + (GATED ? 0 : 8 * i);
			row[i] = min(output, job.n - 1) + (GATED && i ? job.n : 0);
		}
		const int at = ((lane / 8 % 2 ? first[1] : first[0]) + lane % 8) * ROW + lane / 16 * 16;
#pragma unroll
		for (int k = 0; k < 4; k++) {
			from[k] = BITS == 16 ? swizzled(at + k * 32, 128) : swizzled(at + k * 16, 64);
			to[k] = BITS == 16 ? swizzled(lane % 8 * 128 + (4 * k + lane / 8) * 16, 128)
				: swizzled(lane / 4 * 128 + k * 32 + lane % 4 * 8, 128);
		}
	}
#if BITS == 16
	void next(const Job &, int) {}
	void end(float (&)[TILES][4]) const {}
	// add adds the products of a step. All of it is read before the first of them, which each wait for the one before.
	void add(float (&sums)[TILES][4], const char *left, const char *right, int, const Job &, int) const {
		unsigned a[4][4], b[TILES][2][4];
#pragma unroll
		for (int k = 0; k < 4; k++) tileMatrices(a[k], left + from[k]);
#pragma unroll
		for (int i = 0; i < TILES; i++) {
#pragma unroll
			for (int k = 0; k < 2; k++) tileMatrices(b[i][k], right + i * 1024 + to[k]);
		}
#pragma unroll
		for (int k = 0; k < 4; k++) {
#pragma unroll
			for (int i = 0; i < TILES; i++)
				mma(sums[i], a[k], {b[i][k / 2][k % 2 * 2], b[i][k / 2][k % 2 * 2 + 1]});
		}
	}
#else
	static constexpr bool ONE_SCALE = BITS == 8 && !FINE; // of a row
	const unsigned char *w[2]; // rows
	unsigned codes[2][4], more[2][HIGH > 1 ? 2 : 1];
	Scaled of[2];
	f16 scale[2]; // of the next step
	unsigned char zero[2];

	// next starts to load the scales of a step, if it is there.
	void next(const Job &job, int step) {
#pragma unroll
		for (int i = 0; i < 2; i++) {
			w[i] = job.w + row[i] * rowOf(last);
			if (BITS == 8 || FINE || step >= groupsOf(last)) continue;
			scale[i] = ((const f16 *)w[i])[step];
			zero[i] = ZEROS ? w[i][zerosAt(last) + step] : 8;
		}
	}
	// end multiplies sums by what they lack. It rounds before a bias is added, as for many rows.
	void end(float (&sums)[TILES][4]) const {
#pragma unroll
		for (int i = 0; ONE_SCALE && i < TILES * 4; i++) {
			float &sum = sums[i / 4][i % 4];
			sum = __fmul_rn(sum, *(const float *)w[i % 4 / 2]);
		}
	}
	// A lane has four codes of each 16, those from 4t on: as mma adds up 16 products whatever their order is, it gets what
	// is easy to read. The middle ones are exchanged, so that pairs two bytes apart are next to each other.
	static unsigned pairs(unsigned four) { return permute(four, 0, 0x3120); }
	void read(const char *left, int step) {
#pragma unroll
		for (int s = 0; s < 4; s += 2) {
			unsigned r[4];
			tileMatrices(r, left + from[s]);
#pragma unroll
			for (int i = 0; i < 4; i++) codes[i % 2][s + i / 2] = pairs(r[i]);
		}
#pragma unroll
		for (int i = 0; i < 2; i++) {
			if (BITS == 4 && !FINE) of[i] = Scaled(scale[i], zero[i]);
#pragma unroll
			for (int s = 0; s < HIGH; s++) {
				const int byte = headOf(last) + lowBytes(last) + step * HIGH_BYTES + s * 16 + lane % 4 * 4;
				more[i][s] = pairs(*(const unsigned *)(w[i] + byte));
			}
		}
	}
	// get gets the codes of block s of 16 of a half.
	void get(unsigned (&a)[4], int step, int half, int s) const {
		const Masks is(last);
#pragma unroll
		for (int i = 0; i < 2; i++) {
			const unsigned x = codes[i][s] >> (BITS == 4 && !FINE ? 4 * half : 0);
			if (ONE_SCALE) {
				a[i] = pair8(x, is), a[2 + i] = pair8(x >> 8, is);
			} else if (!FINE) {
				a[i] = of[i].pair((x & is.four) | 0x43004300), a[2 + i] = of[i].pair((x >> 8 & is.four) | 0x43004300);
			} else {
				const int group = (64 * (HALVES * step + half) + 16 * s) / max(GROUP, 1);
				const float by = scaleOf(w[i], last, group), plus = offsetOf(w[i], last, group);
				const unsigned high = HIGH ? more[i][HIGH > 1 ? s % 2 : 0] >> highShift(16 * s) : 0;
				const unsigned four = BITS == 8 ? x ^ 0x80808080 : fourCodes(x, high, half);
				a[i] = pack(fineValue(four, 0, by, plus), fineValue(four, 2, by, plus));
				a[2 + i] = pack(fineValue(four, 1, by, plus), fineValue(four, 3, by, plus));
			}
		}
	}
	// add adds the products of a step. block is what the halves of a are apart.
	void add(float (&sums)[TILES][4], const char *left, const char *right, int block, const Job &job, int step) {
		read(left, step);
		next(job, step + 1);
#pragma unroll
		for (int half = 0; half < HALVES; half++) {
			const char *const at = right + half * block;
			unsigned b[2][TILES][2]; // of a block of 16, and of the next one
			auto readA = [&](int s) {
#pragma unroll
				for (int i = 0; i < TILES; i++) tileRead(b[s % 2][i], at + i * 1024 + to[s]);
			};
			readA(0);
#pragma unroll
			for (int s = 0; s < 4; s++) {
				unsigned a[4];
				if (s < 3) readA(s + 1);
				get(a, step, half, s);
#pragma unroll
				for (int i = 0; i < TILES; i++) mma(sums[i], a, b[s % 2][i]);
			}
		}
	}
#endif
};

inline float biasOf(const Half *bias, int i) { return bias ? value(bias[i]) : 0; }

// store stores what follows from the sums of a warp, whose rows and columns of c start there.
inline void store(const Job &job, const float (&sums)[TILES][4], int row, int column) {
	const int lane = threadIdx.x % 32;
#pragma unroll
	for (int i = 0; i < TILES; i++) {
#pragma unroll
		for (int e = 0; e < (GATED ? 2 : 4); e++) {
			const int r = row + 8 * i + lane % 4 * 2 + e % 2, s = column + lane / 4 + e / 2 * 8;
			if (r >= job.m || s >= job.n) continue;
			C *const to = job.c + r * job.cRow + s;
			if (!ACT) {
				put(to, sums[i][e], job.bias, s, job.add);
				continue;
			}
			float y[1] = {activated(sums[i][e] + biasOf(job.bias, s))};
			if (GATED) y[0] *= sums[i][e + 2] + biasOf(job.bias, job.n + s);
			C rounded[1];
			narrow(rounded, y);
			*to = rounded[0];
		}
	}
}

// joined keeps a lane's sums of a part, and reports whether they have become the sums of all parts: if it is the last
// one to come. Each lane of each warp has its own counter, so that none waits for another.
inline bool joined(const Job &job, float (&sums)[TILES][4], int number, int part) {
	const int count = job.count(), lane = threadIdx.x % 32;
	constexpr int PART = TILES * 4 * 32;
	float *const all = job.parts + (long long)number * count * PART + lane;
#pragma unroll
	for (int i = 0; i < TILES * 4; i++) all[part * PART + i * 32] = sums[i / 4][i % 4];
	__threadfence();
	const bool last = atomicInc(job.arrived + number * 32 + lane, count - 1) == count - 1;
	__threadfence();
	if (!last) return false;
#pragma unroll
	for (int i = 0; i < TILES * 4; i++) sums[i / 4][i % 4] = 0;
#pragma unroll 4
	for (int p = 0; p < count; p++) {
#pragma unroll
		for (int i = 0; i < TILES * 4; i++) sums[i / 4][i % 4] += __ldcg(all + p * PART + i * 32);
	}
	return true;
}

// multiplyTiles is what a warp that multiplies does. number counts such warps of a thread block.
inline void multiplyTiles(const Job &job, const Memory &memory, int number) {
	Turn turn;
	const int warp = number % job.warps, group = number / job.warps, row = group * 8 * TILES;
	const int tileBytes = job.tileBytes(), block = job.block(), bytes = job.stage();
	for (int tile = blockIdx.x; tile < job.across() * job.count(); tile += gridDim.x) {
		const Place at(job, tile);
		float sums[TILES][4] = {};
		Weights w(job, warp, at.column);
		w.next(job, at.begin);
		for (int step = 0; step < at.steps; step++, turn.next(job.stages)) {
			const char *const left = memory.stages + turn.stage * bytes, *const right = left + tileBytes + row * 128;
			barrierWait(memory.full + turn.stage, turn.parity);
			w.add(sums, left, right, block, job, at.begin + step);
			__syncwarp();
			if (threadIdx.x % 32 == 0) barrierArrive(memory.empty + turn.stage);
		}
		w.end(sums);
		const int place = group * job.across() * job.warps + at.column / OUTPUTS + warp;
		if (!job.parts || joined(job, sums, place, at.part)) store(job, sums, row, at.column + OUTPUTS * warp);
		__syncwarp();
	}
}

// The parameters are Job's. If ahead is set, no kernel before this one in a graph writes weights.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM, 1) product_few(const __grid_constant__ TileMap a,
	const __grid_constant__ TileMap b, const __grid_constant__ TileMap a2, const __grid_constant__ TileMap b2,
	C *c, long long cRow, const Half *bias, const unsigned char *w, float *parts, unsigned *arrived, int m, int n,
	int depth, int depth2, int partSteps, int warps, int stages, int add, int ahead) {
	extern __shared__ uint4 memory[];
	const Job job{&a, &b, &a2, &b2, c, cRow, bias, w, parts, arrived, m, n, depth, depth2, partSteps, warps, stages, add};
	const Memory room(memory, job);
	const int all = job.groups() * warps; // that multiply
	launchDependents();
	if (threadIdx.x == 0) {
		for (int i = 0; i < stages; i++) barrierInit(room.full + i, 2), barrierInit(room.empty + i, all);
		barrierFence();
	}
	__syncthreads();
	const int warp = same(threadIdx.x / 32);
	if (warp == WARPS && threadIdx.x % 32 == 0) {
		if (!ahead) waitForPrerequisites();
		copySteps(job, room, job.tileBytes(), [&](char *to, bool second, int step, const Place &at, Barrier *there) {
			const TileMap *const map = second ? job.b2 : job.b;
			const int k = step * (BITS == 16 ? 64 : 32);
			tileLoad(to, map, at.column, k, there);
			if (GATED) tileLoad(to + job.tileBytes() / 2, map, n + at.column, k, there);
		});
	}
	waitForPrerequisites();
	if (warp == WARPS + 1 && threadIdx.x % 32 == 0) {
		const int bytes = HALVES * ((m + 7) / 8 * 8) * 128;
		copySteps(job, room, bytes, [&](char *to, bool second, int step, const Place &, Barrier *there) {
			for (int half = 0; half < HALVES; half++)
				tileLoad(to + job.tileBytes() + half * job.block(), second ? job.a2 : job.a, 0, (step * HALVES + half) * 64, there);
		});
	}
	if (warp < all) multiplyTiles(job, room, warp);
}
