// A product of matrices on the tensor cores of sm_90, c = a·b, and what follows it. One warpgroup copies tiles of a
// and b to shared memory, far ahead of two others, which multiply them. If b is quantized, it copies codes, and two
// more compute their values. product_wgmma.go chooses:
//
//   F16        if it is defined, operands are F16, otherwise BF16
//   TRANS_A, TRANS_B   1: the operand is stored transposed
//   TILE_N     columns of the product per tile, which has 128 rows
//   STAGES     steps of 64 along k in shared memory at a time
//   TURNS      1: the two take tiles in turns, so that one finishes its tile while the other multiplies; 0: each
//              computes half of the rows of a tile
//   GATED      1: half of a tile's columns are gates, the others what they gate, and c is SwiGLU of them
//   ACT        otherwise: the activation that follows, or 0, numbered as in package cpu
//   GRADIENT   if it is defined, the gradient of ACT follows instead
//   BITS       if b is quantized, and transposed: bits per code; with ZEROS, and
//   PIECES     pieces of codes in shared memory at a time, each of 64 bytes per row of b in the tile
//   INT8       if it is defined, pairs of codes of 8 bits are the elements of both operands, see wgmma.cuh
//   GROUPED    if it is defined, rows of a and c are those of one expert after the other, and each has its own b
#include "wgmma.cuh"
#include "activation.cuh"
#ifdef BITS
#include "quantized.cuh"
#else
#define BITS 0
#define PIECES 1
#endif
#ifndef GROUPED
#define GROUPED 0
#endif
#if INT8
// rowOf returns the number of bytes of a row of b, with its scale.
inline long long rowOf(int depth) { return 16 + 2 * depth; }
#endif

constexpr int TILE_M = 128, DEPTH = 64;
constexpr int BLOCK = DEPTH * 128; // bytes of a copy of 64 columns, of an operand whose rows are along k
#ifdef C_F32
constexpr bool DIRECT = true; // results are written from registers
#else
constexpr bool DIRECT = false;
#endif
constexpr int HALVES = TURNS ? 2 : 1; // 64 rows each, of those that a warpgroup computes
constexpr int A_BYTES = TILE_M * DEPTH * 2, B_BYTES = TILE_N * DEPTH * 2, STAGE = A_BYTES + B_BYTES;
constexpr int COLUMNS = GATED ? TILE_N / 2 : TILE_N; // of c per tile
constexpr int OUT_N = COLUMNS % 64 ? 32 : 64;        // of these, stored at once
constexpr int OUT_BYTES = 64 * OUT_N * 2;            // of what is stored at once
constexpr int BUFFERS = COLUMNS > OUT_N ? COLUMNS / OUT_N : 2; // for that, of each of the two
// rows of tiles of thread blocks that run at the same time, so that they share what they read through the cache
constexpr int BAND = 8;
constexpr int CONVERTERS = BITS ? 2 : 0; // warpgroups, which take pieces in turns
constexpr int PIECE = BITS ? TILE_N * 64 : 0, PIECE_STEPS = BITS == 8 ? 1 : 2;
static_assert(BLOCK_DIM == (3 + CONVERTERS) * 128 && COLUMNS % OUT_N == 0, "");
static_assert(TRANS_B || TILE_N % 64 == 0 && !GATED && !BITS, "");
static_assert(!INT8 || TRANS_B && !TRANS_A && !BITS, "");
static_assert(!GROUPED || TRANS_B && !TRANS_A && !INT8 && !BITS, "");
static_assert(A_BYTES % 1024 == 0 && B_BYTES % 2048 == 0 && PIECE % 1024 == 0, "");

inline float roughSigmoid(float x) { return reciprocal(1 + exp2Rough(-1.442695041f * x)); }

// activated applies ACT, or SiLU to a gate.
inline float activated(float x) {
#ifdef ACT
	if (ACT == 0) return x;
	if (ACT < 3) return geluOf(x, ACT == 2);
#endif
	return x * roughSigmoid(x);
}

// Tiles are those of c, in each of the parts that k is divided into: of so many steps, or fewer in the last one. With
// GROUPED, they are those of one expert at a time: of rows from begin to end, after the tiles of all experts before it.
struct Tiles {
	int down, across, steps, partSteps;
	int expert = 0, begin = 0, end, before = 0;
#if GROUPED
	const int *const offsets, experts;
#endif

