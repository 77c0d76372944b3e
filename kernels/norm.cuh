// Norms of rows and their gradients: RMSNorm, and LayerNorm if CENTER is true. The formulas are in rmsnorm.go and
// layernorm.go.
//
// A row is read once: the threads that share it keep it in registers while they sum over it.
//
//   THREADS   threads that share a row: a power of two, at most BLOCK_DIM
#pragma once
#include "common.cuh"
#include "row.cuh"

// forward normalizes x, or with ADD h = x + b, which it stores. Without CENTER there is no mean. bias may be null.
template <bool CENTER, bool ADD>
inline void forward(
	T *y, float *mean, float *rstd, T *h, const T *x, const T *b, const T *w, const T *bias, int rows, float eps) {
	const int lane = threadIdx.x % THREADS, row = blockIdx.x * ROWS + threadIdx.x / THREADS;
	auto inside = [&](int k) { return row < rows && k * THREADS + lane < VECTORS; };
	auto at = [&](int k) { return (long long)row * VECTORS + k * THREADS + lane; };

	Vector v[EACH], added[EACH];
#pragma unroll
	for (int k = 0; k < EACH; k++) {
		v[k] = added[k] = Vector();
		if (!inside(k)) continue;
		v[k] = loadStreaming(x, at(k));
		if (ADD) added[k] = loadStreaming(b, at(k));
	}
	float total = 0, squares[CENTER ? 2 : 1] = {}; // with CENTER the second is the sum itself
#pragma unroll
	for (int k = 0; k < EACH; k++) {
		if (ADD) v[k] = each([&](int i) { return v[k][i] + added[k][i]; });
#pragma unroll
		for (int i = 0; i < WIDTH; i++) (CENTER ? total : squares[0]) += CENTER ? v[k][i] : v[k][i] * v[k][i];
	}
	float center = 0;
	if constexpr (CENTER) {
		center = sum(total, 1) / DIM;
#pragma unroll
		for (int k = 0; k < EACH; k++) {
			if (!inside(k)) continue;
#pragma unroll
			for (int i = 0; i < WIDTH; i++) {
				squares[0] += (v[k][i] - center) * (v[k][i] - center);
				squares[1] += v[k][i] - center;
			}
		}
	}
	sums(squares, 0);
	float square = squares[0] / DIM;
	if constexpr (CENTER) {
		const float off = squares[1] / DIM; // how far the first mean is from the mean, because its sum was rounded
		center += off;
		square = fmaxf(0, square - off * off);
	}
	const float scale = 1 / sqrtf(square + eps);
	if (lane == 0 && row < rows) {
		rstd[row] = scale;
		if (CENTER) mean[row] = center;
	}
#pragma unroll
	for (int k = 0; k < EACH; k++) {
		if (!inside(k)) continue;
		// Read this late, they take no registers while the row is summed, and more rows are in progress.
		const Vector weight = loadCached(w, k * THREADS + lane);
		const Vector shift = CENTER && bias ? loadCached(bias, k * THREADS + lane) : Vector();
		const Vector out = each([&](int i) {
			if (CENTER) return (v[k][i] - center) * scale * weight[i] + shift[i];
			return v[k][i] * scale * weight[i];
		});
		if (ADD) store(h, at(k), v[k]);
		store(y, at(k), out);
	}
}

// Two thread blocks of backward per multiprocessor hide each other's barriers, unless a row takes too many registers.
constexpr int RESIDENT = VECTORS <= 512 ? 2 : 1;

// backward writes dx, or adds to it, and, if there are partials, writes the thread block's part of dw into its row of
// partials [grid, DIM]; if biased, that of db after it [grid, 2·DIM]. Thread blocks process the rows in strides of the
// grid, so that there are few partials. While they compute one row, the next is on its way to their registers, if these
// have room for it, and the one after that to the L2 cache: one row ahead is not enough to keep memory busy.
template <bool CENTER>
inline void backward(T *dx, float *partials, const T *dy, const T *x, const T *w, const float *mean, const float *rstd,
	int rows, int add, int biased) {
	const int lane = threadIdx.x % THREADS, group = threadIdx.x / THREADS, stride = gridDim.x * ROWS;
	constexpr bool AHEAD = EACH <= 2; // with more, the registers of a second row would be spilled
	// Widening and normalizing an element takes more time than any other part of it, so its values are kept.
	constexpr bool KEEP = EACH * WIDTH <= 16;
	auto inside = [&](int k) { return k * THREADS + lane < VECTORS; };
	auto at = [&](int row, int k) { return (long long)row * VECTORS + k * THREADS + lane; };

	Vector nextX[EACH], nextDy[EACH];
	float nextScale = 0, nextCenter = 0;
	auto read = [&](int row) {
		if (row < rows) {
			nextScale = rstd[row];
			if (CENTER) nextCenter = mean[row];
		}
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
	float dw[EACH][WIDTH], db[EACH][WIDTH];
#pragma unroll
	for (int k = 0; k < EACH; k++) {
		weight[k] = inside(k) ? loadCached(w, k * THREADS + lane) : Vector();
#pragma unroll
		for (int i = 0; i < WIDTH; i++) dw[k][i] = db[k][i] = 0;
	}
	int turn = 0;
	for (int first = blockIdx.x * ROWS; first < rows; first += stride, turn ^= 1) {
		const int row = first + group;
		Vector nowX[EACH], nowDy[EACH], before[EACH];
		if (!AHEAD) read(row);
		const float scale = nextScale, center = nextCenter;
#pragma unroll
		for (int k = 0; k < EACH; k++) {
			nowX[k] = nextX[k];
			nowDy[k] = nextDy[k];
			before[k] = add && row < rows && inside(k) ? loadStreaming(dx, at(row, k)) : Vector();
		}
		if (AHEAD) read(row + stride);
		prefetchRow(row + 2 * stride);

		float hat[KEEP ? EACH : 1][WIDTH], g[KEEP ? EACH : 1][WIDTH];
		auto normed = [&](int k, int i) { return (CENTER ? nowX[k][i] - center : nowX[k][i]) * scale; };
		auto weighted = [&](int k, int i) { return nowDy[k][i] * weight[k][i]; };
		float dots[CENTER ? 2 : 1] = {}; // of dy · w with the normalized x and with 1
#pragma unroll
		for (int k = 0; k < EACH; k++) {
#pragma unroll
			for (int i = 0; i < WIDTH; i++) {
				const float h = normed(k, i), by = weighted(k, i);
				if (KEEP) hat[k][i] = h, g[k][i] = by;
				dots[0] += by * h;
				dw[k][i] += nowDy[k][i] * h;
				if constexpr (CENTER) {
					dots[1] += by;
					db[k][i] += nowDy[k][i];
				}
			}
		}
		sums(dots, turn);
		const float along = dots[0] * scale / DIM; // the mean of g · x̂, times rstd
		float shift = 0;                           // the mean of g, times rstd
		if constexpr (CENTER) shift = dots[1] * scale / DIM;
#pragma unroll
		for (int k = 0; k < EACH; k++) {
			if (row >= rows || !inside(k)) continue;
			store(dx, at(row, k), each([&](int i) {
				const float h = KEEP ? hat[k][i] : normed(k, i), by = KEEP ? g[k][i] : weighted(k, i);
				return fmaf(by, scale, fmaf(-h, along, before[k][i] - shift));
			}));
		}
	}
	if (!partials) return;
	partials += (long long)blockIdx.x * (biased ? 2 : 1) * DIM;
	sumRows(partials, dw);
	if (CENTER && biased) sumRows(partials + DIM, db);
}
