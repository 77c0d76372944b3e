// A product of BF16 matrices on tensor cores, of any sizes and layouts. It is described in product.go, which chooses:
//
//   TRANS_A, TRANS_B     1: the operand lies in memory as its transpose
//   ALIGNED              1: eight elements next to each other in a, or in b, are 16 aligned bytes
//   C_WIDTH              elements of c that are stored at once: 4, or 1 where that many are not aligned
//   TILE_M, TILE_N       rows and columns of c that a block has
//   DEPTH                of a step along k
//   STAGES               steps that are in shared memory at a time: one is multiplied, the others are on their way
#include "common.cuh"
#include "mma.cuh"

constexpr int GROUP = 16; // rows of tiles that blocks at work together go through, so that they find in the cache what others read
constexpr int WARP_M = TILE_M < 128 ? 32 : 64, WARPS_M = TILE_M / WARP_M, WARPS_N = BLOCK / 32 / WARPS_M, WARP_N = TILE_N / WARPS_N;
constexpr int BLOCKS_M = WARP_M / 16, BLOCKS_N = WARP_N / 8; // of a warp's products
static_assert(WARPS_M * WARP_M == TILE_M && WARPS_M * WARPS_N * 32 == BLOCK && WARP_N * WARPS_N == TILE_N && WARP_N % 16 == 0, "");

// copy brings eight elements, from number at on, zeros from number end on.
inline void copy(bf16 *to, const bf16 *from, int at, int end) {
	if (ALIGNED) return copyAsync(to, from + at, at < end);
	Vec<bf16, 8> v;
#pragma unroll
	for (int i = 0; i < 8; i++) {
		if (at + i < end) v.at[i] = from[at + i];
	}
	*(uint4 *)to = v.words[0];
}

// A Panel is what a step needs of an operand: OUTER rows of a, or columns of b, by DEPTH along k. It lies in shared memory as
// the operand does in memory, rows of OUTER, or of DEPTH if ALONG.
template <int OUTER, bool ALONG> struct Panel {
	static constexpr int ROWS = ALONG ? OUTER : DEPTH, CHUNKS = (ALONG ? DEPTH : OUTER) / 8, SIZE = OUTER * DEPTH;
	static_assert((CHUNKS == 4 || CHUNKS % 8 == 0) && ROWS * CHUNKS % BLOCK == 0, "");

	// at is where the eight elements of number chunk of a row lie. Their order differs from row to row, so that the same of
	// eight rows, which a matrix is loaded from at once, lie in different banks.
	static int at(int row, int chunk) { return (row * CHUNKS + (chunk ^ (CHUNKS == 4 ? row / 2 % 4 : row % 8))) * 8; }

	// load begins to bring the panel that begins at [outer, k] of x, zeros beyond [outers, depth].
	static void load(bf16 *panel, const bf16 *x, long long stride, int outer, int outers, int k, int depth) {
		const int row = ALONG ? outer : k, rows = ALONG ? outers : depth, column = ALONG ? k : outer, columns = ALONG ? depth : outers;
#pragma unroll
		for (int n = 0; n < ROWS * CHUNKS / BLOCK; n++) {
			const int i = (n * BLOCK + threadIdx.x) / CHUNKS, j = (n * BLOCK + threadIdx.x) % CHUNKS;
			copy(panel + at(i, j), x + (row + i) * stride, column + 8 * j, row + i < rows ? columns : 0);
		}
	}

	// fragment loads 16 by 16 elements from [outer, k] on as mma wants a. Words 0 and 2, and 1 and 3, are two b's.
	static void fragment(unsigned (&r)[4], const bf16 *panel, int outer, int k) {
		const int row = threadIdx.x % 8, low = threadIdx.x / 8 % 2, high = threadIdx.x / 16 % 2;
		if (ALONG) ldmatrix(r, panel + at(outer + row + 8 * low, k / 8 + high));
		else ldmatrixTransposed(r, panel + at(k + row + 8 * high, outer / 8 + low));
	}
};

typedef Panel<TILE_M, !TRANS_A> Left;
typedef Panel<TILE_N, TRANS_B> Right;

// put stores four elements of a row of c from a column on, with the bias, and added to what is there.
inline void put(C *row, int column, int columns, const float (&sums)[4], const bf16 *bias, int add) {
#pragma unroll
	for (int i = 0; i < 4; i += C_WIDTH) {
		const int at = column + i;
		if (at >= columns) continue;
		Vec<C, C_WIDTH> v;
		if (add) v = fetchOf<C_WIDTH>(row + at, 0);
		float out[C_WIDTH];
#pragma unroll
		for (int j = 0; j < C_WIDTH; j++) out[j] = sums[i + j] + (bias ? value(bias[at + j]) : 0) + (add ? v[j] : 0);
		narrow(v.at, out);
		*(typename Vec<C, C_WIDTH>::Word *)(row + at) = v.words[0];
	}
}

