// Multiplying and storing.

#ifndef RESTYLE_GEMM_LOOPS
#define RESTYLE_GEMM_LOOPS

#define add_product AT_LEVEL(add_product)
#define micro_kernel AT_LEVEL(micro_kernel)
#define smallest_kernel AT_LEVEL(smallest_kernel)
#define store_rows AT_LEVEL(store_rows)
#define store_as AT_LEVEL(store_as)
#define dots AT_LEVEL(dots)
#define store_activated AT_LEVEL(store_activated)

enum { AHEAD = 8192 }; // bytes that products with few rows prefetch ahead

#endif

// ROWS is the number of rows of the micro-kernel, which is two vectors wide: as many as there are registers for.
#if VLEN == 16 || defined(__aarch64__)
#define ROWS 12
#else
#define ROWS 6
#endif

// SIDE is how many rows of packed A lie side by side, KERNELS how many micro-kernels multiply runs.
#if VLEN == 8
#define SIDE ROWS
#define KERNELS 4
#else
#define SIDE 1
#define KERNELS 1
#endif

#include "activation_loops.h"
#include "gemm_pack_loops.h"

// add_product returns sum + a·b; for pairs, it adds both products.
INLINE vec add_product(vec sum, vecuns a, vecuns b, const int pairs) {
#if BF16_DOT
	if (pairs) return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#endif
	return sum + (vec)a * (vec)b;
}

#if VLEN == 8
#include "gemm_avx2.h"
#else
// micro_kernel multiplies. Its sums, rows × vectors, stay in registers until the end. It prefetches later memory every
// four units: prefetching all at once would hold up the loads that are needed now.
INLINE void micro_kernel(float *sums, const gemm_unit *a, const gemm_unit *b, int64_t units,
	gemm_walk walks[GEMM_WALKS], const int rows, const int vectors, const int pairs) {
	vec sum[ROWS][2];
	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = vzero();
	for (int64_t k = 0; k < units;) {
		UNROLL for (int i = 0; i < GEMM_WALKS; i++) gemm_step(&walks[i]);
		for (int64_t end = units - k < 4 ? units : k + 4; k < end; k++, b += 2 * VLEN) {
			vecuns line[2];
			UNROLL for (int j = 0; j < vectors; j++) line[j] = *(const vecuns *)(b + j * VLEN);
			UNROLL for (int i = 0; i < rows; i++) {
				vecuns one = a[i * GEMM_STRIDE + k] + (vecuns){0};
				UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = add_product(sum[i][j], one, line[j], pairs);
			}
		}
	}
	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int j = 0; j < vectors; j++) *(vec *)(sums + i * 2 * VLEN + j * VLEN) = sum[i][j];
}
#endif

// smallest_kernel runs the smallest micro-kernel that is large enough, so that edges cost less.
INLINE void smallest_kernel(float *sums, const gemm_unit *a, const gemm_unit *b, int64_t units,
	gemm_walk walks[GEMM_WALKS], int64_t rows, const int vectors, const int pairs) {
	if (rows > 2 * ROWS / 3) micro_kernel(sums, a, b, units, walks, ROWS, vectors, pairs);
	else if (rows > ROWS / 3) micro_kernel(sums, a, b, units, walks, 2 * ROWS / 3, vectors, pairs);
	else micro_kernel(sums, a, b, units, walks, ROWS / 3, vectors, pairs);
}

static void AT_LEVEL(multiply)(float *sums, const gemm_unit *a, const gemm_unit *b, int64_t units,
	int64_t rows, int64_t width, dtype type, gemm_walk walks[GEMM_WALKS]) {
#if BF16_DOT
	if (type == BF16) {
		if (width > VLEN) smallest_kernel(sums, a, b, units, walks, rows, 2, 1);
		else smallest_kernel(sums, a, b, units, walks, rows, 1, 1);
		return;
	}
#endif
	if (KERNELS > 1) {
		for (; rows > 0; rows -= ROWS, sums += ROWS * 2 * VLEN, a += ROWS * GEMM_STRIDE) {
			if (width > VLEN) smallest_kernel(sums, a, b, units, walks, rows, 2, 0);
			else smallest_kernel(sums, a, b, units, walks, rows, 1, 0);
		}
		return;
	}
	if (width > VLEN) smallest_kernel(sums, a, b, units, walks, rows, 2, 0);
	else smallest_kernel(sums, a, b, units, walks, rows, 1, 0);
}

