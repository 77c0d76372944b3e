#include "ops.h"
#include "ops_piece.h"
#include "pool.h"

typedef struct {
	void *w;
	float *m, *v;
	const float *g;
	adamw_factors f;
} adamw_operands;

typedef struct {
	const void *x;
	int64_t count, block;
	double *sums; // one a block
} squares_operands;

#define EACH_LEVEL "ops_optim_loops.h"
#include "each_level.h"

TASKS(adamw);
TASKS(sum_squares);

void cpu_adamw(uintptr_t w, uintptr_t m, uintptr_t v, uintptr_t g, int64_t n, adamw_factors f, int bf16) {
	adamw_operands o = {(void *)w, (float *)m, (float *)v, (float *)g, f};
	cpu_parallel(adamw[bf16][cpu_level()], &o, n, piece(16));
}

double cpu_sum_squares(uintptr_t x, int64_t n, int bf16) {
	enum { MOST_BLOCKS = 1024 };
	double sums[MOST_BLOCKS];
	int64_t block = piece(4), least = (n + MOST_BLOCKS - 1) / MOST_BLOCKS;
	if (block < least) block = least;
	int64_t blocks = (n + block - 1) / block;
	squares_operands o = {(void *)x, n, block, sums};
	cpu_parallel(sum_squares[bf16][cpu_level()], &o, blocks, 1);
	double sum = 0;
	for (int64_t b = 0; b < blocks; b++) sum += sums[b];
	return sum;
}
