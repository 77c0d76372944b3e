// Copying rows, and adding rows to others; kernels/op_gather.go and op_embedding.go have the formulas.
#include "ops.h"

// Rows to copy from one matrix to another; index holds rows of the larger one.
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

// Gather computes y[i] = x[index[i]], for whole rows.
void cpu_gather(tensor y, tensor x, tensor index) {
	int64_t n = length(index), bytes = x.cols * size_of(x.type);
	row_copies o = {(char *)y.at, (char *)x.at, (int32_t *)index.at, n, 0, bytes};
	cpu_parallel(gather, &o, n, grain(2 * bytes));
}

// Item i writes row index[i] and the zeros before it, from the index before on; item n writes the zeros after the last.
static void scatter(void *arg, int64_t lo, int64_t hi) {
	const row_copies *o = arg;
	for (int64_t i = lo; i < hi; i++) {
		int64_t from = i > 0 ? o->index[i - 1] + 1 : 0, to = i < o->n ? o->index[i] : o->rows;
		memset(o->to + from * o->bytes, 0, (size_t)((to - from) * o->bytes));
		if (i < o->n) memcpy(o->to + to * o->bytes, o->from + i * o->bytes, (size_t)o->bytes);
	}
}

// Scatter computes dx[index[i]] = dy[i], for whole rows, and zero elsewhere. index increases.
void cpu_scatter(tensor dx, tensor dy, tensor index) {
	int64_t n = length(index), bytes = dx.cols * size_of(dx.type);
	row_copies o = {(char *)dx.at, (char *)dy.at, (int32_t *)index.at, n, dx.rows, bytes};
	cpu_parallel(scatter, &o, n + 1, grain(2 * bytes));
}

typedef struct {
	float *dtable;
	const void *dy;
	const int32_t *ids;
	int64_t rows, dim;
	int32_t pad;
	dtype type; // of dy
} embedding_gradient;

// Each task has some columns to itself, and processes all rows in their order.
static void embedding_backward(void *arg, int64_t lo, int64_t hi) {
	const embedding_gradient *o = arg;
	for (int64_t r = 0; r < o->rows; r++) {
		if (o->ids[r] == o->pad) continue;
		float *restrict to = o->dtable + o->ids[r] * o->dim;
		FOR_TYPE(o->type, for (int64_t i = lo; i < hi; i++) to[i] += element(o->dy, r * o->dim + i, type));
	}
}

// EmbeddingBackward computes dtable[ids[r]] += dy[r] for ids other than pad.
void cpu_embedding_backward(tensor dtable, tensor dy, tensor ids, int64_t pad) {
	int64_t rows = length(ids), dim = dtable.cols;
	embedding_gradient o = {(float *)dtable.at, (void *)dy.at, (int32_t *)ids.at, rows, dim, (int32_t)pad, dy.type};
	enum { LINE = 64 }; // columns: a few cache lines, so that tasks share none
	int64_t n = grain(rows * 12);
	cpu_parallel(embedding_backward, &o, dim, n > LINE ? (n + LINE - 1) / LINE * LINE : LINE);
}
