#include "ops.h"
#include "ops_piece.h"
#include "pool.h"

// One norm, forward or backward. Forward, h is x + b where these are added. Backward, y is the gradient of x.
typedef struct {
	void *y, *h, *x, *b, *dy;
	const void *w, *wk; // wk: that of the keys' heads, where w is that of the queries'
	float *rstd, *dw, *partials;
	int64_t dim, heads, kv_heads;
	int64_t block, blocks, width; // rows that share partials, how many of these there are, floats in each
	float eps;
	int add;
} norm;

// part is where element i of x is.
static inline void *part(const void *x, int64_t i, int bf16) { return (char *)x + i * (bf16 ? 2 : 4); }

#define EACH_LEVEL "ops_norm_loops.h"
#include "each_level.h"

TASKS(rmsnorm);
TASKS(add_rmsnorm);
TASKS(qknorm);
TASKS(rmsnorm_backward);
TASKS(qknorm_backward);
static const cpu_task sum_partials[CPU_LEVELS] = AT_EACH_LEVEL(sum_partials);

void cpu_rmsnorm(uintptr_t y, uintptr_t rstd, uintptr_t x, uintptr_t w, int64_t rows, int64_t dim, float eps, int bf16) {
	norm o = {.y = (void *)y, .x = (void *)x, .w = (void *)w, .rstd = (float *)rstd, .dim = dim, .eps = eps};
	cpu_parallel(rmsnorm[bf16][cpu_level()], &o, rows, piece(dim * 2 * (bf16 ? 2 : 4)));
}

void cpu_add_rmsnorm(uintptr_t y, uintptr_t rstd, uintptr_t h, uintptr_t a, uintptr_t b, uintptr_t w, int64_t rows,
	int64_t dim, float eps, int bf16) {
	norm o = {.y = (void *)y, .h = (void *)h, .x = (void *)a, .b = (void *)b, .w = (void *)w, .rstd = (float *)rstd,
		.dim = dim, .eps = eps};
	cpu_parallel(add_rmsnorm[bf16][cpu_level()], &o, rows, piece(dim * 4 * (bf16 ? 2 : 4)));
}

void cpu_qknorm(uintptr_t y, uintptr_t rstd, uintptr_t qkv, uintptr_t wq, uintptr_t wk, int64_t rows, int64_t heads,
	int64_t kv_heads, int64_t head_dim, float eps, int bf16) {
	norm o = {.y = (void *)y, .x = (void *)qkv, .w = (void *)wq, .wk = (void *)wk, .rstd = (float *)rstd, .dim = head_dim,
		.heads = heads, .kv_heads = kv_heads, .eps = eps};
	cpu_parallel(qknorm[bf16][cpu_level()], &o, rows, piece((heads + 2 * kv_heads) * head_dim * 2 * (bf16 ? 2 : 4)));
}

// Few blocks, so that adding them up is little beside the rows; many, so that threads share them evenly.
int64_t cpu_norm_block(int64_t rows, int64_t width) {
	enum { MOST_BLOCKS = 64 };
	int64_t block = piece(width * 6), least = (rows + MOST_BLOCKS - 1) / MOST_BLOCKS;
	return block > least ? block : least;
}

// backward runs the rows and then adds up the partials: in the order of blocks, whoever computed them.
static void backward(const cpu_task tasks[2][CPU_LEVELS], norm *o, int64_t rows, int64_t width, int64_t weights, int bf16) {
	o->block = cpu_norm_block(rows, width);
	o->blocks = (rows + o->block - 1) / o->block;
	o->width = weights;
	cpu_parallel(tasks[bf16][cpu_level()], o, rows, o->block);
}

void cpu_rmsnorm_backward(uintptr_t dx, uintptr_t dw, uintptr_t dy, uintptr_t x, uintptr_t w, uintptr_t rstd,
	uintptr_t partials, int64_t rows, int64_t dim, int add, int bf16) {
	norm o = {.y = (void *)dx, .dw = (float *)dw, .dy = (void *)dy, .x = (void *)x, .w = (void *)w, .rstd = (float *)rstd,
		.partials = (float *)partials, .dim = dim, .add = add};
	backward(rmsnorm_backward, &o, rows, dim, dim, bf16);
	if (partials) cpu_parallel(sum_partials[cpu_level()], &o, dim, piece(o.blocks * 4));
}

void cpu_qknorm_backward(uintptr_t dqkv, uintptr_t dwq, uintptr_t dwk, uintptr_t dy, uintptr_t qkv, uintptr_t wq,
	uintptr_t wk, uintptr_t rstd, uintptr_t partials, int64_t rows, int64_t heads, int64_t kv_heads, int64_t head_dim,
	int bf16) {
	norm o = {.y = (void *)dqkv, .dy = (void *)dy, .x = (void *)qkv, .w = (void *)wq, .wk = (void *)wk, .rstd = (float *)rstd,
		.partials = (float *)partials, .dim = head_dim, .heads = heads, .kv_heads = kv_heads};
	backward(qknorm_backward, &o, rows, (heads + 2 * kv_heads) * head_dim, 2 * head_dim, bf16);
	float *const dw[] = {(float *)dwq, (float *)dwk};
	for (int i = 0; i < 2; i++, o.partials += head_dim)
		if ((o.dw = dw[i])) sum_partials[cpu_level()](&o, 0, head_dim);
}