static double AT_LEVEL(peak)(int64_t rounds, dtype type) {
	vec sum[ROWS][2];
	vecuns one = (vecuns)vset(1e-3f);
	UNROLL for (int i = 0; i < ROWS; i++) // no two alike, or the compiler would compute them once
		UNROLL for (int j = 0; j < 2; j++) sum[i][j] = vset(2 * i + j);
	if (type == BF16 && BF16_DOT) {
		for (int64_t k = 0; k < rounds; k++)
			UNROLL for (int i = 0; i < ROWS; i++)
				UNROLL for (int j = 0; j < 2; j++) sum[i][j] = add_product(sum[i][j], one, one, 1);
	} else {
		for (int64_t k = 0; k < rounds; k++)
			UNROLL for (int i = 0; i < ROWS; i++)
				UNROLL for (int j = 0; j < 2; j++) sum[i][j] = add_product(sum[i][j], one, one, 0);
	}
	volatile float kept; // so that the compiler does not drop the sums
	UNROLL for (int i = 0; i < ROWS; i++) kept = sum[i][0][0] + sum[i][1][0];
	(void)kept;
	return 2.0 * ROWS * 2 * VLEN * (type == BF16 && BF16_DOT ? 2 : 1) * (double)rounds;
}

// store_rows is store for one combination of what becomes of the sums.
INLINE void store_rows(const float *sums, gemm_target to, int64_t rows, int64_t width,
	const dtype type, const int add, const int partial, const int bias) {
	for (int64_t i = 0; i < rows; i++, sums += 2 * VLEN, to.c += to.stride, to.partial += to.partial_stride) {
		EACH(j, n, 0, width, {
			vec x = ld(sums, j, n, F32) * to.alpha;
			if (partial) x += ld(to.partial, j, n, F32);
			if (bias) x += ld(to.bias, j, n, F32);
			if (add) x += ld(to.c, j, n, type);
			st(to.c, j, n, x, type);
		});
	}
}

// store_as calls store_rows. At AVX2 a branch that a loop over two vectors mispredicts is worth avoiding.
INLINE void store_as(const float *sums, gemm_target to, int64_t rows, int64_t width,
	const dtype type, const int add, const int partial, const int bias) {
	if (VLEN == 8 && width == 2 * VLEN) store_rows(sums, to, rows, 2 * VLEN, type, add, partial, bias);
	else store_rows(sums, to, rows, width, type, add, partial, bias);
}

// store_activated is store for a product that an activation follows.
static void store_activated(const float *sums, gemm_target to, int64_t rows, int64_t width) {
	for (int64_t i = 0; i < rows; i++, sums += 2 * VLEN, to.c += to.stride, to.partial += to.partial_stride) {
		EACH(j, n, 0, width, {
			vec x = ld(sums, j, n, F32) * to.alpha;
			if (to.partial_stride) x += ld(to.partial, j, n, F32);
			if (to.bias) x += ld(to.bias, j, n, F32);
			if (to.add) x += ld(to.c, j, n, to.type);
			if (to.pre) st(to.pre, j, n, x, to.type);
			st(to.c, j, n, activated(x, to.act, to.type), to.type);
		});
		if (to.pre) to.pre += to.pre_stride;
	}
}

static void AT_LEVEL(store)(const float *sums, gemm_target to, int64_t rows, int64_t width) {
	if (to.act != NO_ACTIVATION) {
		store_activated(sums, to, rows, width);
		return;
	}
	const int add = to.add, partial = to.partial != NULL;
	if (to.bias) store_as(sums, to, rows, width, to.type, add, partial, 1);
	else if (add && partial) FOR_TYPE(to.type, store_as(sums, to, rows, width, type, 1, 1, 0))
	else if (partial) FOR_TYPE(to.type, store_as(sums, to, rows, width, type, 0, 1, 0))
	else if (add) FOR_TYPE(to.type, store_as(sums, to, rows, width, type, 1, 0, 0))
	else FOR_TYPE(to.type, store_as(sums, to, rows, width, type, 0, 0, 0))
}