	Tiles(int m, int n, int depth, int partSteps, const int *offsets, int experts)
		: down((m + TILE_M - 1) / TILE_M), across((n + COLUMNS - 1) / COLUMNS), steps((depth + DEPTH - 1) / DEPTH),
		  partSteps(partSteps), end(m)
#if GROUPED
		  , offsets(offsets), experts(experts)
#endif
	{
		if (BITS) steps = (steps + PIECE_STEPS - 1) / PIECE_STEPS * PIECE_STEPS; // beyond depth, a is 0
#if GROUPED
		begin = offsets[0];
		take(offsets[1]);
#endif
	}
	int count() const { return down * across * (GROUPED ? 1 : (steps + partSteps - 1) / partSteps); }
	// has reports whether there is a tile of that number. With GROUPED, its expert is found: numbers must ascend.
	bool has(int tile) {
#if GROUPED
		while (tile >= before + count() && expert < experts - 1) {
			before += count(), begin = end, expert++;
			take(offsets[expert + 1]);
		}
#endif
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
		const int band = BAND * all.across, first = tile / band * BAND, rows = min(all.down - first, BAND);
		const int number = tile % band;
		row = all.begin + (first + number % rows) * TILE_M, column = number / rows * COLUMNS;
		this->rows = min(TILE_M, all.end - row);
	}
};

// A Ring counts steps, or pieces: the stage of the next one, and the parity of that stage's phase.
template <int N> struct Ring {
	int stage = 0, parity = 0;
	void skip(int steps) {
		stage += steps;
		parity ^= stage / N & 1;
		stage %= N;
	}
	void next() {
		if (++stage == N) stage = 0, parity ^= 1;
	}
};

// Halves is how many of its HALVES a warpgroup multiplies. With GROUPED, the last 64 rows of a tile may be those of the
// next expert: nothing multiplies them.
template <int N> struct Halves {
	static constexpr int count = N;
};

// first reports whether this is the first thread of its warpgroup.
inline bool first() { return threadIdx.x % 128 == 0; }

// A Result is a matrix to which results go.
struct Result {
	const TileMap *map;
	Half *at;
	long long stride;
	int columns;
};

// An Output writes results of a warpgroup, 64 rows and OUT_N columns at a time, through buffers in turns. With GROUPED,
// it may have fewer rows, of an expert: those of the next one follow.
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

// A Bias is that of a thread's columns, or 0. It is loaded before the product, so that nothing waits for it.
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

// Scales are those of a thread's columns if b has codes of 8 bits: a row of b has one, so it follows the product. They
// are loaded while the last steps are multiplied. multiply returns the products of the sums of a half, which may be in
// sums or in y. If a has codes too, there are the scales of the thread's rows, and lane i has those of columns 2i and
// 2i + 1 of each 64, as registers are too few for all that it needs.
struct Scales {
#if BITS == 8
	float at[TILE_N / 4];

	Scales(const unsigned char *w, const float *, int, int column, int, int n, int depth) {
#pragma unroll
		for (int i = 0; i < TILE_N / 4; i++)
			at[i] = *(const float *)(w + rowOfB(column, threadIdx.x % 4 * 2 + i / 2 * 8 + i % 2, n) * rowOf(depth));
	}
	float (&multiply(float (&sums)[TILE_N / 2], float (&)[TILE_N / 2], int) const)[TILE_N / 2] {
#pragma unroll
		for (int i = 0; i < TILE_N / 2; i++) sums[i] *= at[i / 4 * 2 + i % 2];
		return sums;
	}
#elif INT8
	static constexpr int EACH = (TILE_N + 63) / 64 * 2;
	float rows[2 * HALVES], columns[EACH];

