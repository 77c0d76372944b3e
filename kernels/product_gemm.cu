// A product of matrices on tensor cores, of any sizes and layouts. product.go describes it, and chooses:
//
//   F16                  if it is defined, operands are F16, otherwise BF16
//   TRANS_A, TRANS_B     1: the operand is stored transposed
//   ALIGNED              1: eight adjacent elements of a and of b are 16 aligned bytes
//   C_WIDTH              elements of c stored at once: 4, or 1 if that many are not aligned
//   TILE_M, TILE_N       rows and columns of c per thread block
//   DEPTH                of a step along k
//   STAGES               steps in shared memory at a time: one is multiplied, the others are on their way
//   ACT                  if it is defined: the activation that follows, numbered as in package cpu
//   SCALED               1: sums are multiplied by alpha, which is 1 otherwise
//   GROUPED              if it is defined: the products are experts' products, see group.cuh
//   PAIR                 1: c gets the product of a second pair of operands too, in the last part of k
#include "mma.cuh"
#include "group.cuh"
#ifndef PAIR
#define PAIR 0
#endif
#ifdef ACT
#include "activation.cuh"

inline float activated(float x) { return ACT < 3 ? geluOf(x, ACT == 2) : x * sigmoid(x); }
#endif

// rows of tiles of thread blocks that run at the same time, so that they share what they read through the cache
constexpr int GROUP = 16;
constexpr int WARP_M = TILE_M < 128 ? 32 : 64, WARPS_M = TILE_M / WARP_M;
constexpr int WARPS_N = BLOCK_DIM / 32 / WARPS_M, WARP_N = TILE_N / WARPS_N;
constexpr int BLOCKS_M = WARP_M / 16, BLOCKS_N = WARP_N / 8; // of a warp's products
static_assert(
	WARPS_M * WARP_M == TILE_M && WARPS_M * WARPS_N * 32 == BLOCK_DIM && WARPS_N * WARP_N == TILE_N && WARP_N % 16 == 0,
	"");

// copy copies eight or fewer elements, and pads them with zeros.
inline void copy(char *to, const Half *from, int count) {
	if (ALIGNED) return copyAsync(to, from, count > 0);
	Vec<Half, 8> v;
#pragma unroll
	for (int i = 0; i < 8; i++) {
		if (i < count) v.at[i] = from[i];
	}
	*(uint4 *)to = v.words[0];
}

// powerOfTwo returns the largest power of two up to n.
constexpr int powerOfTwo(int n) { return n < 2 ? n : 2 * powerOfTwo(n / 2); }

// A Panel is the part of an operand that a step needs: OUTER rows of a, or columns of b, by DEPTH along k. In shared
// memory it has the operand's layout, rows of OUTER, or of DEPTH if ALONG, in words of eight elements. The order of
// words differs from row to row, so that the same word of eight rows, from which a matrix is loaded at once, is in
// different banks.
template <int OUTER, bool ALONG> struct Panel {
	static constexpr int WORDS = (ALONG ? DEPTH : OUTER) / 8, ROWS = ALONG ? OUTER : DEPTH, BYTES = ROWS * WORDS * 16;
	static constexpr int AT_ONCE = powerOfTwo(BLOCK_DIM / WORDS); // rows, one word per thread
	static_assert((WORDS == 4 || WORDS % 8 == 0) && ROWS % AT_ONCE == 0 && AT_ONCE % 8 == 0, "");

	static int order(int row) { return WORDS == 4 ? row % 8 / 2 : row % 8; }

	const Half *from; // what this thread copies next, in the first row
	long long stride;
	int to, row, rows, column, columns;

	Panel(const Half *x, long long stride, int outer, int outers, int end) : stride(stride) {
		const int i = threadIdx.x / WORDS, j = threadIdx.x % WORDS;
		to = (i * WORDS + (j ^ order(i))) * 16;
		row = (ALONG ? outer : 0) + i, column = (ALONG ? 0 : outer) + j * 8;
		rows = ALONG ? outers : end, columns = ALONG ? end : outers;
		from = x + row * stride + column;
	}

	// load starts copying the next panel, with zeros beyond the end of the operand.
	void load(char *panel) {
		if (AT_ONCE * WORDS == BLOCK_DIM || threadIdx.x < AT_ONCE * WORDS) {
#pragma unroll
			for (int n = 0; n < ROWS / AT_ONCE; n++) {
				const int at = n * AT_ONCE;
				copy(panel + to + at * WORDS * 16, from + at * stride, row + at < rows ? columns - column : 0);
			}
		}
		if (ALONG) from += DEPTH, column += DEPTH;
		else from += DEPTH * stride, row += DEPTH;
	}
};

