// Multiplying and storing.

#ifndef RESTYLE_GEMM_LOOPS
#define RESTYLE_GEMM_LOOPS

#define add_product AT_LEVEL(add_product)
#define add_products AT_LEVEL(add_products)
#define micro_kernel AT_LEVEL(micro_kernel)
#define smallest_kernel AT_LEVEL(smallest_kernel)
#define store_rows AT_LEVEL(store_rows)
#define store_as AT_LEVEL(store_as)
#define dots AT_LEVEL(dots)
#define few_dots AT_LEVEL(few_dots)
#define store_activated AT_LEVEL(store_activated)

enum { AHEAD = 8192 }; // bytes that products with few rows prefetch ahead

#endif

// ROWS is the number of rows of the micro-kernel, which is two vectors wide: as many as there are registers for.
#if VLEN == 16 || defined(__aarch64__)
#define ROWS 12
#else
#define ROWS 6
#endif

// SIDE is how many rows of packed A lie side by side, KERNELS how many micro-kernels product runs.
#if VLEN == 8 || (VLEN == 16 && !BF16_DOT)
#define SIDE ROWS
#define KERNELS (24 / ROWS)
#else
#define SIDE 1
#define KERNELS 1
#endif

#include "activation_loops.h"
#include "transpose_loops.h"
#include "gemm_units.h"
#if SIDE > 1
#include "gemm_side.h"
#endif
#include "gemm_pack_loops.h"

// add_product returns sum + a·b; of pairs, it adds both products. The instruction that rounds once is written out: gcc
// 13 and newer do without it where a sum is a chain of its own, and one row would have other bits than several.
INLINE vec add_product(vec sum, vecuns a, vecuns b) {
#if BF16_DOT
	return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#elif VLEN == 16
	return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)sum);
#elif VLEN == 8
	return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
#else
	return sum + (vec)a * (vec)b;
#endif
}

// add_products adds the products of one unit of k. Where rows lie side by side, the instruction is written out: left to
// itself, gcc copies sums from register to register. AVX-512's can broadcast from memory by itself, which saves an
// instruction but costs a load: with two rows of three, a core of two loads and two multiply-adds a cycle is held up by
// neither.
INLINE void add_products(vec sum[ROWS][2], const gemm_unit *a, const gemm_unit *b, const int rows, const int vectors) {
	vecuns line[2];
	UNROLL for (int j = 0; j < vectors; j++) line[j] = *(const vecuns *)(b + j * VLEN);
	UNROLL for (int i = 0; i < rows; i++) {
#if SIDE > 1 && VLEN == 16
		if (i % 3 < 2) {
			UNROLL for (int j = 0; j < vectors; j++)
				__asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(sum[i][j]) : "v"(line[j]), "m"(a[i]));
			continue;
		}
#endif
		vecuns one = a[SIDE > 1 ? i : i * GEMM_STRIDE] + (vecuns){0};
		UNROLL for (int j = 0; j < vectors; j++)
#if SIDE > 1
			__asm__("vfmadd231ps %2, %1, %0" : "+v"(sum[i][j]) : "v"(line[j]), "v"(one));
#else
			sum[i][j] = add_product(sum[i][j], one, line[j]);
#endif
	}
}

// micro_kernel multiplies. Its sums, rows × vectors, stay in registers until the end; then they are stored as lines of
// c, or added to what is there. It prefetches later memory every few units: prefetching all at once would hold up the
// loads that are needed now.
INLINE void micro_kernel(char *c, int64_t stride, const gemm_unit *a, const gemm_unit *b, int64_t units,
	gemm_walk walks[GEMM_WALKS], const int rows, const int vectors, const dtype type, const int add) {
	enum { TURN = SIDE > 1 ? 8 : 4, UNIT = SIDE > 1 ? ROWS : 1, LINE = 2 * VLEN };
	vec sum[ROWS][2];
	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = vzero();
	for (; units >= TURN; units -= TURN) {
		for (int i = 0; i < GEMM_WALKS; i++) gemm_step(&walks[i]);
		if (SIDE > 1 && VLEN == 16) gemm_step(&walks[2]); // each row of C is in two cache lines
		for (int n = 0; n < TURN; n += 4, a += 4 * UNIT, b += 4 * LINE)
			UNROLL for (int k = 0; k < 4; k++) add_products(sum, a + k * UNIT, b + k * LINE, rows, vectors);
	}
	for (; units > 0; units--, a += UNIT, b += LINE) add_products(sum, a, b, rows, vectors);
	UNROLL for (int i = 0; i < rows; i++, c += stride)
		UNROLL for (int j = 0; j < vectors; j++) {
			if (add) sum[i][j] += ld(c, j * VLEN, VLEN, type);
			st(c, j * VLEN, VLEN, sum[i][j], type);
		}
}

// smallest_kernel runs the smallest micro-kernel that is large enough, so that edges cost less.
INLINE void smallest_kernel(float *sums, const gemm_unit *a, const gemm_unit *b, int64_t units,
	gemm_walk walks[GEMM_WALKS], int64_t rows, const int vectors) {
	char *c = (char *)sums;
	const int64_t stride = 2 * VLEN * sizeof *sums;
	if (rows > 2 * ROWS / 3) micro_kernel(c, stride, a, b, units, walks, ROWS, vectors, F32, 0);
	else if (rows > ROWS / 3) micro_kernel(c, stride, a, b, units, walks, 2 * ROWS / 3, vectors, F32, 0);
	else micro_kernel(c, stride, a, b, units, walks, ROWS / 3, vectors, F32, 0);
}

static void AT_LEVEL(store)(const float *sums, gemm_target to, int64_t rows, int64_t width);