	Scales(const unsigned char *w, const float *x, int row, int column, int m, int n, int depth) {
		const int lane = threadIdx.x % 32;
		row += threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
		for (int i = 0; i < 2 * HALVES; i++) rows[i] = x[min(row + i / 2 * 64 + i % 2 * 8, m - 1)];
#pragma unroll
		for (int i = 0; i < EACH; i++)
			columns[i] = *(const float *)(w + rowOfB(column, i / 2 * 64 + 2 * lane + i % 2, n) * rowOf(depth));
	}
	float (&multiply(int (&sums)[TILE_N / 2], float (&y)[TILE_N / 2], int half) const)[TILE_N / 2] {
#pragma unroll
		for (int i = 0; i < TILE_N / 2; i++) {
			const float column = __shfl_sync(~0u, columns[i / 32 * 2 + i % 2], i / 4 % 8 * 4 + threadIdx.x % 4);
			y[i] = sums[i] * (rows[2 * half + i / 2 % 2] * column);
		}
		return y;
	}
#else
	Scales(const unsigned char *, const float *, int, int, int, int, int) {}
	float (&multiply(float (&sums)[TILE_N / 2], float (&)[TILE_N / 2], int) const)[TILE_N / 2] { return sums; }
#endif
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

#if BITS
// A Converter is a thread of the warpgroup that computes values of b from codes, in each step those of eight codes of
// some rows of a tile. 4-bit codes are multiplied by their scales, and the products rounded. 8-bit codes are exact.
struct Converter {
	static constexpr int ROWS = TILE_N / 16;
	const unsigned char *const w;
	const int depth, n;
	const int lane = threadIdx.x % 128;
	int column = 0;
	// 4 bits: the parts of the rows' scales, of eight bits and of the others, twice; and the zero points of the codes
	unsigned high[ROWS], low[ROWS], minus[ROWS];
	f16 scale[ROWS]; // of the next group
	unsigned char zero[ROWS];
	unsigned codes[ROWS][2];

	Converter(const unsigned char *w, int depth, int n) : w(w), depth(depth), n(n) {}

	// fetch starts loading the scales of a group, if it is there, and take makes them those of the codes.
	void fetch(int group) {
		if constexpr (BITS == 8) return;
		if (group >= groupsOf(depth)) return;
#pragma unroll
		for (int i = 0; i < ROWS; i++) {
			const unsigned char *const head = w + rowOfB(column, lane / 8 + 16 * i, n) * rowOf(depth);
			scale[i] = ((const f16 *)head)[group];
			zero[i] = ZEROS ? head[padded(2 * groupsOf(depth)) + group] : 8;
		}
	}
	void take() {
#pragma unroll
		for (int i = 0; i < ROWS; i++) {
			const unsigned bits = __float_as_uint(value(scale[i]));
			const float rest = value(scale[i]) - __uint_as_float(bits & 0xFFFF0000);
			high[i] = permute(bits, 0, 0x3232), low[i] = permute(__float_as_uint(rest), 0, 0x3232);
			minus[i] = minusZero(zero[i]);
		}
	}
	// pair returns the values of two codes of row i of its rows, which x has at the lower ends of both halves, with 0x43
	// above: the bits of 128 + a code of 4 bits, or of the low seven of a signed code of 8 bits. Those of the highest bit
	// are then 128, or 256 if it is set. pair4 and pair8 do so without the 0x43, for codes that stay two bytes apart.
	unsigned pair(unsigned x, int i) const {
		if (BITS == 8) return addPairs(x & 0xFF80FF80, 0xBF80BF80, x & 0xFF7FFF7F);
		const unsigned code = addPairs(x & 0xFF0FFF0F, 0x3F803F80, minus[i]);
		return addPairs(code, high[i], addPairs(code, low[i], 0));
	}
	// read reads the codes of a step, and write writes their values. half: which bits they are, the low or the high ones
	void read(const char *piece) {
#pragma unroll
		for (int i = 0; i < ROWS; i++) tileRead(codes[i], piece + swizzled(lane * 8, 64) + 16 * 64 * i);
	}
	void write(char *to, int half) const {
#pragma unroll
		for (int i = 0; i < ROWS; i++) {
			unsigned pairs[4];
#pragma unroll
			for (int j = 0; j < 4; j++) {
				const unsigned four = codes[i][j / 2] >> (BITS == 4 ? 4 * half : 0);
				pairs[j] = pair(permute(four, 0x43434343, j % 2 ? 0x4342 : 0x4140), i);
			}
			tileWrite(to + swizzled(lane * 16, 128) + 16 * 128 * i, pairs);
		}
		tileFence();
	}
};
#endif

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

#ifdef GRADIENT
// Inputs are what the activation got whose gradient follows. With SwiGLU, they are gates, and n columns on are ups.
struct Inputs {
	static constexpr int SWIGLU = 4, PAIRS = OUT_N / 4;
	const Half *const at;
	const long long stride;
	const int m, n;

