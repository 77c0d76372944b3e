// A product of F32 matrices in float32, of any sizes and layouts. product.go describes it, and chooses:
//
//   TRANS_A, TRANS_B   1: the operand is stored transposed
//   TILE               rows and columns of c per thread block
//   GROUPED            if it is defined: the products are experts' products, see group.cuh
//   PAIR               1: c gets the product of a second pair of operands too, in the last part of k
#include "common.cuh"
#include "group.cuh"
#ifndef PAIR
#define PAIR 0
#endif

constexpr int DEPTH = 8, SIDE = 16, EACH = TILE / SIDE; // a block has SIDE by SIDE threads, a thread EACH by EACH sums
constexpr int LOADS = TILE * DEPTH / BLOCK_DIM;
typedef float Panel[DEPTH][TILE + 4]; // the four put values that are stored at once into different banks

// A Reader copies TILE rows by DEPTH of x to shared memory, with zeros beyond [rows, depth]: first to registers, while
// the previous panel is multiplied. apart is the distance between the rows of x or, unless ALONG, between its columns.
template <bool ALONG> struct Reader {
	const T *x;
	long long stride;
	int row, rows, depth;
	float held[LOADS];

	static int rowOf(int n) { return (n * BLOCK_DIM + threadIdx.x) / (ALONG ? DEPTH : 1) % TILE; }
	static int columnOf(int n) { return (n * BLOCK_DIM + threadIdx.x) / (ALONG ? 1 : TILE) % DEPTH; }
	void read(int k) {
#pragma unroll
		for (int n = 0; n < LOADS; n++) {
			const int i = row + rowOf(n), j = k + columnOf(n);
			held[n] = i < rows && j < depth ? value(x[ALONG ? i * stride + j : j * stride + i]) : 0;
		}
	}
	void store(Panel &to) const {
#pragma unroll
		for (int n = 0; n < LOADS; n++) to[columnOf(n)][rowOf(n)] = held[n];
	}
};

// place returns where row i of a thread's EACH rows is in the tile: each four are adjacent.
inline int place(int thread, int i) { return i / 4 * 4 * SIDE + thread * 4 + i % 4; }

// A thread block has one tile of a product of a batch, as in product_gemm.cu.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM, 2) product(C *c, long long cRow, const T *a, long long aRow,
	const T *b, long long bRow, const T *bias, float alpha, int m, int n, int depth, int part, int add, long long outerA,
	long long outerB, long long outerC, long long innerA, long long innerB, long long innerC,
	const int *offsets, const T *a2, long long a2Row, const T *b2, long long b2Row, int depth2) {
	waitForPrerequisites();
	__shared__ __align__(16) Panel left[2], right[2];
	const int across = (n + TILE - 1) / TILE, row = blockIdx.x / across * TILE, column = blockIdx.x % across * TILE;
	FIND_GROUP
	const int end = part ? min(depth - (int)blockIdx.y * part, part) : depth, x = threadIdx.x % SIDE,
			  y = threadIdx.x / SIDE;
	a += blockIdx.z * outerA + blockIdx.y * innerA, b += blockIdx.z * outerB + blockIdx.y * innerB,
		c += blockIdx.z * outerC + blockIdx.y * innerC;
	float sums[EACH][EACH] = {};
	auto multiply = [&](Reader<!TRANS_A> as, Reader<TRANS_B> bs, int end) {
		int now = 0;
		as.read(0), bs.read(0);
		as.store(left[0]), bs.store(right[0]);
		__syncthreads();
		for (int k = 0; k < end; k += DEPTH, now ^= 1) {
			if (k + DEPTH < end) as.read(k + DEPTH), bs.read(k + DEPTH);
#pragma unroll
			for (int l = 0; l < DEPTH; l++) {
				float u[EACH], v[EACH];
#pragma unroll
				for (int i = 0; i < EACH; i++) u[i] = left[now][l][place(y, i)], v[i] = right[now][l][place(x, i)];
#pragma unroll
				for (int i = 0; i < EACH; i++) {
#pragma unroll
					for (int j = 0; j < EACH; j++) sums[i][j] += u[i] * v[j];
				}
			}
			if (k + DEPTH < end) as.store(left[now ^ 1]), bs.store(right[now ^ 1]);
			__syncthreads();
		}
	};
	multiply({a, aRow, row, m, end}, {b, bRow, column, n, end}, end);
	if (PAIR && blockIdx.y == gridDim.y - 1)
		multiply({a2, a2Row, row, m, depth2}, {b2, b2Row, column, n, depth2}, depth2);
#pragma unroll
	for (int i = 0; i < EACH; i++) {
#pragma unroll
		for (int j = 0; j < EACH; j++) {
			const int r = row + place(y, i), s = column + place(x, j);
			if (r < m && s < n) put(c + r * cRow + s, alpha * sums[i][j], bias, s, add);
		}
	}
}
