// Norms of rows and their gradients: RMSNorm, and LayerNorm if CENTER is true. The formulas are in op_rmsnorm.go and
// op_layernorm.go.
//
// A row is read once: the threads that share it keep it in registers while they sum over it.
//
//   THREADS   threads that share a row: a power of two, at most BLOCK_DIM
//   STAGES    rows of a thread in the gradient's ring in shared memory, or 0
#pragma once
#include "common.cuh"
#include "mma.cuh"
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

// A source that only launches forward does not define STAGES.
#ifndef STAGES
#define STAGES 0
#endif

// backward writes dx, or adds to it, and, if there are partials, writes the thread block's part of dw into its row of
// partials [grid, DIM]; if biased, its part of db after it [grid, 2·DIM]. Thread blocks process the rows in strides of
// the grid, so that there are few partials.
//
// Memory is kept busy by a ring in shared memory. It has STAGES places for a row of x, dy and, to add, dx. While a row
// is computed from one place, the rows of the thread block's next turns are being copied to the others, without taking
// registers. A thread copies just what it reads itself, so it waits for its own copies only. Registers keep the
// normalized x and dy · w from the first pass over a row to the second, since computing them again takes longer than
// anything else; of rows that are too long for that, the second pass reads the operands again.
//
// With 0 STAGES there is no ring: rows have no vectors of 16 bytes, which copies take, or the GPU has no room for two
// places. Then the next rows are prefetched to the L2 cache, and read from there when their turn has come.
template <bool CENTER>
inline void backward(T *dx, float *partials, const T *dy, const T *x, const T *w, const float *mean, const float *rstd,
	int rows, int add, int biased) {
	enum Operand { X, DY, DX, OPERANDS };
	extern __shared__ uint4 ring[]; // [STAGES, OPERANDS, EACH, BLOCK_DIM]
	const int lane = threadIdx.x % THREADS, group = threadIdx.x / THREADS, stride = gridDim.x * ROWS;
	constexpr int AHEAD = STAGES > 0 ? STAGES - 1 : 2; // rows on their way
	constexpr bool KEEP = EACH * WIDTH <= 16;
	auto inside = [&](int k) { return k * THREADS + lane < VECTORS; };
	auto at = [&](int row, int k) { return (long long)row * VECTORS + k * THREADS + lane; };
	auto place = [&](int stage, Operand o, int k) {
		return ring + ((stage * OPERANDS + o) * EACH + k) * BLOCK_DIM + threadIdx.x;
	};
	auto fetch = [&](int row, int stage) {
#pragma unroll
		for (int k = 0; k < EACH; k++) {
			const bool there = row < rows && inside(k);
			if (STAGES > 0) {
				copyAsync(place(stage, X, k), x + at(row, k) * WIDTH, there);
				copyAsync(place(stage, DY, k), dy + at(row, k) * WIDTH, there);
				if (add) copyAsync(place(stage, DX, k), dx + at(row, k) * WIDTH, there);
			} else if (there) {
				prefetch(x, at(row, k));
				prefetch(dy, at(row, k));
				if (add) prefetch(dx, at(row, k));
			}
		}
		if (STAGES > 0) copyCommit();
	};
	float nextScale = 0, nextCenter = 0;
	auto readStatistics = [&](int row) {
		if (row >= rows) return;
		nextScale = rstd[row];
		if (CENTER) nextCenter = mean[row];
	};
#pragma unroll
	for (int n = 0; n < AHEAD; n++) fetch(blockIdx.x * ROWS + group + n * stride, n);
	readStatistics(blockIdx.x * ROWS + group);

	Vector weight[EACH];
	float dw[EACH][WIDTH], db[EACH][WIDTH];
#pragma unroll
	for (int k = 0; k < EACH; k++) {
		weight[k] = inside(k) ? loadCached(w, k * THREADS + lane) : Vector();
#pragma unroll
		for (int i = 0; i < WIDTH; i++) dw[k][i] = db[k][i] = 0;
	}
	int turn = 0, stage = 0;
	for (int first = blockIdx.x * ROWS; first < rows; first += stride, turn ^= 1) {
		const int row = first + group;
		fetch(row + AHEAD * stride, stage == 0 ? AHEAD : stage - 1); // where the previous row was
		// A row of one element is its own mean, so that its gradient is 0: rounding would leave 2⁻²⁴ of dy · w · rstd.
		const float scale = nextScale, center = nextCenter, outer = CENTER && DIM == 1 ? 0 : scale;
		readStatistics(row + stride);
		if (STAGES > 0) copyWait<AHEAD>();
		auto read = [&](const T *from, Operand o, int k) {
			if (STAGES > 0) return loadCached((const T *)place(stage, o, k), 0);
			return row < rows && inside(k) ? loadStreaming(from, at(row, k)) : Vector();
		};
		Vector before[EACH];
#pragma unroll
		for (int k = 0; k < EACH; k++) before[k] = STAGES == 0 && add ? read(dx, DX, k) : Vector();

		float hat[KEEP ? EACH : 1][WIDTH], g[KEEP ? EACH : 1][WIDTH];
		auto normed = [&](float v) { return (CENTER ? v - center : v) * scale; };
		float dots[CENTER ? 2 : 1] = {}; // of dy · w with the normalized x and with 1
#pragma unroll
		for (int k = 0; k < EACH; k++) {
			const Vector nowX = read(x, X, k), nowDy = read(dy, DY, k);
#pragma unroll
			for (int i = 0; i < WIDTH; i++) {
				const float h = normed(nowX[i]), by = nowDy[i] * weight[k][i];
				if (KEEP) hat[k][i] = h, g[k][i] = by;
				dots[0] += by * h;
				dw[k][i] += nowDy[i] * h;
				if constexpr (CENTER) {
					dots[1] += by;
					db[k][i] += nowDy[i];
				}
			}
		}
		sums(dots, turn);
		const float along = dots[0] * outer / DIM; // the mean of g · x̂, times rstd
		float shift = 0;                           // the mean of g, times rstd
		if constexpr (CENTER) shift = dots[1] * outer / DIM;
#pragma unroll
		for (int k = 0; k < EACH; k++) {
			if (row >= rows || !inside(k)) continue;
			Vector nowX, nowDy;
			if (!KEEP) nowX = read(x, X, k), nowDy = read(dy, DY, k);
			if (STAGES > 0 && add) before[k] = read(dx, DX, k);
			store(dx, at(row, k), each([&](int i) {
				const float h = KEEP ? hat[k][i] : normed(nowX[i]), by = KEEP ? g[k][i] : nowDy[i] * weight[k][i];
				return fmaf(by, outer, fmaf(-h, along, before[k][i] - shift));
			}));
		}
		stage = stage == AHEAD ? 0 : stage + 1;
	}
	if (!partials) return;
	partials += (long long)blockIdx.x * (biased ? 2 : 1) * DIM;
	sumRows(partials, dw);
	if (CENTER && biased) sumRows(partials + DIM, db);
}
