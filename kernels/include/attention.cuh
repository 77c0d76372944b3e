// What the attention kernels without tensor cores share: for any type, for head dimensions that op_attention_flash.cu
// has no tiles for, and for GPUs that it does not fit. DIM is the head dimension.
//
// As in op_attention_flash.cu, a thread block has some rows of one head and one sequence: queries, or in
// op_attention_dkv.cu keys. It goes through the rows that these see, or that see these, COLUMNS at a time. Heads pass
// through shared memory CHUNK elements at a time, so they may be of any length. Threads are in 16 rows of 8: thread (x,
// y) computes the products of rows y, y + 16, … and columns x, x + 8, …, and elements 4x to 4x + 3 of each chunk of the
// sums over all columns.
//
//   MINE      rows per thread, a sixteenth of the block's
//   RESIDENT  thread blocks per multiprocessor, at least
#pragma once
#include "common.cuh"

static_assert(BLOCK_DIM == 128, "");
constexpr int ROWS = MINE * 16, COLUMNS = 64, EACH = COLUMNS / 8, CHUNK = 32;
constexpr int CHUNKS = (DIM + CHUNK - 1) / CHUNK;
// Rows that threads read together begin in different banks of shared memory.
typedef float Staged[CHUNK + 4], Weighed[COLUMNS + 4];
typedef Vec<float, 4> Four;
// Products are rows of a thread, times the columns it has; Sums the elements it has of the rows' sums.
typedef float Products[MINE][EACH];
typedef float Sums[MINE][CHUNKS][4];

inline int x() { return threadIdx.x % 8; }
inline int y() { return threadIdx.x / 8; }

// stage copies a chunk of N rows that are stride elements apart. Rows from n on and elements from DIM on become zeros.
template <int N> inline void stage(Staged *tile, const T *rows, int stride, int n, int chunk) {
	constexpr int VECTORS_EACH = CHUNK / WIDTH;
#pragma unroll
	for (int at = threadIdx.x; at < N * VECTORS_EACH; at += BLOCK_DIM) {
		const int row = at / VECTORS_EACH, k = at % VECTORS_EACH;
		Vector v;
		if (row < n && chunk * CHUNK + k * WIDTH < DIM) v = loadCached(rows + (long long)row * stride + chunk * CHUNK, k);
		*(Vec<float, WIDTH> *)&tile[row][k * WIDTH] = each<float>([&](int i) { return v[i]; });
	}
}

// multiply sets products to the products of the block's rows and of COLUMNS others, rows that are stride elements
// apart. It always adds their terms in the same order, so the backward pass gets exactly the scores of the forward
// pass, however large they are.
inline void multiply(Products &products, Staged *a, Staged *b, const T *rows, int stride, int n, const T *others,
	int otherStride, int m) {
#pragma unroll
	for (int i = 0; i < MINE; i++) {
#pragma unroll
		for (int j = 0; j < EACH; j++) products[i][j] = 0;
	}
#pragma unroll 1
	for (int chunk = 0; chunk < CHUNKS; chunk++) {
		__syncthreads(); // all threads have read what was there
		stage<ROWS>(a, rows, stride, n, chunk);
		stage<COLUMNS>(b, others, otherStride, m, chunk);
		__syncthreads();
#pragma unroll 1
		for (int k = 0; k < CHUNK / 4; k++) {
			Four left[MINE], right[EACH];
#pragma unroll
			for (int i = 0; i < MINE; i++) left[i] = loadCachedOf<4>(a[y() + i * 16], k);
#pragma unroll
			for (int j = 0; j < EACH; j++) right[j] = loadCachedOf<4>(b[x() + j * 8], k);
#pragma unroll
			for (int e = 0; e < 4; e++) {
#pragma unroll
				for (int i = 0; i < MINE; i++) {
#pragma unroll
					for (int j = 0; j < EACH; j++) products[i][j] = fmaf(left[i][e], right[j][e], products[i][j]);
				}
			}
		}
	}
}

// keep writes products to where accumulate reads them: threads with the same y read what they wrote.
inline void keep(Weighed *weights, const Products &products) {
	__syncwarp(); // they have read what was there
#pragma unroll
	for (int i = 0; i < MINE; i++) {
#pragma unroll
		for (int j = 0; j < EACH; j++) weights[y() + i * 16][x() + j * 8] = products[i][j];
	}
}

// accumulate adds n other rows, each times its weights, to the sums.
inline void accumulate(Sums &sums, Staged *b, Weighed *weights, const T *others, int stride, int n) {
#pragma unroll
	for (int chunk = 0; chunk < CHUNKS; chunk++) {
		__syncthreads();
		stage<COLUMNS>(b, others, stride, n, chunk);
		__syncthreads();
#pragma unroll 2
		for (int k = 0; k < COLUMNS / 4; k++) {
			Four left[MINE], right[4];
#pragma unroll
			for (int i = 0; i < MINE; i++) left[i] = loadCachedOf<4>(weights[y() + i * 16], k);
#pragma unroll
			for (int j = 0; j < 4; j++) right[j] = loadCachedOf<4>(b[k * 4 + j], x());
#pragma unroll
			for (int j = 0; j < 4; j++) {
#pragma unroll
				for (int i = 0; i < MINE; i++) {
#pragma unroll
					for (int e = 0; e < 4; e++) sums[i][chunk][e] = fmaf(left[i][j], right[j][e], sums[i][chunk][e]);
				}
			}
		}
	}
}

// write stores the sums, each row times its scale, in n rows.
template <typename F> inline void write(T *rows, int stride, int n, const Sums &sums, F scale) {
	constexpr int PART = WIDTH < 4 ? WIDTH : 4;
#pragma unroll
	for (int i = 0; i < MINE; i++) {
		const int row = y() + i * 16;
		if (row >= n) break;
#pragma unroll
		for (int chunk = 0; chunk < CHUNKS; chunk++) {
#pragma unroll
			for (int e = 0; e < 4; e += PART) {
				const int column = chunk * CHUNK + x() * 4 + e;
				float out[PART];
#pragma unroll
				for (int c = 0; c < PART; c++) out[c] = sums[i][chunk][e + c] * scale(i);
				Vec<T, PART> v;
				narrow(v.at, out);
				if (column < DIM) *(Vec<T, PART> *)(rows + (long long)row * stride + column) = v;
			}
		}
	}
}

// together combines the values of the threads that have the same rows, and returns the result to all of them.
template <typename F> inline float together(float value, F f) {
#pragma unroll
	for (int i = 1; i < 8; i *= 2) value = f(value, __shfl_xor_sync(~0u, value, i));
	return value;
}

// A Sequence is a range of rows: one of those that start at offsets, or the only one if there are no offsets.
struct Sequence {
	int begin, length;
	inline Sequence(int i, const int *offsets, int rows)
		: begin(offsets ? offsets[i] : 0), length((offsets ? offsets[i + 1] : rows) - begin) {}
};

// Seen tells which keys queries see: query i sees the keys at positions first to last; its own position is i + ahead.
struct Seen {
	int length, window, causal;
	inline int first(int position) const { return window ? max(0, position - window + 1) : 0; }
	inline int last(int position) const { return causal ? min(position, length - 1) : length - 1; }
	inline bool operator()(int position, int key) const { return first(position) <= key && key <= last(position); }
};
