// Softmax of rows and its gradient. The formulas are in op_softmax.go.
//
//   THREADS   threads that share a row: a power of two, at most BLOCK_DIM
//   KEPT      vectors of the row that each of them keeps in registers; 0: the row is too long, and read twice
#include "common.cuh"
#include "row.cuh"

constexpr int AT_ONCE = KEPT ? KEPT : 4; // vectors that a thread has in registers

// A Part is a thread's part of its row: the vectors lane, lane + THREADS and so on.
struct Part {
	int lane, row, rows, vectors;

	Part(int rows, int vectors)
		: lane(threadIdx.x % THREADS), row(blockIdx.x * ROWS + threadIdx.x / THREADS), rows(rows), vectors(vectors) {}
	bool inside(int k) const { return row < rows && k * THREADS + lane < vectors; }
	long long at(int k) const { return (long long)row * vectors + k * THREADS + lane; }
	// turns is how often the thread has AT_ONCE of the vectors.
	int turns() const { return KEPT ? 1 : (vectors + AT_ONCE * THREADS - 1) / (AT_ONCE * THREADS); }
	void read(Vector (&v)[AT_ONCE], const T *from, int turn) const {
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
			const int n = turn * AT_ONCE + k;
			v[k] = !inside(n) ? Vector() : KEPT ? loadStreaming(from, at(n)) : loadCached(from, at(n));
		}
	}
};

// base returns what is subtracted from elements of which top is the largest: nothing if all are −∞, whose difference
// is NaN.
inline float base(float top) { return top == -INFINITY ? 0 : top; }

// exponential returns e^x for x up to 0, as exact as the type needs. In BF16, expf would take longer than memory.
inline float exponential(float x) {
	if constexpr (sizeof(T) == 2) return exp2Rough(x * 0x1.715476p+0f);
	else return expf(x);
}

// The exponentials of a row stay in registers if there are few, and are computed twice if not.
constexpr bool HELD = KEPT > 0 && KEPT * WIDTH <= 32;

extern "C" __global__ void __launch_bounds__(BLOCK_DIM) softmax(T *y, float *lse, const T *x, int rows, int vectors) {
	waitForPrerequisites();
	const Part part(rows, vectors);
	Vector v[AT_ONCE];
	float top = -INFINITY, total = 0;
	for (int turn = 0; turn < part.turns(); turn++) {
		part.read(v, x, turn);
		const float before = top;
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
			if (!part.inside(turn * AT_ONCE + k)) continue;
#pragma unroll
			for (int i = 0; i < WIDTH; i++) top = fmaxf(top, v[k][i]);
		}
		if (KEPT) break; // the exponentials wait for the row's maximum
		total *= exponential(before - base(top));
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
			if (!part.inside(turn * AT_ONCE + k)) continue;
#pragma unroll
			for (int i = 0; i < WIDTH; i++) total += exponential(v[k][i] - base(top));
		}
	}
	const float rowTop = joined(top, 0, [](float a, float b) { return fmaxf(a, b); }), from = base(rowTop);
	float held[HELD ? AT_ONCE : 1][WIDTH];
	if (KEPT) {
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
			if (!part.inside(k)) continue;
#pragma unroll
			for (int i = 0; i < WIDTH; i++) {
				const float e = exponential(v[k][i] - from);
				if (HELD) held[HELD ? k : 0][i] = e;
				total += e;
			}
		}
	} else {
		total *= exponential(top - from); // 0 if the thread has only −∞
	}
	total = sum(total, 1);
	const float inverse = 1 / total;
	if (lse && part.lane == 0 && part.row < rows) lse[part.row] = rowTop == INFINITY ? rowTop : from + logf(total);
	for (int turn = 0; turn < part.turns(); turn++) {
		if (!KEPT) part.read(v, x, turn);
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
			const int n = turn * AT_ONCE + k;
			if (!part.inside(n)) continue;
			store(y, part.at(n), each([&](int i) {
				return (HELD ? held[HELD ? k : 0][i] : exponential(v[k][i] - from)) * inverse;
			}));
		}
	}
}

// Where one element of y is almost 1, dy − Σ dy·y cancels, and what is left has the rounding of the sum and of Σ y.
// rest is the same sum over what is left: without it such a gradient loses two or three digits.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	softmax_backward(T *dx, const T *dy, const T *y, int rows, int vectors) {
	waitForPrerequisites();
	const Part part(rows, vectors);
	Vector p[AT_ONCE], d[AT_ONCE];
	float dot = 0;
	for (int turn = 0; turn < part.turns(); turn++) {
		part.read(p, y, turn), part.read(d, dy, turn);
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
#pragma unroll
			for (int i = 0; i < WIDTH; i++) dot += p[k][i] * d[k][i];
		}
	}
	dot = sum(dot, 0);
	float rest = 0;
	for (int turn = 0; turn < part.turns(); turn++) {
		if (!KEPT) part.read(p, y, turn), part.read(d, dy, turn);
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
#pragma unroll
			for (int i = 0; i < WIDTH; i++) rest += p[k][i] * (d[k][i] - dot);
		}
	}
	rest = sum(rest, 1);
	for (int turn = 0; turn < part.turns(); turn++) {
		if (!KEPT) part.read(p, y, turn), part.read(d, dy, turn);
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
			const int n = turn * AT_ONCE + k;
			if (part.inside(n)) store(dx, part.at(n), each([&](int i) { return p[k][i] * (d[k][i] - dot - rest); }));
		}
	}
}