// Fragments are what a warp multiplies of a panel: COUNT times 16 of its outer size by 16 along k. A lane passes a row
// of each matrix to load. The words of a are ordered as mma needs them; the words of b, so that each two adjacent words
// are one operand of it.
template <typename Panel, bool ALONG, int COUNT, bool IS_A> struct Fragments {
	// where the lane's rows start: for every 16 along k, or for every 16 of the outer size
	int at[ALONG ? DEPTH / 16 : COUNT];

	Fragments(int outer) {
		const int i = threadIdx.x % 8, one = threadIdx.x / 8 % 2, other = threadIdx.x / 16 % 2;
		const int beside = IS_A ? one : other, behind = IS_A ? other : one; // along the outer size, and along k
#pragma unroll
		for (int n = 0; n < sizeof(at) / sizeof(*at); n++) {
			const int row = ALONG ? outer + 8 * beside : 8 * behind, word = ALONG ? 2 * n + behind : outer / 8 + 2 * n + beside;
			at[n] = ((row + i) * Panel::WORDS + (word ^ Panel::order(i))) * 16;
		}
	}

	// load loads the fragments of step k of 16 along k.
	void load(unsigned (&r)[COUNT][4], const char *panel, int k) const {
#pragma unroll
		for (int n = 0; n < COUNT; n++) {
			if (ALONG) ldmatrix(r[n], panel + 16 * n * Panel::WORDS * 16 + at[k]);
			else ldmatrixTransposed(r[n], panel + 16 * k * Panel::WORDS * 16 + at[n]);
		}
	}
};

typedef Panel<TILE_M, !TRANS_A> Left;
typedef Panel<TILE_N, TRANS_B> Right;

// loadTwo reads two elements of c, or as many of them as are left in its row.
inline Vec<C, 2> loadTwo(const C *from, int left) {
	Vec<C, 2> v;
	if constexpr (C_WIDTH == 4) {
		if (left > 0) v = loadCachedOf<2>(from, 0);
	} else {
		if (left > 0) v.at[0] = from[0];
		if (left > 1) v.at[1] = from[1];
	}
	return v;
}

// storeFour stores four elements of c, or as many of them as are left in its row.
inline void storeFour(C *to, int left, const float (&sums)[4]) {
	Vec<C, 4> v;
	narrow(v.at, sums);
	if constexpr (C_WIDTH == 4) {
		if (left > 0) *(typename Vec<C, 4>::Word *)to = v.words[0];
	} else {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			if (i < left) to[i] = v.at[i];
		}
	}
}

