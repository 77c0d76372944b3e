// The steps of unfused attention, apart from products, on one sequence's scores, [heads, len, len] floats in memory.
// kernels/attention_eager.go has the formulas. Row r of the scores is query r % len of head r / len; it sees the same
// keys as in the fused kernel, attention.h.
#ifndef LEVEL
#include "ops.h"

#include <math.h>

#define EACH_LEVEL "ops_attention.c"
#include "each_level.h"

typedef void (*row_kernel)(float *s, void *p, float *value, int64_t lo, int64_t hi, float scale, dtype type);

static const row_kernel softmax_row[CPU_LEVELS] = AT_EACH_LEVEL(softmax_row);
static const row_kernel softmax_row_from_lse[CPU_LEVELS] = AT_EACH_LEVEL(softmax_row_from_lse);
static const row_kernel softmax_row_backward[CPU_LEVELS] = AT_EACH_LEVEL(softmax_row_backward);
static float (*const dot_row[CPU_LEVELS])(const void *, const void *, int64_t, dtype) = AT_EACH_LEVEL(dot_row);
static void (*const copy_row[CPU_LEVELS])(void *, const void *, int64_t, dtype) = AT_EACH_LEVEL(copy_row);

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

static void dots_task(void *arg, int64_t lo, int64_t hi) {
	const elements *o = arg;
	const int64_t heads = o->y.rows, dim = o->a.cols / heads, size = size_of(o->a.type);
	for (int64_t i = lo; i < hi; i++)
		for (int64_t h = 0; h < heads; h++) {
			float *to = (float *)row(o->y, h, F32) + i;
			*to = dot_row[cpu_level()]((char *)row(o->a, i, o->a.type) + h * dim * size,
				(char *)row(o->b, i, o->b.type) + h * dim * size, dim, o->a.type);
		}
}

// HeadDots computes y[h, i] = the product of head h of row i of a and b, [len, heads·dim]; y is [heads, len], F32.
void cpu_head_dots(tensor y, tensor a, tensor b) {
	elements o = {.y = y, .a = a, .b = b};
	cpu_parallel(dots_task, &o, a.rows, grain(a.cols * 4));
}

static void copy_task(void *arg, int64_t lo, int64_t hi) {
	const elements *o = arg;
	for (int64_t i = lo; i < hi; i++)
		copy_row[cpu_level()](row(o->y, i, o->y.type), row(o->a, i, F32), o->y.cols, o->y.type);
}

// StoreRows computes y = a, which is F32, rounded to the type of y.
void cpu_store_rows(matrix y, tensor a) {
	elements o = {.y = y, .a = a};
	cpu_parallel(copy_task, &o, y.rows, grain(y.cols * 4));
}

#else
#include "ops_loops.h"

// softmax_row computes weights from the scores lo to hi, which are seen, and leaves the exponentials in s.
static void AT_LEVEL(softmax_row)(float *s, void *p, float *lse, int64_t lo, int64_t hi, float scale, dtype type) {
	vec tops = vset(-INFINITY);
	int64_t j = lo;
	for (; j + VLEN <= hi; j += VLEN) tops = vmax(vload(s + j), tops);
	float top = vhmax(tops);
	for (; j < hi; j++) top = s[j] > top ? s[j] : top;
	const float above = top > -INFINITY ? top * scale : 0;
	float sum = 0;
	vec sums = vzero();
	EACH(i, n, lo, hi, {
		vec e = vexp(ld(s, i, n, F32) * scale - above);
		st(s, i, n, e, F32);
		if (n == VLEN) sums += e;
		else for (int k = 0; k < n; k++) sum += e[k];
	});
	sum += vsum(sums);
	*lse = above + logf(sum);
	EACH(i, n, lo, hi, st(p, i, n, ld(s, i, n, F32) * (1 / sum), type););
}

static void AT_LEVEL(softmax_row_from_lse)(
	float *s, void *p, float *lse, int64_t lo, int64_t hi, float scale, dtype type) {
	EACH(i, n, lo, hi, st(p, i, n, vexp(ld(s, i, n, F32) * scale - *lse), type););
}

static void AT_LEVEL(softmax_row_backward)(
	float *ds, void *p, float *delta, int64_t lo, int64_t hi, float scale, dtype type) {
	EACH(i, n, lo, hi, st(p, i, n, ld(p, i, n, type) * (ld(ds, i, n, F32) - *delta) * scale, type););
}

static float AT_LEVEL(dot_row)(const void *x, const void *y, int64_t dim, dtype type) {
	vec sum = vzero();
	EACH(i, n, 0, dim, sum += ld(x, i, n, type) * ld(y, i, n, type););
	return vsum(sum);
}

static void AT_LEVEL(copy_row)(void *to, const void *from, int64_t dim, dtype type) {
	EACH(i, n, 0, dim, st(to, i, n, ld(from, i, n, F32), type););
}
#endif