static void AT_LEVEL(product)(float *sums, gemm_target to, const gemm_unit *a, const gemm_unit *b, int64_t units,
	int64_t rows, int64_t width, gemm_walk walks[GEMM_WALKS]) {
	const int direct = width == 2 * VLEN && to.alpha == 1 && !to.partial && !to.bias && to.act == NO_ACTIVATION;
	for (; rows > 0; rows -= ROWS, a += ROWS * GEMM_STRIDE) {
		int64_t high = rows < ROWS ? rows : ROWS;
		if (direct && high == ROWS && to.type == F32 && to.add) {
			micro_kernel(to.c, to.stride, a, b, units, walks, ROWS, 2, F32, 1);
		} else if (direct && high == ROWS && to.type == F32) {
			micro_kernel(to.c, to.stride, a, b, units, walks, ROWS, 2, F32, 0);
		} else if (direct && high == ROWS && to.type == BF16 && !to.add) {
			micro_kernel(to.c, to.stride, a, b, units, walks, ROWS, 2, BF16, 0);
		} else {
			if (width > VLEN) smallest_kernel(sums, a, b, units, walks, high, 2);
			else smallest_kernel(sums, a, b, units, walks, high, 1);
			AT_LEVEL(store)(sums, to, high, width);
		}
		to = gemm_below(to, ROWS);
	}
}

static double AT_LEVEL(peak)(int64_t rounds) {
	vec sum[ROWS][2];
	vecuns one = (vecuns)vset(1e-3f);
	UNROLL for (int i = 0; i < ROWS; i++) // no two alike, or the compiler would compute them once
		UNROLL for (int j = 0; j < 2; j++) sum[i][j] = vset(2 * i + j);
	for (int64_t k = 0; k < rounds; k++)
		UNROLL for (int i = 0; i < ROWS; i++)
			UNROLL for (int j = 0; j < 2; j++) sum[i][j] = add_product(sum[i][j], one, one);
	volatile float kept; // so that the compiler does not drop the sums
	UNROLL for (int i = 0; i < ROWS; i++) kept = sum[i][0][0] + sum[i][1][0];
	(void)kept;
	return 2.0 * ROWS * 2 * VLEN * (BF16_DOT ? 2 : 1) * (double)rounds;
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
	const int count, const dtype type) {
	const int step = (int)size_of(type) * VLEN;
	vec sum[GEMM_FEW][2];
	UNROLL for (int i = 0; i < count; i++) sum[i][0] = sum[i][1] = vzero();
	int64_t x = 0;
	for (; x + 2 * step <= bytes; x += 2 * step) {
		UNROLL for (int j = 0; j < 2; j++) {
			__builtin_prefetch(line + x + j * step + AHEAD, 0, 3);
			vecuns one = load_units(line + x + j * step, type);
			UNROLL for (int i = 0; i < count; i++)
				sum[i][j] = add_product(sum[i][j], load_units(others[i] + x + j * step, type), one);
		}
	}
	for (; x < bytes; x += step) {
		int64_t n = bytes - x < step ? bytes - x : step;
		char one[4 * VLEN] = {0}, other[4 * VLEN] = {0};
		memcpy(one, line + x, n);
		UNROLL for (int i = 0; i < count; i++) {
			memcpy(other, others[i] + x, n);
			sum[i][0] = add_product(sum[i][0], load_units(other, type), load_units(one, type));
		}
	}
	UNROLL for (int i = 0; i < count; i++) out[i] = vsum(sum[i][0] + sum[i][1]);
}

// few_dots computes the dot products of one line of B with the m rows of A, of the first pair of operands or the
// second.
static void few_dots(float out[GEMM_FEW], const cpu_gemm_args *g, int64_t n, const int second) {
	const int64_t size = size_of(g->type), bytes = (second ? g->k2 : g->k) * size;
	const int64_t lda = second ? g->lda2 : g->lda, ldb = second ? g->ldb2 : g->ldb;
	const char *a = (const char *)(second ? g->a2 : g->a), *rows[GEMM_FEW];
	const char *line = (const char *)(second ? g->b2 : g->b) + n * ldb * size;
	for (int i = 0; i < GEMM_FEW; i++) rows[i] = a + (i < g->m ? i : g->m - 1) * lda * size;
#define DOTS(count) FOR_TYPE(BF16_DOT ? F32 : g->type, dots(out, line, rows, bytes, count, type)) // pairs are units
	if (g->m > 4) { DOTS(8) }
	else if (g->m > 2) { DOTS(4) }
	else if (g->m > 1) { DOTS(2) }
	else { DOTS(1) }
#undef DOTS
}

static void AT_LEVEL(few)(const cpu_gemm_args *g, int64_t lo, int64_t hi) {
	for (int64_t n = lo; n < hi; n++) {
		float out[GEMM_FEW], more[GEMM_FEW] = {0};
		few_dots(out, g, n, 0);
		if (g->k2) few_dots(more, g, n, 1);
		for (int64_t m = 0; m < g->m; m++) {
			float x = (out[m] + more[m]) * g->alpha;
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
	.rows = KERNELS * ROWS, .columns = 2 * VLEN, .side = SIDE,
	.group = SIDE > 1 ? 2 * SIDE : GEMM_GROUP,
	.pairs = BF16_DOT, .packing = 8,
	.pack_a = AT_LEVEL(pack_a), .pack_b = AT_LEVEL(pack_b), .product = AT_LEVEL(product), .store = AT_LEVEL(store),
	.few = AT_LEVEL(few), .sum_columns = AT_LEVEL(sum_columns), .peak = AT_LEVEL(peak),
};

#undef ROWS
#undef SIDE
#undef KERNELS