	// pair returns pair i of this thread's of 64 rows and OUT_N columns, which start at a row and a column.
	Vec<Half, 2> pair(int row, int column, int i, int right) const {
		const int r = row + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + i % 2 * 8;
		const int s = column + threadIdx.x % 4 * 2 + i / 2 * 8; // n is even
		return r < m && s < n ? loadCachedOf<2>(at + r * stride + right + s, 0) : Vec<Half, 2>{};
	}
	// fetch starts to bring those of some rows of a tile into the L2 cache, before the product, so that none waits long.
	void fetch(int row, int rows, int column) const {
		constexpr int LINES = COLUMNS / 64;
		for (int i = threadIdx.x % 128; i < rows * LINES; i += 128) {
			const int r = row + i / LINES, s = column + i % LINES * 64;
			if (r >= m || s >= n) continue;
			prefetchLine(at + r * stride + s);
			if (ACT == SWIGLU) prefetchLine(at + r * stride + n + s);
		}
	}
	// write writes the sums of 64 rows times the derivative of ACT to c or, with SwiGLU, the gradients of gates to c and
	// those of ups to other.
	void write(Output &out, const float (&sums)[TILE_N / 2], const Result &c, const Result &other, int row, int column)
		const {
#pragma unroll
		for (int part = 0; part < COLUMNS; part += OUT_N) {
			if (column + part >= n) continue;
			Vec<Half, 2> x[PAIRS], up[PAIRS];
			unsigned dx[PAIRS], dup[PAIRS];
#pragma unroll
			for (int i = 0; i < PAIRS; i++) {
				x[i] = pair(row, column + part, i, 0);
				if (ACT == SWIGLU) up[i] = pair(row, column + part, i, n);
			}
#pragma unroll
			for (int i = 0; i < PAIRS; i++) {
				float d[2], u[2];
#pragma unroll
				for (int e = 0; e < 2; e++) {
					const float dy = sums[part / 2 + 2 * i + e], at = x[i][e];
					if (ACT < 3) d[e] = dy * geluSlope(at, ACT == 2);
					if (ACT < 3) continue;
					const float s = roughSigmoid(at);
					d[e] = dy * siluSlope(at, s);
					if (ACT == SWIGLU) d[e] *= up[i][e], u[e] = dy * at * s;
				}
				dx[i] = pack(d[0], d[1]);
				if (ACT == SWIGLU) dup[i] = pack(u[0], u[1]);
			}
			out.put(c, row, column + part, [&](int j, int i) { return dx[4 * j + i]; });
			if (ACT == SWIGLU) out.put(other, row, column + part, [&](int j, int i) { return dup[4 * j + i]; });
		}
	}
};
#endif

// a is [m, depth], b [depth, n] and c [m, n]. If GATED, b is [depth, 2n], the gates first. If b is quantized, it maps
// the codes of w. If keep is set, pre gets the product before what follows it, [m, n] or [m, 2n]. If add is set, the
// product is added to c. If parts is not 0, it gets the products of each partSteps steps, [m, n] each. With INT8,
// these are sums of codes, whole numbers; w are the rows of b with their scales, and scales those of rows of a. With
// GRADIENT, other is what the activation got, [m, n] or with SwiGLU [m, 2n], and then pre gets the gradient of ups,
// [m, n]. With GROUPED, b has the rows of one expert after the other, those of a are from offsets[expert] to
// offsets[expert + 1], and other is where pre is.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM, 1) product_wgmma(const __grid_constant__ TileMap a,
	const __grid_constant__ TileMap b, const __grid_constant__ TileMap cMap, const __grid_constant__ TileMap pre,
	C *c, long long cRow, const Half *bias, const unsigned char *w, float *parts, int m, int n, int depth, int partSteps,
	int keep, int add, const float *scales, Half *other, long long otherRow, const int *offsets, int experts) {
	extern __shared__ uint4 memory[];
	char *const stages = (char *)memory + (1024 - (size_t)shared(memory) % 1024) % 1024;
	char *const pieces = stages + STAGES * STAGE, *const outputs = pieces + PIECES * PIECE;
	// full: a stage is there; empty: it has been multiplied; turns: a warpgroup may multiply; come: a piece is there;
	// gone: it has been converted
	Barrier *const full = (Barrier *)(outputs + 2 * BUFFERS * OUT_BYTES), *const empty = full + STAGES;
	Barrier *const turns = empty + STAGES, *const come = turns + 2, *const gone = come + PIECES;
	if (threadIdx.x == 0) {
		prefetchMap(&a), prefetchMap(&b);
		if (!DIRECT) prefetchMap(&cMap), prefetchMap(&pre);
#pragma unroll
		for (int i = 0; i < STAGES; i++) { // full: the thread that copies, and the warps of a converting warpgroup
			barrierInit(full + i, BITS ? 1 + 4 : 1), barrierInit(empty + i, TURNS ? 1 : 2);
		}
		barrierInit(turns, 1), barrierInit(turns + 1, 1);
#pragma unroll
		for (int i = 0; BITS && i < PIECES; i++) barrierInit(come + i, 1), barrierInit(gone + i, 4);
		barrierFence();
	}
	__syncthreads();
	waitForPrerequisites();

	Tiles all(m, n, depth, partSteps, offsets, experts);
	const int group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0); // the compiler must see that it is the warp's
	Ring<STAGES> ring;
	Ring<PIECES> piece;
	if (group == 2 + CONVERTERS) {
		giveRegisters<BITS ? 32 : 40>();
		// Two threads copy, so that codes do not wait for room for a. Of fewer rows of a, a tile is only these: beyond the
		// matrix, a copy is slow.
		const bool copiesA = threadIdx.x % 128 == 0, copiesB = BITS ? threadIdx.x % 128 == 32 : copiesA;
		// With GROUPED, it is copied as two halves, or one if the expert has no further rows.
		constexpr int ROWS = GROUPED ? TILE_M / 2 : TILE_M;
		const int aBytes = TRANS_A ? A_BYTES : min(ROWS, (m + 7) / 8 * 8) * DEPTH * 2;
		for (int tile = blockIdx.x; (copiesA || copiesB) && all.has(tile); tile += gridDim.x) {
			const Place at(tile, all, n);
			const bool two = GROUPED && at.rows > ROWS;
			auto loadB = [&](char *to, int bytes, int k, Barrier *there) {
#pragma unroll
				for (int i = 0; !TRANS_B && i < TILE_N / 64; i++) tileLoad(to + i * BLOCK, &b, k, at.column + i * 64, there);
				if (TRANS_B) tileLoad(to, &b, at.b + at.column, k, there);
				if (GATED) tileLoad(to + bytes / 2, &b, at.b + n + at.column, k, there);
			};
			for (int step = 0; copiesA && step < at.steps; step++, ring.next()) {
				char *const to = stages + ring.stage * STAGE;
				Barrier *const there = full + ring.stage;
				barrierWait(empty + ring.stage, ring.parity ^ 1);
				barrierExpect(there, (two ? 2 : 1) * aBytes + (BITS ? 0 : B_BYTES));
				const int k = (at.begin + step) * DEPTH;
#pragma unroll
				for (int i = 0; TRANS_A && i < TILE_M / 64; i++) tileLoad(to + i * BLOCK, &a, k, at.row + i * 64, there);
				if (!TRANS_A) tileLoad(to, &a, at.row, k, there);
				if (two) tileLoad(to + A_BYTES / 2, &a, at.row + ROWS, k, there);
				if (!BITS) loadB(to + A_BYTES, B_BYTES, k, there);
			}
			for (int step = 0; BITS && copiesB && step < at.steps; step += PIECE_STEPS, piece.next()) {
				Barrier *const there = come + piece.stage;
				barrierWait(gone + piece.stage, piece.parity ^ 1);
				barrierExpect(there, PIECE);
				loadB(pieces + piece.stage * PIECE, PIECE, (at.begin + step) / PIECE_STEPS * 32, there);
			}
		}
		return;
	}
