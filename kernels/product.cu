// A matrix product c = a·b + bias, or added to what c holds, of any sizes and layouts. It is described in product.go.
// C_F32 or C_BF16 is the type of c.
#include "common.cuh"

#ifdef C_BF16
typedef bf16 C;
#else
typedef float C;
#endif

constexpr int TILE = 64, DEPTH = 16;
constexpr int SIDE = 16, EACH = TILE / SIDE; // a block has SIDE by SIDE threads, a thread EACH by EACH sums

// fill brings TILE rows by DEPTH of x into shared memory, zeros where x ends, so that neighbouring threads read neighbours.
inline void fill(float (&to)[DEPTH][TILE], const T *x, long long rowStride, long long stride, int row, int rows, int k,
	int depth) {
#pragma unroll
	for (int n = threadIdx.x; n < TILE * DEPTH; n += BLOCK) {
		const int i = stride == 1 ? n / DEPTH : n % TILE, j = stride == 1 ? n % DEPTH : n / TILE;
		const bool there = row + i < rows && k + j < depth;
		to[j][i] = there ? value(x[(row + i) * rowStride + (k + j) * stride]) : 0;
	}
}

// Element [i, k] of a is a[i·aRow + k·aCol], [k, j] of b is b[k·bRow + j·bCol], and [i, j] of c is c[i·cRow + j]. A block
// has one tile of c.
extern "C" __global__ void __launch_bounds__(BLOCK) product(C *c, long long cRow, const T *a, long long aRow, long long aCol,
	const T *b, long long bRow, long long bCol, const T *bias, int m, int n, int depth, int add) {
	__shared__ float left[DEPTH][TILE], right[DEPTH][TILE];
	const int across = (n + TILE - 1) / TILE, row = blockIdx.x / across * TILE, column = blockIdx.x % across * TILE;
	const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
	float sums[EACH][EACH] = {};
	for (int k = 0; k < depth; k += DEPTH) {
		fill(left, a, aRow, aCol, row, m, k, depth);
		fill(right, b, bCol, bRow, column, n, k, depth);
		__syncthreads();
#pragma unroll
		for (int l = 0; l < DEPTH; l++) {
#pragma unroll
			for (int i = 0; i < EACH; i++) {
#pragma unroll
				for (int j = 0; j < EACH; j++) sums[i][j] += left[l][y + i * SIDE] * right[l][x + j * SIDE];
			}
		}
		__syncthreads();
	}
#pragma unroll
	for (int i = 0; i < EACH; i++) {
#pragma unroll
		for (int j = 0; j < EACH; j++) {
			const int r = row + y + i * SIDE, s = column + x + j * SIDE;
			if (r >= m || s >= n) continue;
			C *at = c + r * cRow + s;
			float out[1] = {sums[i][j] + (bias ? value(bias[s]) : 0) + (add ? value(*at) : 0)};
			C rounded[1];
			narrow(rounded, out);
			*at = rounded[0];
		}
	}
}
