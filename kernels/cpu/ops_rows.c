#include "level.h"
#include "ops.h"
#include "ops_piece.h"
#include "pool.h"

#include <string.h>

// Rows that are copied from one matrix to another; index are those of the larger one.
typedef struct {
	char *to;
	const char *from;
	const int32_t *index;
	int64_t n, rows, bytes;
} row_copies;

static void gather(void *arg, int64_t lo, int64_t hi) {
	const row_copies *o = arg;
	for (int64_t i = lo; i < hi; i++) memcpy(o->to + i * o->bytes, o->from + o->index[i] * o->bytes, (size_t)o->bytes);
}

void cpu_gather(uintptr_t y, uintptr_t x, uintptr_t index, int64_t n, int64_t row_bytes) {
	row_copies o = {(char *)y, (char *)x, (int32_t *)index, n, 0, row_bytes};
	cpu_parallel(gather, &o, n, piece(2 * row_bytes));
}

// Item i writes row index[i] and the zeros before it, from the index before on; item n the zeros behind the last.
static void scatter(void *arg, int64_t lo, int64_t hi) {
	const row_copies *o = arg;
	for (int64_t i = lo; i < hi; i++) {
		int64_t from = i > 0 ? o->index[i - 1] + 1 : 0, to = i < o->n ? o->index[i] : o->rows;
		memset(o->to + from * o->bytes, 0, (size_t)((to - from) * o->bytes));
		if (i < o->n) memcpy(o->to + to * o->bytes, o->from + i * o->bytes, (size_t)o->bytes);
	}
}

void cpu_scatter(uintptr_t dx, uintptr_t dy, uintptr_t index, int64_t n, int64_t rows, int64_t row_bytes) {
	row_copies o = {(char *)dx, (char *)dy, (int32_t *)index, n, rows, row_bytes};
	cpu_parallel(scatter, &o, n + 1, piece(2 * row_bytes));
}

typedef struct {
	float *dtable;
	const void *dy;
	const int32_t *ids;
	int64_t rows, dim;
	int32_t pad;
	int bf16;
} embedding_gradient;

// Each task has some columns to itself, and goes through all rows in their order.
static void embedding_backward(void *arg, int64_t lo, int64_t hi) {
	const embedding_gradient *o = arg;
	for (int64_t r = 0; r < o->rows; r++) {
		if (o->ids[r] == o->pad) continue;
		float *restrict to = o->dtable + o->ids[r] * o->dim;
		if (o->bf16) {
			const uint16_t *restrict from = (const uint16_t *)o->dy + r * o->dim;
			for (int64_t i = lo; i < hi; i++) {
				union { uint32_t bits; float f; } x = {.bits = (uint32_t)from[i] << 16};
				to[i] += x.f;
			}
		} else {
			const float *restrict from = (const float *)o->dy + r * o->dim;
			for (int64_t i = lo; i < hi; i++) to[i] += from[i];
		}
	}
}

void cpu_embedding_backward(uintptr_t dtable, uintptr_t dy, uintptr_t ids, int64_t rows, int64_t dim, int32_t pad, int bf16) {
	embedding_gradient o = {(float *)dtable, (void *)dy, (int32_t *)ids, rows, dim, pad, bf16};
	enum { LINE = 64 }; // columns: a few cache lines, so that tasks share none
	int64_t grain = piece(rows * 12);
	cpu_parallel(embedding_backward, &o, dim, grain > LINE ? (grain + LINE - 1) / LINE * LINE : LINE);
}
