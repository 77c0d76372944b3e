// Softmax and its gradient: of whole rows, and of the scores of unfused attention. The formulas are in
// kernels/op_softmax.go and kernels/op_attention_eager.go.
#ifndef LEVEL
#include "ops.h"

#include <math.h>

#define EACH_LEVEL "ops_softmax.c"
#include "each_level.h"

TASKS(softmax);
TASKS(softmax_backward);

// Softmax computes y = eˣ / Σ eˣ for each row and, if lse is a matrix, lse = log Σ eˣ.
void cpu_softmax(tensor y, matrix lse, tensor x) {
	each_row(softmax, (elements){.y = y, .y2 = lse, .a = x}, 3);
}

// SoftmaxBackward computes the gradient of Softmax, dx = y · (dy - Σ dy·y).
void cpu_softmax_backward(tensor dx, tensor dy, tensor y) {
	each_row(softmax_backward, (elements){.y = dx, .a = y, .dy = dy}, 3);
}

typedef void (*row_kernel)(float *s, void *p, float *value, int64_t lo, int64_t hi, float scale, dtype type);

static const row_kernel softmax_row[CPU_LEVELS] = AT_EACH_LEVEL(softmax_row);
static const row_kernel softmax_row_from_lse[CPU_LEVELS] = AT_EACH_LEVEL(softmax_row_from_lse);
static const row_kernel softmax_row_backward[CPU_LEVELS] = AT_EACH_LEVEL(softmax_row_backward);

// Attention's scores are one sequence's, [heads, len, len] floats in memory. Row r is query r % len of head r / len; it
// sees the same keys as in the fused kernel, attention.h.
typedef struct {
	row_kernel kernel;
	tensor weights, scores;
	matrix values; // a float for each head and query
	int64_t window;
	bool causal;
	float scale;
} softmax_operands;

static void softmax_task(void *arg, int64_t from, int64_t to) {
	const softmax_operands *o = arg;
	const dtype type = o->weights.type;
	const int64_t len = o->weights.cols, size = size_of(type);
	for (int64_t r = from; r < to; r++) {
		int64_t h = r / len, i = r % len, lo = o->window > 0 && i >= o->window ? i - o->window + 1 : 0,
				hi = o->causal ? i + 1 : len;
		char *p = row(o->weights, r, type);
		memset(p, 0, (size_t)(lo * size));
		memset(p + hi * size, 0, (size_t)((len - hi) * size));
		o->kernel(row(o->scores, r, F32), p, (float *)row(o->values, h, F32) + i, lo, hi, o->scale, type);
	}
}

static void each_score_row(softmax_operands o) {
	cpu_parallel(softmax_task, &o, o.weights.rows, grain(o.weights.cols * 4));
}

// AttentionSoftmax computes weights [heads, len, len] and lse [heads, len] from the scores, which it overwrites. Keys
// that are not seen get weight 0.
void cpu_attention_softmax(tensor weights, matrix lse, tensor scores, int64_t window, bool causal, float scale) {
	each_score_row((softmax_operands){softmax_row[cpu_level()], weights, scores, lse, window, causal, scale});
}

// AttentionSoftmaxFromLSE computes weights from the scores and lse.
void cpu_attention_softmax_from_lse(
	tensor weights, matrix lse, tensor scores, int64_t window, bool causal, float scale) {
	each_score_row((softmax_operands){softmax_row_from_lse[cpu_level()], weights, scores, lse, window, causal, scale});
}

// AttentionSoftmaxBackward turns the weights into the gradients of the scores. scores holds the gradients of the
// weights, and delta [heads, len] holds Σ dy·y.
void cpu_attention_softmax_backward(
	tensor weights, tensor delta, tensor scores, int64_t window, bool causal, float scale) {
	each_score_row((softmax_operands){softmax_row_backward[cpu_level()], weights, scores, delta, window, causal, scale});
}

#else
#include "ops_loops.h"

#define softmax_of AT_LEVEL(softmax_of)