// A block has a tile of c and part of k: parts of a sum lie [m, cRow] apart.
extern "C" __global__ void __launch_bounds__(BLOCK) gemm(C *c, long long cRow, const bf16 *a, long long aRow, const bf16 *b,
	long long bRow, const bf16 *bias, int m, int n, int depth, int part, int add) {
	extern __shared__ uint4 memory[];
	bf16 *const stages = (bf16 *)memory;
	constexpr int STAGE = Left::SIZE + Right::SIZE;

	const int down = (m + TILE_M - 1) / TILE_M, across = (n + TILE_N - 1) / TILE_N;
	const int first = blockIdx.x / (GROUP * across) * GROUP, rows = min(down - first, GROUP), number = blockIdx.x % (GROUP * across);
	const int row = (first + number % rows) * TILE_M, column = number / rows * TILE_N;
	const int begin = blockIdx.y * part, end = min(depth, begin + part), steps = (end - begin + DEPTH - 1) / DEPTH;
	const int warp = threadIdx.x / 32, warpRow = warp / WARPS_N * WARP_M, warpColumn = warp % WARPS_N * WARP_N;

	int loaded = 0, free = 0; // steps, and the stage that the next goes to
	auto load = [&] {
		if (loaded < steps) {
			bf16 *const stage = stages + free * STAGE;
			const int k = begin + loaded * DEPTH;
			Left::load(stage, a, aRow, row, m, k, end);
			Right::load(stage + Left::SIZE, b, bRow, column, n, k, end);
		}
		copyCommit();
		loaded++;
		free = free + 1 == STAGES ? 0 : free + 1;
	};
	unsigned left[2][BLOCKS_M][4], right[2][BLOCKS_N / 2][4]; // of this step of 16 and of the next
	auto fragments = [&](int to, int from, int k) {
		const bf16 *const stage = stages + from * STAGE;
#pragma unroll
		for (int i = 0; i < BLOCKS_M; i++) Left::fragment(left[to][i], stage, warpRow + 16 * i, k);
#pragma unroll
		for (int j = 0; j < BLOCKS_N / 2; j++) Right::fragment(right[to][j], stage + Left::SIZE, warpColumn + 16 * j, k);
	};

	float sums[BLOCKS_M][BLOCKS_N][4] = {};
#pragma unroll
	for (int i = 0; i < STAGES - 1; i++) load();
	copyWait<STAGES - 2>();
	__syncthreads();
	if (steps > 0) fragments(0, 0, 0);
	int current = 0;
	for (int step = 0; step < steps; step++) {
#pragma unroll
		for (int k = 0; k < DEPTH / 16; k++) {
			if (k + 1 < DEPTH / 16) {
				fragments((k + 1) % 2, current, (k + 1) * 16);
			} else {
				copyWait<STAGES - 2>();
				__syncthreads(); // the next stage is here, and this one read by all
				current = current + 1 == STAGES ? 0 : current + 1;
				if (step + 1 < steps) fragments(0, current, 0);
			}
			if (k == 0) load(); // to the stage of the step before
#pragma unroll
			for (int i = 0; i < BLOCKS_M; i++) {
#pragma unroll
				for (int j = 0; j < BLOCKS_N; j++) {
					mma(sums[i][j], left[k % 2][i], {right[k % 2][j / 2][j % 2], right[k % 2][j / 2][2 + j % 2]});
				}
			}
		}
	}

	c += (long long)blockIdx.y * m * cRow;
	// A lane has two neighbours of each of two blocks, and its neighbour those beside: they swap, so that each has four of one.
	const int lane = threadIdx.x % 32, odd = lane % 2;
#pragma unroll
	for (int i = 0; i < 2 * BLOCKS_M; i++) {
		const int r = row + warpRow + 8 * i + lane / 4;
#pragma unroll
		for (int j = 0; j < BLOCKS_N; j += 2) {
			float out[4];
#pragma unroll
			for (int e = 0; e < 2; e++) {
				const float one = sums[i / 2][j][i % 2 * 2 + e], other = sums[i / 2][j + 1][i % 2 * 2 + e];
				const float got = __shfl_xor_sync(~0u, odd ? one : other, 1);
				out[e] = odd ? got : one;
				out[2 + e] = odd ? other : got;
			}
			if (r < m) put(c + r * cRow, column + warpColumn + 8 * (j + odd) + lane % 4 / 2 * 4, n, out, bias, add);
		}
	}
}
