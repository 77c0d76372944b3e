// The steps of unfused attention, apart from products and softmax. kernels/op_attention_eager.go has the formulas.
#ifndef LEVEL
#include "ops.h"

#define EACH_LEVEL "ops_attention.c"
#include "each_level.h"

static float (*const dot_row[CPU_LEVELS])(const void *, const void *, int64_t, dtype) = AT_EACH_LEVEL(dot_row);
static void (*const copy_row[CPU_LEVELS])(void *, const void *, int64_t, float, dtype) = AT_EACH_LEVEL(copy_row);

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
		copy_row[cpu_level()](row(o->y, i, o->y.type), row(o->a, i, F32), o->y.cols, o->scale, o->y.type);
}

// StoreRows computes y = scale·a, with an a in F32, rounded to the type of y.
void cpu_store_rows(matrix y, tensor a, float scale) {
	elements o = {.y = y, .a = a, .scale = scale};
	cpu_parallel(copy_task, &o, y.rows, grain(y.cols * 4));
}

#else
#include "ops_loops.h"

static float AT_LEVEL(dot_row)(const void *x, const void *y, int64_t dim, dtype type) {
	vec sum = vzero();
	EACH(i, n, 0, dim, sum += ld(x, i, n, type) * ld(y, i, n, type););
	return vsum(sum);
}

static void AT_LEVEL(copy_row)(void *to, const void *from, int64_t dim, float scale, dtype type) {
	EACH(i, n, 0, dim, st(to, i, n, scale * ld(from, i, n, F32), type););
}
#endif