// softmax_of computes p from the elements lo to hi of x, which are scaled, and their lse. It leaves the exponentials in
// kept, or computes them twice if that is NULL. In a row with a NaN or an infinite maximum, all of p are NaN.
INLINE void softmax_of(const void *x, const dtype from, float *kept, void *p, const dtype to, float *lse, int64_t lo,
	int64_t hi, float scale) {
	vec tops = vset(-INFINITY), sums = vzero();
	float top = -INFINITY, sum = 0;
	EACH(i, n, lo, hi, {
		vec v = ld(x, i, n, from);
		if (n == VLEN) tops = vmax(v, tops); // a NaN is no maximum
		else for (int k = 0; k < n; k++) top = v[k] > top ? v[k] : top;
	});
	const float of_vectors = vhmax(tops);
	if (of_vectors > top) top = of_vectors;
	const float most = top > -INFINITY ? top * scale : 0;
	const float base = fabsf(most) < HUGE_SCORE ? 0 : top, above = base == 0 ? most : 0;
	EACH(i, n, lo, hi, {
		vec e = vexp((ld(x, i, n, from) - base) * scale - above);
		if (kept) st(kept, i, n, e, F32);
		if (n == VLEN) sums += e;
		else for (int k = 0; k < n; k++) sum += e[k];
	});
	sum += vsum(sums);
	*lse = top == INFINITY ? top : most + logf(sum);
	EACH(i, n, lo, hi, {
		vec e = kept ? ld(kept, i, n, F32) : vexp((ld(x, i, n, from) - base) * scale - above);
		st(p, i, n, e * (1 / sum), to);
	});
}

BODY(softmax, elements) {
	for (int64_t r = lo; r < hi; r++) {
		float unused, *lse = o->y2.at ? (float *)o->y2.at + r : &unused;
		void *y = row(o->y, r, type), *x = row(o->a, r, type);
		softmax_of(x, type, type == F32 ? y : NULL, y, type, lse, 0, o->y.cols, 1);
	}
}
EACH_TYPE(softmax)

BODY(softmax_backward, elements) {
	for (int64_t r = lo; r < hi; r++) {
		void *dx = row(o->y, r, type), *y = row(o->a, r, type), *dy = row(o->dy, r, type);
		vec sums = vzero();
		EACH(i, n, 0, o->y.cols, sums += ld(y, i, n, type) * ld(dy, i, n, type););
		const float sum = vsum(sums);
		// Where one element of y is almost 1, dy - sum cancels, and what is left has the rounding of sum and of Σ y.
		sums = vzero();
		EACH(i, n, 0, o->y.cols, sums += ld(y, i, n, type) * (ld(dy, i, n, type) - sum););
		const float rest = vsum(sums);
		EACH(i, n, 0, o->y.cols, st(dx, i, n, ld(y, i, n, type) * (ld(dy, i, n, type) - sum - rest), type););
	}
}
EACH_TYPE(softmax_backward)

// softmax_row computes weights from the scores lo to hi, which are seen, and leaves the exponentials in s.
static void AT_LEVEL(softmax_row)(float *s, void *p, float *lse, int64_t lo, int64_t hi, float scale, dtype type) {
	softmax_of(s, F32, s, p, type, lse, lo, hi, scale);
}

static void AT_LEVEL(softmax_row_from_lse)(
	float *s, void *p, float *lse, int64_t lo, int64_t hi, float scale, dtype type) {
	// Apart from rounding an exponent is at most 0. For huge scores rounding can make it some hundred.
	EACH(i, n, lo, hi, st(p, i, n, vexp(vmin(vset(1), ld(s, i, n, F32) * scale - *lse)), type););
}

static void AT_LEVEL(softmax_row_backward)(
	float *ds, void *p, float *delta, int64_t lo, int64_t hi, float scale, dtype type) {
	EACH(i, n, lo, hi, st(p, i, n, ld(p, i, n, type) * (ld(ds, i, n, F32) - *delta) * scale, type););
}

#endif