#if BITS
	if (group >= 2) {
		giveRegisters<88>();
		Converter converter(w, depth, n);
		int next = group - 2; // piece: each of the two has every second one
		ring.skip(next * PIECE_STEPS), piece.skip(next);
		for (int tile = blockIdx.x; all.has(tile); tile += gridDim.x) {
			const Place at(tile, all, n);
			const int end = at.steps / PIECE_STEPS, begin = at.begin / PIECE_STEPS;
			converter.column = at.column;
			converter.fetch(begin + next);
			for (; next < end; next += 2, piece.skip(2)) {
				if (BITS == 4) converter.take();
				converter.fetch(begin + next + 2);
				barrierWait(come + piece.stage, piece.parity);
				converter.read(pieces + piece.stage * PIECE);
#pragma unroll
				for (int half = 0; half < PIECE_STEPS; half++, ring.next()) {
					barrierWait(empty + ring.stage, ring.parity ^ 1);
					converter.write(stages + ring.stage * STAGE + A_BYTES, half);
					__syncwarp();
					if (threadIdx.x % 32 == 0) barrierArrive(full + ring.stage);
				}
				if (threadIdx.x % 32 == 0) barrierArrive(gone + piece.stage);
				ring.skip(PIECE_STEPS);
			}
			next -= end;
		}
		return;
	}
