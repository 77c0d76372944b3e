#include "ops.h"
#include "ops_piece.h"
#include "pool.h"

typedef struct {
	const void *x;
	int64_t count, block;
	double *sums; // one a block
} squares_operands;

#define EACH_LEVEL "ops_optim_squares_loops.h"
#include "each_level.h"

TASKS(sum_squares);
static const cpu_task read_all[CPU_LEVELS] = AT_EACH_LEVEL(read_all);

enum { MOST_BLOCKS = 1024 };

static int64_t block_of(int64_t n) {
	int64_t block = piece(4), least = (n + MOST_BLOCKS - 1) / MOST_BLOCKS;
	return block > least ? block : least;
}

double cpu_sum_squares(uintptr_t x, int64_t n, int bf16) {
	double sums[MOST_BLOCKS];
	int64_t block = block_of(n), blocks = (n + block - 1) / block;
	squares_operands o = {(void *)x, n, block, sums};
	cpu_parallel(sum_squares[bf16][cpu_level()], &o, blocks, 1);
	double sum = 0;
	for (int64_t b = 0; b < blocks; b++) sum += sums[b];
	return sum;
}

void cpu_read(uintptr_t x, int64_t bytes) {
	double sums[MOST_BLOCKS];
	int64_t n = bytes / 4, block = block_of(n);
	squares_operands o = {(void *)x, n, block, sums};
	cpu_parallel(read_all[cpu_level()], &o, n / block, 1);
}
