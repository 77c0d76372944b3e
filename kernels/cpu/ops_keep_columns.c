// KeepColumns; kernels/op_keep_columns.go has the formula.
#include "ops.h"

typedef struct {
	tensor y, x;
	const int32_t *columns;
	int64_t n;
} kept_columns;

static void keep_columns(void *arg, int64_t lo, int64_t hi) {
	const kept_columns *o = arg;
	const int64_t size = size_of(o->x.type), bytes = o->n * size;
	for (int64_t r = lo; r < hi; r++) {
		const int64_t from = o->columns[2 * r] * size, to = o->columns[2 * r + 1] * size;
		char *y = row(o->y, r, o->y.type), *x = row(o->x, r, o->x.type);
		for (int64_t part = 0; part < o->x.cols * size; part += bytes) {
			memset(y + part, 0, (size_t)from);
			if (y != x) memcpy(y + part + from, x + part + from, (size_t)(to - from));
			memset(y + part + to, 0, (size_t)(bytes - to));
		}
	}
}

// KeepColumns computes y[r,j] = x[r,j] for columns[r,0] ≤ j mod n < columns[r,1], and 0 for the others.
void cpu_keep_columns(tensor y, tensor x, tensor columns, int64_t n) {
	kept_columns o = {y, x, (int32_t *)columns.at, n};
	cpu_parallel(keep_columns, &o, x.rows, grain(2 * x.cols * size_of(x.type)));
}