#endif

	takeRegisters<BITS ? 136 : 232>();
	Output out(outputs + group * BUFFERS * OUT_BYTES, 1 + group);
	const int skipped = TURNS ? all.steps : 0; // the steps of the other one's tile
	if (group == 1) ring.skip(skipped);
	int turn = 1 - group; // its parity
	const Result result{&cMap, (Half *)c, cRow, n}, kept{&pre, other, otherRow, GATED ? 2 * n : n};
	for (int tile = blockIdx.x + (TURNS ? group * gridDim.x : 0); all.has(tile); tile += (TURNS ? 2 : 1) * gridDim.x) {
		const Place at(tile, all, n);
		const int live = GROUPED ? __shfl_sync(~0u, at.rows, 0) : TILE_M; // the compiler must see that it is the warp's
#ifdef GRADIENT
		const Inputs got{other, otherRow, m, n};
		got.fetch(at.row + (TURNS ? 0 : 64 * group), TURNS ? TILE_M : 64, at.column);
#else
		const Bias biases(bias, at.column, n);
#endif
		Sum sums[HALVES][TILE_N / 2];
		// A thread may wait for a phase only after the one before the last has ended, so not earlier than its turn.
		if (TURNS) barrierWait(turns + group, turn), turn ^= 1;
		int before = 0; // the stage of the step before
		auto multiply = [&](auto halves) {
			for (int step = 0; step < at.steps; step++, ring.next()) {
				const char *const left = stages + ring.stage * STAGE + (TURNS ? 0 : group * 64 * DEPTH * 2);
				const char *const right = stages + ring.stage * STAGE + A_BYTES;
				barrierWait(full + ring.stage, ring.parity);
				groupFence();
#pragma unroll
				for (int k = 0; k < DEPTH / 16; k++) {
#pragma unroll
					for (int h = 0; h < halves.count; h++)
						groupMultiply(sums[h], left + h * 64 * DEPTH * 2 + groupStep(TRANS_A) * k, right + groupStep(!TRANS_B) * k,
							step + k > 0);
				}
				groupCommit();
				groupWait<1>();
				if (step > 0 && first()) barrierArrive(empty + before);
				before = ring.stage;
			}
		};
		if (!GROUPED || live > 64 * (TURNS ? 1 : group)) multiply(Halves<HALVES>());
		else multiply(Halves<HALVES - 1>());
		if (TURNS && first()) barrierArrive(turns + 1 - group);
		const Scales factors(w, scales, at.row + (TURNS ? 0 : 64 * group), at.column, m, n, depth);
		groupWait<0>();
		if (first()) barrierArrive(empty + before);
		ring.skip(skipped);

#pragma unroll
		for (int h = 0; h < HALVES; h++) {
			const int row = at.row + 64 * (TURNS ? h : group), end = all.end;
			if (GROUPED && row >= end) continue;
			if (GROUPED) out.rows = min(64, end - row);
#ifdef GRADIENT
			got.write(out, sums[h], result, kept, row, at.column);
#else
			auto putPart = [&](auto *to, auto &values) {
				eachPair(end, n, row, at.column, [&](int i, int r, int s) {
					putPair(to + ((long long)at.part * m + r) * n + s, values, i);
				});
			};
			if (INT8 && parts) {
				putPart((Sum *)parts, sums[h]);
				continue;
			}
			float room[TILE_N / 2], (&y)[TILE_N / 2] = factors.multiply(sums[h], room, h);
			if (parts) {
				putPart(parts, y);
				continue;
			}
			biases.add(y);
			if (add) {
				eachPair(end, n, row, at.column, [&](int i, int r, int s) {
					const Vec<C, 2> old = loadCachedOf<2>(c + r * cRow + s, 0);
					y[i] += old[0], y[i + 1] += old[1];
				});
			}
			if constexpr (DIRECT)
				eachPair(end, n, row, at.column, [&](int i, int r, int s) { putPair(c + r * cRow + s, y, i); });
			else
				write(out, y, result, kept, row, at.column, n, keep);
#endif
		}
	}
	if (first()) tileWait<0>();
}
