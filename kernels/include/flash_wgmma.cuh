// What the attention kernels by wgmma share: tiles of rows of DIM elements, and their products. DIM is the head
// dimension, a multiple of 64. Of a thread block's warpgroups, GROUPS multiply, each for 64 rows, and the last one
// copies.
//
// A tile is one block of 64 columns after the other, each of all of its rows. So it is an operand whose rows are along
// k, as of scores, and one whose rows are across k, as of sums of values.
#pragma once
#include "weight.cuh"
#include "wgmma.cuh"

constexpr int GROUPS = BLOCK_DIM / 128 - 1;
// Registers of each thread that copies, and that multiplies.
constexpr int COPYING = GROUPS > 2 ? 32 : 40, MULTIPLYING = GROUPS > 2 ? 160 : 232;
static_assert(DIM % 64 == 0 && (COPYING + GROUPS * MULTIPLYING) * 128 <= 65536, "");

// tileBytes returns the bytes of a tile.
constexpr int tileBytes(int rows) { return rows * DIM * 2; }

// aligned returns the first multiple of 1,024 bytes in shared memory, where tiles may start.
inline char *aligned(uint4 *memory) { return (char *)memory + (1024 - (size_t)shared(memory) % 1024) % 1024; }

// bring starts copying a tile of ROWS rows of a matrix, from a row and a column on.
template <int ROWS> inline void bring(char *tile, const TileMap *map, int row, int column, Barrier *there) {
#pragma unroll
	for (int i = 0; i < DIM / 64; i++) tileLoad(tile + i * ROWS * 128, map, row, column + i * 64, there);
}

// clear overwrites rows from n on of a tile with zeros. All lanes of a warp call it.
template <int ROWS> inline void clear(char *tile, int n) {
	const unsigned zeros[4] = {};
#pragma unroll
	for (int i = 0; i < DIM / 64; i++) {
		for (int at = n * 128 + threadIdx.x % 32 * 16; at < ROWS * 128; at += 32 * 16)
			tileWrite(tile + i * ROWS * 128 + at, zeros);
	}
	tileFence();
	__syncwarp();
}

// along returns how far 16 columns of a tile of ROWS rows are from its start.
template <int ROWS> constexpr int along(int k) { return k / 4 * ROWS * 128 + groupStep(false) * (k % 4); }

// multiplyRows starts sums = a·bᵀ, or sums += a·bᵀ if add is set, where a is 64 rows of a tile of A rows, and b as many
// of a tile of B rows as sums have columns.
template <int A, int B, int N> inline void multiplyRows(float (&sums)[N], Operand<A> a, Operand<B> b, int add) {
#pragma unroll
	for (int k = 0; k < DIM / 16; k++) groupMultiply<false, false>(sums, a + along<A>(k), b + along<B>(k), add | k > 0);
}

// A Held is 16 columns of a matrix of 64 rows, in registers: see groupMultiplyHeld.
typedef unsigned Held[4];

// multiplyColumns starts sums = p·b, or sums += p·b if add is set, where p has 64 rows, and b as many rows of a tile of
// B rows as p has columns.
template <int K, int B> inline void multiplyColumns(float (&sums)[DIM / 2], const Held (&p)[K], Operand<B> b, int add) {
#pragma unroll
	for (int k = 0; k < K; k++) groupMultiplyHeld<true>(sums, p[k], b + groupStep(true) * k, add | k > 0);
}

// hold rounds sums, so that they are an operand. Columns that they do not have become zeros.
template <int K, int N> inline void hold(Held (&p)[K], const float (&sums)[N]) {
#pragma unroll
	for (int i = 0; i < K * 4; i++) p[i / 4][i % 4] = i < N / 2 ? pack(sums[2 * i], sums[2 * i + 1]) : 0;
}

// A Seen tells which keys the queries of a sequence see: the one at a position those from first to last. Where nothing
// limits them, a number does that is larger than any position, so that no code depends on it.
struct Seen {
	int total, before, after;

	inline Seen(int total, int window, int causal)
		: total(total), before((window ? window : 1 << 30) - 1), after(causal ? 0 : 1 << 30) {}
	inline int first(int position) const { return max(0, position - before); }
	inline int last(int position) const { return min(position + after, total - 1); }
	// all reports whether the queries at 64 positions see all of some keys.
	inline bool all(int position, int key, int keys) const {
		return key + keys <= last(position) + 1 && key >= first(position + 63);
	}
};

// hide sets scores that are not seen to -∞: of the 64 rows from a position on, and of N·2 keys.
template <int N> inline void hide(float (&scores)[N], const Seen &seen, int position, int key) {
	constexpr int SOME = N % 32 ? N : 32; // looked at together
	const int row = position + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
#pragma unroll
	for (int from = 0; from < N; from += SOME, key += SOME * 2) {
		if (seen.all(position, key, SOME * 2)) continue;
#pragma unroll
		for (int e = 0; e < 2; e++) {
			const int last = seen.last(row + e * 8) - key - column, first = seen.first(row + e * 8) - key - column;
#pragma unroll
			for (int i = 0; i < SOME; i++) {
				const int at = i % 2 + i / 4 * 8;
				if (i / 2 % 2 == e && (at > last || at < first)) scores[from + i] = -INFINITY;
			}
		}
	}
}

// writeRows writes a warpgroup's sums, each row times its scale, to the first n of 64 rows that are stride elements
// apart. It passes through tiles of ROWS rows: 16 for each warp, or more, 64 of which, from a place on, are the
// warpgroup's.
template <int ROWS, typename F>
inline void writeRows(T *rows, int stride, int n, const float (&sums)[DIM / 2], char *tile, F scale) {
	const int lane = threadIdx.x % 32, skipped = threadIdx.x / 32 % 4 * 16;
	const int at = lane % 16 * 128 + lane / 16 * 16;
	char *const own = tile + skipped * (ROWS == 16 ? DIM * 2 : 128); // the warp's
#pragma unroll
	for (int j = 0; j < DIM / 16; j++) {
		unsigned r[4];
#pragma unroll
		for (int i = 0; i < 4; i++) {
			const float by = scale(i % 2);
			r[i] = pack(sums[8 * j + 2 * i] * by, sums[8 * j + 2 * i + 1] * by);
		}
		stmatrix(own + j / 4 * ROWS * 128 + swizzled(at + j % 4 * 32, 128), r);
	}
	__syncwarp();
#pragma unroll
	for (int i = 0; i < DIM / 16; i++) {
		const int row = (lane + i * 32) / (DIM / 8), chunk = (lane + i * 32) % (DIM / 8);
		const char *const from = own + chunk / 8 * ROWS * 128 + swizzled(row * 128 + chunk % 8 * 16, 128);
		const uint4 word = *(const uint4 *)from;
		if (skipped + row < n) *(uint4 *)(rows + (long long)(skipped + row) * stride + chunk * 8) = word;
	}
}
