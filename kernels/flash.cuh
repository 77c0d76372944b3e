// What the FlashAttention kernels share (Dao 2023): tiles of rows in shared memory, and their products on tensor cores.
// DIM is the head dimension: a multiple of 32.
//
// A warp computes some rows of each product, M times 16, and all columns. The left matrix is a tile, or the result of
// another product, whose registers are laid out as the next one needs them. The right matrix is a tile that all warps
// share.
#pragma once
#include "mma.cuh"

constexpr float LOG2E = 1.44269504f;
constexpr int CHUNKS = DIM / 8, ROW = DIM * 2; // 16-byte chunks per row, and bytes per row

// Chunks with the same index in 8 rows would be in the same banks of shared memory, so within SPAN bytes their order
// differs from row to row.
constexpr int SPAN = CHUNKS % 8 == 0 ? 128 : 64;
inline int turned(int row, int within) { return within ^ (SPAN == 128 ? row & 7 : row >> 1 & 3) * 16; }

// place returns where a tile has a chunk.
inline int place(int row, int chunk) { return row * ROW + chunk * 16 / SPAN * SPAN + turned(row, chunk * 16 % SPAN); }

// bring starts copying ROWS rows that are stride elements apart to a tile. Rows from n on become zeros.
template <int ROWS> inline void bring(char *tile, const Half *rows, int stride, int n) {
	static_assert(ROWS * CHUNKS % BLOCK_DIM == 0, "");
	int row = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
	rows += row * stride + chunk * 8;
#pragma unroll
	for (int i = 0; i < ROWS * CHUNKS; i += BLOCK_DIM) {
		copyAsync(tile + place(row, chunk), rows, row < n);
		row += BLOCK_DIM / CHUNKS;
		rows += BLOCK_DIM / CHUNKS * stride;
		if (BLOCK_DIM % CHUNKS == 0) continue;
		chunk += BLOCK_DIM % CHUNKS;
		rows += BLOCK_DIM % CHUNKS * 8;
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
	Left held[HELD ? DIM / 16 : 1][M];

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
		for (int k = 0; k < DIM / 16 * HELD; k++) {
#pragma unroll
			for (int i = 0; i < M; i++) read(held[k][i], i, k);
		}
	}
};

// addRows adds a·bᵀ to a sum, where b is a tile of N·8 rows.
template <int M, int N> inline void addRows(Sum<M, N> &sum, const Rows<M> &rows, const char *b) {
#pragma unroll
	for (int k = 0; k < DIM / 16; k++) {
		Left a[M];
#pragma unroll
		for (int i = 0; i < M; i++) rows.get(a[i], i, k);
#pragma unroll
		for (int n = 0; n < N; n += 2) {
			unsigned both[4];
			ldmatrix(both, b + n * 8 * ROW + beside(k));
			const Right one = {both[0], both[1]}, other = {both[2], both[3]};
#pragma unroll
			for (int i = 0; i < M; i++) {
				mma(sum.at[i][n], a[i], one);
				mma(sum.at[i][n + 1], a[i], other);
			}
		}
	}
}

// addColumns adds p·b to a sum of DIM columns, where p is a sum of N·8 columns, rounded, and b a tile of as many rows.
template <int M, int N> inline void addColumns(Sum<M, DIM / 8> &sum, const Sum<M, N> &p, const char *b) {
#pragma unroll
	for (int k = 0; k < N; k += 2) {
		Left a[M];
#pragma unroll
		for (int i = 0; i < M; i++) {
#pragma unroll
			for (int e = 0; e < 4; e++) a[i][e] = pack(p.at[i][k + e / 2][e % 2 * 2], p.at[i][k + e / 2][e % 2 * 2 + 1]);
		}
#pragma unroll
		for (int n = 0; n < DIM / 8; n += 2) {
			unsigned both[4];
			ldmatrixTransposed(both, b + k * 8 * ROW + lower(n / 2));
			const Right one = {both[0], both[1]}, other = {both[2], both[3]};
#pragma unroll
			for (int i = 0; i < M; i++) {
				mma(sum.at[i][n], a[i], one);
				mma(sum.at[i][n + 1], a[i], other);
			}
		}
	}
}

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

// weight returns 2^x, where x is the exponent of a score minus that of its row's sum: at most 0, apart from rounding.
// For huge scores rounding can make it some hundred, so x is limited to keep gradients finite. A NaN stays a NaN.
inline float weight(float x) {
#if defined EMULATED || __CUDA_ARCH__ < 800
	return exp2Rough(x > 1 ? 1 : x);
#else
	float y;
	asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(1.0f));
	return exp2Rough(y);
#endif
}

// finish writes a warp's sum, each row times its scale, to n rows that are stride elements apart. It overwrites this
// warp's rows of the tile, which must not be needed any more.
template <int M, typename F>
inline void finish(Half *rows, int stride, int n, Sum<M, DIM / 8> &sum, char *tile, F scale) {
	const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
	__syncwarp(); // all lanes have read it
#pragma unroll
	for (int i = 0; i < M; i++) {
#pragma unroll
		for (int e = 0; e < 2; e++) {
			const float by = scale(i, e);
#pragma unroll
			for (int c = 0; c < DIM / 8; c++) {
				*(unsigned *)(tile + place(i * 16 + e * 8 + g, c) + t * 4) =
					pack(sum.at[i][c][e * 2] * by, sum.at[i][c][e * 2 + 1] * by);
			}
		}
	}
	__syncwarp();
#pragma unroll
	for (int at = lane; at < M * 16 * CHUNKS; at += 32) {
		const int row = at / CHUNKS, chunk = at % CHUNKS;
		if (row < n) *(uint4 *)(rows + (long long)row * stride + chunk * 8) = *(const uint4 *)(tile + place(row, chunk));
	}
}