// dots computes the dot products of one line with count others, each in two vectors of sums, in an order that depends
// only on the length. The last vector is padded with zeros.
INLINE void dots(float *out, const char *line, const char *const *others, int64_t bytes,
	const int count, const dtype type, const int pairs) {
	const int step = (int)size_of(type) * VLEN;
	vec sum[GEMM_FEW][2];
	UNROLL for (int i = 0; i < count; i++) sum[i][0] = sum[i][1] = vzero();
	int64_t x = 0;
	for (; x + 2 * step <= bytes; x += 2 * step) {
		UNROLL for (int j = 0; j < 2; j++) {
			__builtin_prefetch(line + x + j * step + AHEAD, 0, 3);
			vecuns one = load_units(line + x + j * step, type);
			UNROLL for (int i = 0; i < count; i++)
				sum[i][j] = add_product(sum[i][j], load_units(others[i] + x + j * step, type), one, pairs);
		}
	}
	for (; x < bytes; x += step) {
		int64_t n = bytes - x < step ? bytes - x : step;
		char one[4 * VLEN] = {0}, other[4 * VLEN] = {0};
		memcpy(one, line + x, n);
		UNROLL for (int i = 0; i < count; i++) {
			memcpy(other, others[i] + x, n);
			sum[i][0] = add_product(sum[i][0], load_units(other, type), load_units(one, type), pairs);
		}
	}
	UNROLL for (int i = 0; i < count; i++) out[i] = vsum(sum[i][0] + sum[i][1]);
}

static void AT_LEVEL(few)(const cpu_gemm_args *g, int64_t lo, int64_t hi) {
	const int64_t size = size_of(g->type);
	const char *rows[GEMM_FEW], *line = (const char *)g->b + lo * g->ldb * size;
	for (int i = 0; i < GEMM_FEW; i++) rows[i] = (const char *)g->a + (i < g->m ? i : g->m - 1) * g->lda * size;
	for (int64_t n = lo; n < hi; n++, line += g->ldb * size) {
		float out[GEMM_FEW];
		int64_t bytes = g->k * size;
#define DOTS(count) \
	if (BF16_DOT && g->type == BF16) dots(out, line, rows, bytes, count, F32, BF16_DOT); \
	else FOR_TYPE(g->type, dots(out, line, rows, bytes, count, type, 0))
		if (g->m > 4) { DOTS(8) }
		else if (g->m > 2) { DOTS(4) }
		else if (g->m > 1) { DOTS(2) }
		else { DOTS(1) }
#undef DOTS
		for (int64_t m = 0; m < g->m; m++) {
			float x = out[m] * g->alpha;
			if (g->bias) x += element((void *)g->bias, n, g->type);
			if (g->act != NO_ACTIVATION) {
				if (g->pre) set_element((void *)g->pre, m * g->n + n, x, g->c_type);
				x = activated(vset(x), g->act, g->c_type)[0];
			}
			if (g->accumulate) x += element((void *)g->c, m * g->ldc + n, g->c_type);
			set_element((void *)g->c, m * g->ldc + n, x, g->c_type);
		}
	}
}

static void AT_LEVEL(sum_columns)(
	float *sums, const char *matrix, int64_t stride, dtype of, int64_t rows, int64_t columns) {
	for (int64_t i = 0; i < rows; i++, matrix += stride) {
		FOR_TYPE(of, EACH(j, n, 0, columns, { st(sums, j, n, ld(sums, j, n, F32) + ld(matrix, j, n, type), F32); }))
	}
}

static const gemm_level AT_LEVEL(gemm) = {
	.rows = KERNELS * ROWS, .columns = 2 * VLEN, .side = SIDE, .group = SIDE > 1 ? 2 * SIDE : GEMM_GROUP,
	.pairs = BF16_DOT, .packing = 8,
	.pack_a = AT_LEVEL(pack_a), .pack_b = AT_LEVEL(pack_b), .multiply = AT_LEVEL(multiply), .store = AT_LEVEL(store),
	.few = AT_LEVEL(few), .sum_columns = AT_LEVEL(sum_columns), .peak = AT_LEVEL(peak),
};

#undef ROWS
#undef SIDE
#undef KERNELS
