// Products of float64 matrices; float64.go says what they are.
#ifndef LEVEL
#include "float64.h"
#include "pool.h"

// Without fused multiply-add, which rounds once where the processor has it, all levels compute the same bits.
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

typedef struct {
	int64_t m, n, k;
	float64_matrix c, a, b;
	int upper;
} float64_product;

enum {
	TASK_ROWS = 96, // rows of a task: that many rows of a stay in the second cache
	DEPTH = 128,    // rows of b that are subtracted at a time
};

#define EACH_LEVEL "float64.c"
#include "each_level.h"

static const cpu_task subtract_product[CPU_LEVELS] = AT_EACH_LEVEL(subtract_product);

void cpu_subtract_product(int64_t m, int64_t n, int64_t k, float64_matrix c, float64_matrix a, float64_matrix b,
	int upper) {
	float64_product o = {m, n, k, c, a, b, upper};
	cpu_parallel(subtract_product[cpu_level()], &o, m, TASK_ROWS);
}

#else

#define doubles AT_LEVEL(doubles)
#define WIDTH (VLEN / 2)                  // lanes of a vector
#define TILE_ROWS (VLEN == 16 ? 8 : 6)    // of c, as many as there are registers for
#define TILE_COLS (2 * WIDTH)

typedef double doubles __attribute__((vector_size(4 * VLEN)));

// subtract_tile computes c -= a·b for a tile of c. b is packed: its rows lie one after the other.
INLINE void AT_LEVEL(subtract_tile)(double *c, int64_t c_stride, const double *a, int64_t a_stride, const double *b,
	int64_t k) {
	doubles left[TILE_ROWS], right[TILE_ROWS];
	UNROLL for (int r = 0; r < TILE_ROWS; r++) {
		memcpy(&left[r], c + r * c_stride, sizeof left[r]);
		memcpy(&right[r], c + r * c_stride + WIDTH, sizeof right[r]);
	}
	for (int64_t p = 0; p < k; p++) {
		doubles u, v;
		memcpy(&u, b + p * TILE_COLS, sizeof u);
		memcpy(&v, b + p * TILE_COLS + WIDTH, sizeof v);
		UNROLL for (int r = 0; r < TILE_ROWS; r++) {
			left[r] -= a[r * a_stride + p] * u;
			right[r] -= a[r * a_stride + p] * v;
		}
	}
	UNROLL for (int r = 0; r < TILE_ROWS; r++) {
		memcpy(c + r * c_stride, &left[r], sizeof left[r]);
		memcpy(c + r * c_stride + WIDTH, &right[r], sizeof right[r]);
	}
}

// subtract_edge is subtract_tile for a tile that has fewer rows or columns.
static void AT_LEVEL(subtract_edge)(double *c, int64_t c_stride, const double *a, int64_t a_stride, const double *b,
	int64_t rows, int64_t cols, int64_t k) {
	double tile[TILE_ROWS * TILE_COLS] = {0}, whole[TILE_ROWS * DEPTH] = {0};
	for (int64_t r = 0; r < rows; r++) {
		memcpy(tile + r * TILE_COLS, c + r * c_stride, cols * sizeof *c);
		memcpy(whole + r * DEPTH, a + r * a_stride, k * sizeof *a);
	}
	AT_LEVEL(subtract_tile)(tile, TILE_COLS, whole, DEPTH, b, k);
	for (int64_t r = 0; r < rows; r++) memcpy(c + r * c_stride, tile + r * TILE_COLS, cols * sizeof *c);
}

static void AT_LEVEL(subtract_product)(void *arg, int64_t lo, int64_t hi) {
	const float64_product *o = arg;
	for (int64_t p = 0; p < o->k; p += DEPTH) {
		const int64_t k = o->k - p < DEPTH ? o->k - p : DEPTH;
		for (int64_t j = o->upper ? lo : 0; j < o->n; j += TILE_COLS) {
			const int64_t cols = o->n - j < TILE_COLS ? o->n - j : TILE_COLS;
			double b[DEPTH * TILE_COLS] = {0};
			for (int64_t i = 0; i < k; i++)
				memcpy(b + i * TILE_COLS, o->b.at + (p + i) * o->b.stride + j, cols * sizeof *b);
			for (int64_t i = lo; i < hi && (!o->upper || i < j + cols); i += TILE_ROWS) {
				const int64_t rows = hi - i < TILE_ROWS ? hi - i : TILE_ROWS;
				double *c = o->c.at + i * o->c.stride + j;
				const double *a = o->a.at + i * o->a.stride + p;
				if (rows == TILE_ROWS && cols == TILE_COLS)
					AT_LEVEL(subtract_tile)(c, o->c.stride, a, o->a.stride, b, k);
				else
					AT_LEVEL(subtract_edge)(c, o->c.stride, a, o->a.stride, b, rows, cols, k);
			}
		}
	}
}

#undef WIDTH
#undef TILE_ROWS
#undef TILE_COLS
#endif
