// The sum of squares; kernels/op_squares.go has the formula.
#ifndef LEVEL
#include "ops.h"

typedef struct {
	const void *x;
	int64_t count, block;
	double *sums; // one per range of elements
} squares_operands;

#define EACH_LEVEL "ops_optim_squares.c"
#include "each_level.h"

TASKS(sum_squares);
static const cpu_task read_all[CPU_LEVELS] = AT_EACH_LEVEL(read_all);

enum { MAX_BLOCKS = 1024 };

static int64_t block_of(int64_t n) {
	int64_t block = grain(4), min_size = (n + MAX_BLOCKS - 1) / MAX_BLOCKS;
	return block > min_size ? block : min_size;
}

// SumSquares returns Σ x² in float64.
double cpu_sum_squares(tensor x) {
	double sums[MAX_BLOCKS];
	int64_t n = length(x), block = block_of(n), blocks = (n + block - 1) / block;
	squares_operands o = {(void *)x.at, n, block, sums};
	cpu_parallel(sum_squares[x.type][cpu_level()], &o, blocks, 1);
	double sum = 0;
	for (int64_t b = 0; b < blocks; b++) sum += sums[b];
	return sum;
}

// SquaresByUnit sets the sums, F64, to Σ x² of each run of unit elements.
void cpu_squares_by_unit(tensor sums, tensor x, int64_t unit) {
	squares_operands o = {(void *)x.at, length(x), unit, (double *)sums.at};
	cpu_parallel(sum_squares[x.type][cpu_level()], &o, length(sums), grain(unit * size_of(x.type)));
}

// Read reads a large tensor, except its end, and does nothing with it: it shows how fast memory can be read.
void cpu_read(tensor x) {
	double sums[MAX_BLOCKS];
	int64_t n = length(x) * size_of(x.type) / 4, block = block_of(n);
	squares_operands o = {(void *)x.at, n, block, sums};
	cpu_parallel(read_all[cpu_level()], &o, n / block, 1);
}

#else
#include "ops_loops.h"

#define add_squares AT_LEVEL(add_squares)
#define doubles AT_LEVEL(doubles)

typedef double doubles __attribute__((vector_size(4 * VLEN)));

// add_squares adds the squares of both halves of x in float64.
INLINE void add_squares(doubles s[2], vec x) {
#if VLEN == 16
	doubles a = (doubles)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x));
	doubles b = (doubles)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1));
#elif VLEN == 8
	doubles a = (doubles)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x));
	doubles b = (doubles)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1));
#else
	doubles a = {x[0], x[1]}, b = {x[2], x[3]};
#endif
	s[0] += a * a;
	s[1] += b * b;
}

// The squares are added in float64, in the lanes of eight vectors, so that no sum waits for the one before it. The
// total is the sum of these lanes, in order.
BODY(sum_squares, squares_operands) {
	enum { SUMS = 4 };
	for (int64_t b = lo; b < hi; b++) {
		int64_t i = b * o->block, to = i + o->block < o->count ? i + o->block : o->count;
		doubles s[SUMS][2] = {0};
		for (; i + SUMS * VLEN <= to; i += SUMS * VLEN)
			for (int k = 0; k < SUMS; k++) add_squares(s[k], ld(o->x, i + k * VLEN, VLEN, type));
		EACH(j, n, i, to, { add_squares(s[0], ld(o->x, j, n, type)); });
		double sum = 0;
		for (int k = 0; k < SUMS; k++)
			for (int h = 0; h < 2; h++)
				for (int j = 0; j < VLEN / 2; j++) sum += s[k][h][j];
		o->sums[b] = sum;
	}
}
EACH_TYPE(sum_squares)

// The simplest loop that reads everything, to compare the sum of squares with.
static void AT_LEVEL(read_all)(void *arg, int64_t lo, int64_t hi) {
	const squares_operands *o = arg;
	for (int64_t b = lo; b < hi; b++) {
		vecint all[4] = {{0}};
		const float *x = (const float *)o->x + b * o->block;
		for (int64_t i = 0; i + 4 * VLEN <= o->block; i += 4 * VLEN)
			for (int k = 0; k < 4; k++) all[k] ^= (vecint)vload(x + i + k * VLEN);
		o->sums[b] = (double)(all[0] ^ all[1] ^ all[2] ^ all[3])[0];
	}
}
#endif
