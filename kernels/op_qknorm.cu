// RMSNorm over every head of q and k, and its gradient. The formulas are in op_qknorm.go. A row is a head here; DIM is
// its length.
//
//   THREADS   threads that share a head: a power of two, at most BLOCK_DIM
#include "common.cuh"
#include "row.cuh"

// A Head is the head of q, k or v that a thread works on.
struct Head {
	bool there, q, k;
	int statistic; // index in rstd
	Head(int n, int rows, int heads, int kvHeads) {
		const int all = heads + 2 * kvHeads, at = n % all;
		there = n < rows * all, q = at < heads, k = !q && at < heads + kvHeads;
		statistic = n / all * (heads + kvHeads) + at;
	}
};

extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	qknorm(T *y, float *rstd, const T *qkv, const T *wq, const T *wk, int rows, int heads, int kvHeads, float eps) {
	waitForPrerequisites();
	const int lane = threadIdx.x % THREADS, n = blockIdx.x * ROWS + threadIdx.x / THREADS;
	const Head h(n, rows, heads, kvHeads);
	auto inside = [&](int i) { return h.there && i * THREADS + lane < VECTORS; };
	auto at = [&](int i) { return (long long)n * VECTORS + i * THREADS + lane; };
	const T *w = h.q ? wq : wk;
	Vector v[EACH], weight[EACH];
	float squares = 0;
#pragma unroll
	for (int k = 0; k < EACH; k++) {
		v[k] = inside(k) ? loadStreaming(qkv, at(k)) : Vector();
		weight[k] = inside(k) ? loadCached(w, k * THREADS + lane) : Vector();
	}
#pragma unroll
	for (int k = 0; k < EACH; k++) {
#pragma unroll
		for (int i = 0; i < WIDTH; i++) squares += v[k][i] * v[k][i];
	}
	const float scale = 1 / sqrtf(sum(squares, 0) / DIM + eps);
	const bool normed = h.q || h.k;
	if (lane == 0 && h.there && normed) rstd[h.statistic] = scale;
#pragma unroll
	for (int k = 0; k < EACH; k++) {
		if (!inside(k)) continue;
		if (normed) store(y, at(k), each([&](int i) { return v[k][i] * scale * weight[k][i]; }));
		else if (y != qkv) store(y, at(k), v[k]);
	}
}

// qknorm_backward writes dqkv and, if there are partials, the thread block's parts of dwq and dwk into its row of
// partials [grid, 2·DIM]. While thread blocks compute some heads, those one grid later are on their way to the
// registers.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM, EACH == 1 ? 2 : 1) qknorm_backward(T *dqkv, float *partials,
	const T *dy, const T *qkv, const T *wq, const T *wk, const float *rstd, int rows, int heads, int kvHeads) {
	waitForPrerequisites();
	const int lane = threadIdx.x % THREADS, group = threadIdx.x / THREADS, stride = gridDim.x * ROWS;
	const int count = rows * (heads + 2 * kvHeads);
	auto inside = [&](int k) { return k * THREADS + lane < VECTORS; };
	auto at = [&](int n, int k) { return (long long)n * VECTORS + k * THREADS + lane; };

	Vector nextX[EACH], nextDy[EACH];
	float nextScale = 0;
	auto read = [&](int n) {
		const Head h(n, rows, heads, kvHeads);
		if (h.there && (h.q || h.k)) nextScale = rstd[h.statistic];
#pragma unroll
		for (int k = 0; k < EACH; k++) {
			nextX[k] = nextDy[k] = Vector();
			if (!h.there || !inside(k)) continue;
			nextX[k] = loadStreaming(qkv, at(n, k));
			nextDy[k] = loadStreaming(dy, at(n, k));
		}
	};
	float dw[2][EACH][WIDTH];
#pragma unroll
	for (int k = 0; k < EACH; k++) {
#pragma unroll
		for (int i = 0; i < WIDTH; i++) dw[0][k][i] = dw[1][k][i] = 0;
	}
	read(blockIdx.x * ROWS + group);
	int turn = 0;
	for (int first = blockIdx.x * ROWS; first < count; first += stride, turn ^= 1) {
		const int n = first + group;
		const Head h(n, rows, heads, kvHeads);
		const float scale = nextScale;
		Vector x[EACH], d[EACH], weight[EACH];
		float dot = 0;
#pragma unroll
		for (int k = 0; k < EACH; k++) {
			x[k] = nextX[k];
			d[k] = nextDy[k];
			weight[k] = inside(k) ? loadCached(h.q ? wq : wk, k * THREADS + lane) : Vector();
		}
		read(n + stride);
#pragma unroll
		for (int k = 0; k < EACH; k++) {
#pragma unroll
			for (int i = 0; i < WIDTH; i++) {
				const float normed = x[k][i] * scale;
				dot += d[k][i] * weight[k][i] * x[k][i];
				dw[0][k][i] += h.q ? d[k][i] * normed : 0;
				dw[1][k][i] += h.k ? d[k][i] * normed : 0;
			}
		}
		const float mean = sum(dot, turn) * scale * scale / DIM; // of g · x̂, times rstd
#pragma unroll
		for (int k = 0; k < EACH; k++) {
			if (!h.there || !inside(k)) continue;
			if (h.q || h.k) {
				store(dqkv, at(n, k), each([&](int i) { return scale * (d[k][i] * weight[k][i] - x[k][i] * mean); }));
			} else if (dqkv != dy) {
				store(dqkv, at(n, k), d[k]);
			}
		}
	}
	if (!partials) return;
	float *part = partials + (long long)blockIdx.x * 2 * DIM;
	sumRows(part, dw[0]);
	sumRows(part + DIM, dw[1]);
}
