// The products of flash.cuh's tiles in BF16 and F16.
#pragma once

// addRows adds a·bᵀ to a sum, where b is a tile of N·8 rows.
template <int M, int N> inline void addRows(Sum<M, N> &sum, const Rows<M> &rows, const char *b) {
#pragma unroll
	for (int k = 0; k < STEPS; k++) {
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

// addScores is addRows from 0 on.
template <int M, int N> inline void addScores(Sum<M, N> &sum, const Rows<M> &rows, const char *b) {
	addRows(sum, rows, b);
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

// finish writes a warp's sum, each row times its scale, to n rows that are stride elements apart. It overwrites this
// warp's rows of the tile, which must not be needed any more.
template <int M, typename F>
inline void finish(T *rows, int stride, int n, Sum<M, DIM / 8> &sum, char *tile, F scale) {
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