// A thread block has a tile of a product of a batch: along y and z, operands are a constant number of elements apart.
// Parts of k are a batch, the last of which may be shorter; if part is 0, k is not divided.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) gemm(C *c, long long cRow, const Half *a, long long aRow,
	const Half *b, long long bRow, const Half *bias, C *pre, float alpha, int m, int n, int depth, int part, int add,
	long long outerA,
	long long outerB, long long outerC, long long innerA, long long innerB, long long innerC,
	const int *offsets, const Half *a2, long long a2Row, const Half *b2, long long b2Row, int depth2) {
	waitForPrerequisites();
	extern __shared__ uint4 memory[];
	char *const stages = (char *)memory;
	constexpr int STAGE = Left::BYTES + Right::BYTES;

	const int down = (m + TILE_M - 1) / TILE_M, across = (n + TILE_N - 1) / TILE_N;
	const int group = GROUP * across, number = blockIdx.x % group;
	const int first = blockIdx.x / group * GROUP, rows = min(down - first, GROUP);
	const int row = (first + number % rows) * TILE_M, column = number / rows * TILE_N;
	FIND_GROUP
	const int end = part ? min(depth - (int)blockIdx.y * part, part) : depth;
	const int paired = PAIR && blockIdx.y == gridDim.y - 1 ? (depth2 + DEPTH - 1) / DEPTH : 0; // steps after the others
	const int steps = (end + DEPTH - 1) / DEPTH + paired;
	const int warp = threadIdx.x / 32, warpRow = warp / WARPS_N * WARP_M, warpColumn = warp % WARPS_N * WARP_N;

	a += blockIdx.z * outerA + blockIdx.y * innerA, b += blockIdx.z * outerB + blockIdx.y * innerB,
		c += blockIdx.z * outerC + blockIdx.y * innerC;
	Left as(a, aRow, row, m, end);
	Right bs(b, bRow, column, n, end);
	int unloaded = steps, free = 0; // steps to load, and the stage for the next one
	auto load = [&] {
		if (PAIR && unloaded == paired) as = Left(a2, a2Row, row, m, depth2), bs = Right(b2, b2Row, column, n, depth2);
		if (unloaded-- > 0) {
			as.load(stages + free);
			bs.load(stages + free + Left::BYTES);
		}
		copyCommit();
		free = free == (STAGES - 1) * STAGE ? 0 : free + STAGE;
	};
	const Fragments<Left, !TRANS_A, BLOCKS_M, true> rowsOf(warpRow);
	const Fragments<Right, TRANS_B, BLOCKS_N / 2, false> columnsOf(warpColumn);
	unsigned left[2][BLOCKS_M][4], right[2][BLOCKS_N / 2][4]; // of this step of 16 and of the next
	auto fragments = [&](int to, int from, int k) {
		rowsOf.load(left[to], stages + from, k);
		columnsOf.load(right[to], stages + from + Left::BYTES, k);
	};

#pragma unroll
	for (int i = 0; i < STAGES - 1; i++) load();

	// Sums start with the bias and c: these are read while the first steps are on their way.
	const int lane = threadIdx.x % 32, top = row + warpRow + lane / 4, edge = column + warpColumn;
	const float inverse = SCALED ? 1 / alpha : 1, factor = SCALED ? alpha : 1;
	float sums[BLOCKS_M][BLOCKS_N][4] = {};
	if (bias || add) {
#pragma unroll
		for (int i = 0; i < 2 * BLOCKS_M; i++) {
#pragma unroll
			for (int j = 0; j < BLOCKS_N; j++) {
				const int r = top + 8 * i, s = edge + 8 * j + lane % 4 * 2;
				Vec<C, 2> was;
				if (add && r < m) was = loadTwo(c + r * cRow + s, n - s);
#pragma unroll
				for (int e = 0; e < 2; e++)
					sums[i / 2][j][i % 2 * 2 + e] = (was[e] + (bias && s + e < n ? value(bias[s + e]) : 0)) * inverse;
			}
		}
	}
	copyWait<STAGES - 2>();
	__syncthreads();
	if (steps > 0) fragments(0, 0, 0);
	int current = 0;
	for (int step = 0; step < steps; step++) {
#pragma unroll
		for (int k = 0; k < DEPTH / 16; k++) {
			if (k + 1 < DEPTH / 16) {
				fragments((k + 1) % 2, current, k + 1);
			} else {
				copyWait<STAGES - 2>();
				__syncthreads(); // the next stage is here, and all threads have read this one
				current = current == (STAGES - 1) * STAGE ? 0 : current + STAGE;
				if (step + 1 < steps) fragments(0, current, 0);
			}
			if (k == 0) load(); // into the stage of the previous step
#pragma unroll
			for (int i = 0; i < BLOCKS_M; i++) {
#pragma unroll
				for (int j = 0; j < BLOCKS_N; j++) {
					mma(sums[i][j], left[k % 2][i], {right[k % 2][j / 2][j % 2 * 2], right[k % 2][j / 2][j % 2 * 2 + 1]});
				}
			}
		}
	}

	// A lane has two adjacent elements of each of two tiles, and the next lane those next to them: they swap, so that each
	// has four elements of one.
	const bool odd = lane % 2;
	const int four = edge + odd * 8 + lane % 4 / 2 * 4;
#pragma unroll
	for (int i = 0; i < 2 * BLOCKS_M; i++) {
		C *const to = c + (top + 8 * i) * cRow + four;
#pragma unroll
		for (int j = 0; j < BLOCKS_N; j += 2) {
			float out[4];
#pragma unroll
			for (int e = 0; e < 2; e++) {
				const float one = sums[i / 2][j][i % 2 * 2 + e], other = sums[i / 2][j + 1][i % 2 * 2 + e];
				const float got = __shfl_xor_sync(~0u, odd ? one : other, 1);
				out[e] = factor * (odd ? got : one);
				out[2 + e] = factor * (odd ? other : got);
			}
			if (top + 8 * i >= m) continue;
#ifdef ACT
			if (pre) storeFour(pre + (long long)(top + 8 * i) * n + four + 8 * j, n - four - 8 * j, out);
#pragma unroll
			for (float &x : out) x = activated(x);
#endif
			storeFour(to + 8 * j, n - four - 8 * j, out);
		}
	}
}
