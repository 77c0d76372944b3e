// What the FlashAttention kernels share (Dao 2023): tiles of rows in shared memory, and their products on tensor cores.
// DIM is the head dimension: a multiple of 32.
//
// A warp computes some rows of each product, M times 16, and all columns. The left matrix is a tile, or the result of
// another product, whose registers are laid out as the next one needs them. The right matrix is a tile that all warps
// share.
#pragma once
#include "mma.cuh"
#include "weight.cuh"

// Elements of a chunk of 16 bytes, chunks and bytes of a row, and pairs of chunks: the depth of a product in steps.
constexpr int EACH = 16 / sizeof(T), CHUNKS = DIM / EACH, ROW = DIM * sizeof(T), STEPS = CHUNKS / 2;

// Chunks with the same index in 8 rows would be in the same banks of shared memory, so within SPAN bytes their order
// differs from row to row.
constexpr int SPAN = CHUNKS % 8 == 0 ? 128 : 64;
inline int turned(int row, int within) { return within ^ (SPAN == 128 ? row & 7 : row >> 1 & 3) * 16; }

// place returns where a tile has a chunk.
inline int place(int row, int chunk) { return row * ROW + chunk * 16 / SPAN * SPAN + turned(row, chunk * 16 % SPAN); }

// bring starts copying ROWS rows that are stride elements apart to a tile. Rows from n on become zeros.
template <int ROWS> inline void bring(char *tile, const T *rows, int stride, int n) {
	static_assert(ROWS * CHUNKS % BLOCK_DIM == 0, "");
	int row = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
	rows += row * stride + chunk * EACH;
#pragma unroll
	for (int i = 0; i < ROWS * CHUNKS; i += BLOCK_DIM) {
		copyAsync(tile + place(row, chunk), rows, row < n);
		row += BLOCK_DIM / CHUNKS;
		rows += BLOCK_DIM / CHUNKS * stride;
		if (BLOCK_DIM % CHUNKS == 0) continue;
		chunk += BLOCK_DIM % CHUNKS;
		rows += BLOCK_DIM % CHUNKS * EACH;
		if (chunk < CHUNKS) continue;
		row++;
		chunk -= CHUNKS;
		rows += stride - DIM;
	}
}

// Each lane passes one of 16 rows and one of two adjacent chunks to ldmatrix: for a left matrix, and for a right one
// that is stored transposed, the lower rows first; otherwise the two chunks of a row first. k is the index of the pair
// of chunks.
inline int lower(int k) {
	const int lane = threadIdx.x % 32, row = lane % 16;
	return row * ROW + k * 32 / SPAN * SPAN + (turned(row, lane / 16 * 16) ^ k * 32 % SPAN);
}
inline int beside(int k) {
	const int lane = threadIdx.x % 32, row = lane % 8 + lane / 16 * 8;
	return row * ROW + k * 32 / SPAN * SPAN + (turned(row, lane / 8 % 2 * 16) ^ k * 32 % SPAN);
}

typedef unsigned Left[4], Right[2];

// A Sum is a result: M times 16 rows of N times 8 columns. A lane has the columns 2t and 2t+1 of each 8, of the rows g
// and g+8.
template <int M, int N> struct Sum { float at[M][N][4]; };

// Rows are M times 16 rows of a tile, a left matrix. If HELD is 1, hold reads them into registers; otherwise each
// product reads them.
template <int M> struct Rows {
	const char *tile;
	Left held[HELD ? STEPS : 1][M];

	inline void read(Left &a, int i, int k) const { ldmatrix(a, tile + i * 16 * ROW + lower(k)); }
	inline void get(Left &a, int i, int k) const {
		if constexpr (HELD) {
#pragma unroll
			for (int e = 0; e < 4; e++) a[e] = held[k][i][e];
		} else {
			read(a, i, k);
		}
	}
	inline void hold() {
#pragma unroll
		for (int k = 0; k < STEPS * HELD; k++) {
#pragma unroll
			for (int i = 0; i < M; i++) read(held[k][i], i, k);
		}
	}
};

// hide sets the scores that are not seen to -∞: in each row those outside the columns that seen returns. row and column
// are the indices of the first row and column.
struct Range { int first, last; };
template <int M, int N, typename F> inline void hide(Sum<M, N> &scores, int row, int column, F seen) {
	const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
	for (int i = 0; i < M; i++) {
#pragma unroll
		for (int e = 0; e < 2; e++) {
			const Range r = seen(row + i * 16 + e * 8 + g);
#pragma unroll
			for (int n = 0; n < N; n++) {
#pragma unroll
				for (int c = 0; c < 2; c++) {
					const int at = column + n * 8 + t * 2 + c;
					if (at < r.first || at > r.last) scores.at[i][n][e * 2 + c] = -INFINITY;
				}
			}
		}
	}
}

#ifdef F32
#include "flash_float.cuh"
#else
#include "flash_half.cuh"
#endif
