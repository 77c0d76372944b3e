// RMSNorm and its gradient, with and without the residual add. The formulas are in rmsnorm.go.
//
// A row is read once: the threads that share it keep it in registers while they sum over it.
//
//   THREADS   threads that share a row: a power of two, at most BLOCK_DIM
#include "common.cuh"
#include "row.cuh"

// forward normalizes x, or with ADD h = x + b, which it stores.
template <bool ADD>
inline void forward(T *y, float *rstd, T *h, const T *x, const T *b, const T *w, int rows, float eps) {
	const int lane = threadIdx.x % THREADS, row = blockIdx.x * ROWS + threadIdx.x / THREADS;
	auto inside = [&](int k) { return row < rows && k * THREADS + lane < VECTORS; };
	auto at = [&](int k) { return (long long)row * VECTORS + k * THREADS + lane; };

	Vector v[EACH], added[EACH], weight[EACH];
#pragma unroll
	for (int k = 0; k < EACH; k++) {
		v[k] = added[k] = weight[k] = Vector();
		if (!inside(k)) continue;
		v[k] = loadStreaming(x, at(k));
		if (ADD) added[k] = loadStreaming(b, at(k));
		weight[k] = loadCached(w, k * THREADS + lane);
	}
	float squares = 0;
#pragma unroll
	for (int k = 0; k < EACH; k++) {
		if (ADD) v[k] = each([&](int i) { return v[k][i] + added[k][i]; });
#pragma unroll
		for (int i = 0; i < WIDTH; i++) squares += v[k][i] * v[k][i];
	}
	const float scale = 1 / sqrtf(sum(squares, 0) / DIM + eps);
	if (lane == 0 && row < rows) rstd[row] = scale;
#pragma unroll
	for (int k = 0; k < EACH; k++) {
		if (!inside(k)) continue;
		const Vector out = each([&](int i) { return v[k][i] * scale * weight[k][i]; });
		if (ADD) store(h, at(k), v[k]);
		store(y, at(k), out);
	}
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	rmsnorm(T *y, float *rstd, const T *x, const T *w, int rows, float eps) {
	forward<false>(y, rstd, nullptr, x, nullptr, w, rows, eps);
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	add_rmsnorm(T *y, float *rstd, T *h, const T *a, const T *b, const T *w, int rows, float eps) {
	forward<true>(y, rstd, h, a, b, w, rows, eps);
}

// rmsnorm_backward writes dx, or adds to it, and, if there are partials, writes the thread block's part of dw into its
// row of partials [grid, DIM]. Thread blocks process the rows in strides of the grid, so that there are few partials.
// While they compute one row, the next is on its way to their registers, if these have room for it, and the one after
// that to the L2 cache: one row ahead is not enough to keep memory busy. Two thread blocks per multiprocessor hide each
// other's barriers, as long as a row fits them.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM, VECTORS <= BLOCK_DIM ? 2 : 1)
	rmsnorm_backward(T *dx, float *partials, const T *dy, const T *x, const T *w, const float *rstd, int rows, int add) {
	const int lane = threadIdx.x % THREADS, group = threadIdx.x / THREADS, stride = gridDim.x * ROWS;
	constexpr bool AHEAD = EACH <= 2; // with more, the registers of a second row would be spilled
	auto inside = [&](int k) { return k * THREADS + lane < VECTORS; };
	auto at = [&](int row, int k) { return (long long)row * VECTORS + k * THREADS + lane; };

	Vector nextX[EACH], nextDy[EACH];
	float nextScale = 0;
	auto read = [&](int row) {
		if (row < rows) nextScale = rstd[row];
#pragma unroll
		for (int k = 0; k < EACH; k++) {
			nextX[k] = nextDy[k] = Vector();
			if (row >= rows || !inside(k)) continue;
			nextX[k] = loadStreaming(x, at(row, k));
			nextDy[k] = loadStreaming(dy, at(row, k));
		}
	};
	auto prefetchRow = [&](int row) {
#pragma unroll
		for (int k = 0; k < EACH; k++) {
			if (row >= rows || !inside(k)) continue;
			prefetch(x, at(row, k));
			prefetch(dy, at(row, k));
		}
	};
	if (AHEAD) read(blockIdx.x * ROWS + group);
	prefetchRow(blockIdx.x * ROWS + group + stride);

	Vector weight[EACH];
	float dw[EACH][WIDTH];
#pragma unroll
	for (int k = 0; k < EACH; k++) {
		weight[k] = inside(k) ? loadCached(w, k * THREADS + lane) : Vector();
#pragma unroll
		for (int i = 0; i < WIDTH; i++) dw[k][i] = 0;
	}
	int turn = 0;
	for (int first = blockIdx.x * ROWS; first < rows; first += stride, turn ^= 1) {
		const int row = first + group;
		Vector nowX[EACH], nowDy[EACH], before[EACH];
		if (!AHEAD) read(row);
		const float scale = nextScale;
#pragma unroll
		for (int k = 0; k < EACH; k++) {
			nowX[k] = nextX[k];
			nowDy[k] = nextDy[k];
			before[k] = add && row < rows && inside(k) ? loadStreaming(dx, at(row, k)) : Vector();
		}
		if (AHEAD) read(row + stride);
		prefetchRow(row + 2 * stride);

		float dot = 0;
#pragma unroll
		for (int k = 0; k < EACH; k++) {
#pragma unroll
			for (int i = 0; i < WIDTH; i++) {
				dot += nowDy[k][i] * weight[k][i] * nowX[k][i];
				dw[k][i] += nowDy[k][i] * scale * nowX[k][i];
			}
		}
		const float mean = sum(dot, turn) * scale * scale / DIM; // of g · x̂, times rstd
#pragma unroll
		for (int k = 0; k < EACH; k++) {
			if (row >= rows || !inside(k)) continue;
			store(dx, at(row, k), each([&](int i) {
				return scale * (nowDy[k][i] * weight[k][i] - nowX[k][i] * mean) + before[k][i];
			}));
		}
	}
	if (partials) sumRows(partials + (long long)blockIdx.x * DIM, dw);
}
