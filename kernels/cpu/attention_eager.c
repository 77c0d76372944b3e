#include "attention_eager.h"

#include "pool.h"

#define EACH_LEVEL "attention_eager_loops.h"
#include "each_level.h"

typedef void (*row_kernel)(float *s, void *p, float *value, int64_t lo, int64_t hi, float scale, dtype type);

static const row_kernel softmax_row[CPU_LEVELS] = AT_EACH_LEVEL(softmax_row);
static const row_kernel softmax_row_again[CPU_LEVELS] = AT_EACH_LEVEL(softmax_row_again);
static const row_kernel softmax_row_backward[CPU_LEVELS] = AT_EACH_LEVEL(softmax_row_backward);
static float (*const dot_row[CPU_LEVELS])(const void *, const void *, int64_t, dtype) = AT_EACH_LEVEL(dot_row);
static void (*const copy_row[CPU_LEVELS])(void *, const float *, int64_t, dtype) = AT_EACH_LEVEL(copy_row);

struct rows {
	const cpu_scores *s;
	row_kernel kernel;
	float *value; // of each row
	int64_t value_stride;
};

static void rows_task(void *arg, int64_t from, int64_t to) {
	const struct rows *r = arg;
	const cpu_scores *s = r->s;
	const int64_t len = s->len, size = size_of(s->type);
	for (int64_t row = from; row < to; row++) {
		int64_t h = row / len, i = row % len, lo = s->window > 0 && i >= s->window ? i - s->window + 1 : 0;
		char *p = (char *)s->weights + row * len * size;
		memset(p, 0, (size_t)(lo * size));
		memset(p + (i + 1) * size, 0, (size_t)((len - i - 1) * size));
		r->kernel((float *)s->scores + row * len, p, r->value + h * r->value_stride + i, lo, i + 1, s->scale, s->type);
	}
}

// A piece of work is some 16 thousand elements, however long the rows are.
static int64_t grain(int64_t row) { return row < 16384 ? 16384 / (row + 1) : 1; }

static void all_rows(const cpu_scores *s, row_kernel kernel, uintptr_t value, int64_t stride) {
	struct rows r = {s, kernel, (float *)value, stride};
	cpu_parallel(rows_task, &r, s->heads * s->len, grain(s->len));
}

void cpu_softmax(const cpu_scores *s) { all_rows(s, softmax_row[cpu_level()], s->lse, s->lse_stride); }

void cpu_softmax_again(const cpu_scores *s) { all_rows(s, softmax_row_again[cpu_level()], s->lse, s->lse_stride); }

void cpu_softmax_backward(const cpu_scores *s, uintptr_t delta) {
	all_rows(s, softmax_row_backward[cpu_level()], delta, s->len);
}

struct vectors {
	uintptr_t to, x, y;
	int64_t heads, len, dim, stride;
	dtype type;
};

static void dots_task(void *arg, int64_t lo, int64_t hi) {
	const struct vectors *v = arg;
	for (int64_t i = lo; i < hi; i++)
		for (int64_t h = 0; h < v->heads; h++) {
			int64_t at = (i * v->heads + h) * v->dim * size_of(v->type);
			((float *)v->to)[h * v->len + i] = dot_row[cpu_level()]((void *)(v->x + at), (void *)(v->y + at), v->dim, v->type);
		}
}

void cpu_head_dots(uintptr_t out, uintptr_t x, uintptr_t y, int64_t heads, int64_t len, int64_t dim, dtype type) {
	struct vectors v = {.to = out, .x = x, .y = y, .heads = heads, .len = len, .dim = dim, .type = type};
	cpu_parallel(dots_task, &v, len, grain(heads * dim));
}

static void store_task(void *arg, int64_t lo, int64_t hi) {
	const struct vectors *v = arg;
	for (int64_t i = lo; i < hi; i++)
		copy_row[cpu_level()]((char *)v->to + i * v->stride * size_of(v->type), (float *)v->x + i * v->dim, v->dim, v->type);
}

void cpu_store_rows(uintptr_t to, int64_t stride, uintptr_t from, int64_t n, int64_t dim, dtype type) {
	struct vectors v = {.to = to, .x = from, .dim = dim, .stride = stride, .type = type};
	cpu_parallel(store_task, &v, n, grain(dim));
}
