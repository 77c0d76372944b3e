// Multiplying and storing.

#ifndef RESTYLE_GEMM_LOOPS
#define RESTYLE_GEMM_LOOPS

#define add_product AT_LEVEL(add_product)
#define add_products AT_LEVEL(add_products)
#define micro_kernel AT_LEVEL(micro_kernel)
#define smallest_kernel AT_LEVEL(smallest_kernel)
#define store_rows AT_LEVEL(store_rows)
#define store_as AT_LEVEL(store_as)
#define load_rest AT_LEVEL(load_rest)
#define dots AT_LEVEL(dots)
#define load_step AT_LEVEL(load_step)
#define lane_sums AT_LEVEL(lane_sums)
#define dot_sums AT_LEVEL(dot_sums)
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

// DOT_ROWS rows of A are multiplied with some lines of B at once; one row has DOT_LINES of these.
#define DOT_ROWS 4
#define DOT_LINES 8

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

// load_rest loads the units of a line from x on, step bytes or what is left of them; the others are zero.
INLINE vecuns load_rest(const char *line, int64_t x, int64_t bytes, const int step, const dtype type) {
	char rest[4 * VLEN] = {0};
	memcpy(rest, line + x, bytes - x < step ? bytes - x : step);
	return load_units(rest, type);
}

// load_step loads the units that dots adds at once: a vector of them, or of a second pair sixteen elements, as many as
// lie together there.
INLINE vecuns load_step(const char *at, const dtype type, const int second) {
#if BF16_DOT
	if (second) return (vecuns)_mm512_zextsi256_si512(_mm256_loadu_si256((const __m256i *)at));
#endif
	return load_units(at, type);
}

// dots adds up the products of count rows of A with n lines of B. The sums of each pair are a vector, which goes into a
// row of 2·VLEN of them. Their order depends only on the length. In a second pair adapters may lie side by side, in
// sixteen elements or more each: an element goes to the lane of its place among sixteen, so that zeros before and
// behind change no bit, and rows that are alone skip where A has only zeros.
INLINE void dots(vec *out, const char *const *rows, const char *const *lines, int64_t bytes, const int count,
	const int n, const dtype type, const int second, const int ahead, int alone) {
	const int step = (second && BF16_DOT ? 2 : (int)size_of(type)) * VLEN;
	vec sum[DOT_ROWS][DOT_LINES];
	UNROLL for (int i = 0; i < count; i++)
		UNROLL for (int l = 0; l < n; l++) sum[i][l] = vzero();
	int64_t x = 0;
	for (; x + step <= bytes; x += step) {
		vecuns row[DOT_ROWS], any = {0};
		UNROLL for (int i = 0; i < count; i++) any |= row[i] = load_step(rows[i] + x, type, second);
		if (second && alone && vnone(any)) continue;
		UNROLL for (int l = 0; l < n; l++) {
			if (ahead) __builtin_prefetch(lines[l] + x + AHEAD / n, 0, 3);
			const vecuns line = load_step(lines[l] + x, type, second);
			UNROLL for (int i = 0; i < count; i++) sum[i][l] = add_product(sum[i][l], row[i], line);
		}
	}
	if (x < bytes) {
		vecuns row[DOT_ROWS];
		UNROLL for (int i = 0; i < count; i++) row[i] = load_rest(rows[i], x, bytes, step, type);
		UNROLL for (int l = 0; l < n; l++) {
			const vecuns line = load_rest(lines[l], x, bytes, step, type);
			UNROLL for (int i = 0; i < count; i++) sum[i][l] = add_product(sum[i][l], row[i], line);
		}
	}
	UNROLL for (int i = 0; i < count; i++)
		UNROLL for (int l = 0; l < n; l++) out[i * 2 * VLEN + l] = sum[i][l];
}

// lane_sums adds up the lanes of VLEN vectors, each as vsum does, halves to halves. After each step two vectors share
// one.
INLINE vec lane_sums(const vec *x) {
	vecuns r[VLEN];
	memcpy(r, x, sizeof r);
#define ADD(i, other, low, high) \
	r[i] = (vecuns)((vec)low((veclong)r[i], (veclong)r[other]) + (vec)high((veclong)r[i], (veclong)r[other]))
#if VLEN == 16
#define first8(a, b) SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define last8(a, b) SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#define first4(a, b) SHUFFLE(a, b, 0, 1, 4, 5, 8, 9, 12, 13)
#define last4(a, b) SHUFFLE(a, b, 2, 3, 6, 7, 10, 11, 14, 15)
	UNROLL for (int i = 0; i < 4; i++) {
		ADD(i, i + 4, first8, last8), ADD(i + 8, i + 12, first8, last8);
		ADD(i, i + 8, first4, last4);
	}
#undef first8
#undef last8
#undef first4
#undef last4
#elif VLEN == 8
#define first4(a, b) SHUFFLE(a, b, 0, 1, 4, 5)
#define last4(a, b) SHUFFLE(a, b, 2, 3, 6, 7)
	UNROLL for (int i = 0; i < 4; i++) ADD(i, i + 4, first4, last4);
#undef first4
#undef last4
#endif
	ADD(0, 1, PASTE(low64_, VLEN), PASTE(high64_, VLEN)), ADD(2, 3, PASTE(low64_, VLEN), PASTE(high64_, VLEN));
#undef ADD
#if VLEN == 16
#define EVEN 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30
#define ODD 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31
#elif VLEN == 8
#define EVEN 0, 2, 8, 10, 4, 6, 12, 14
#define ODD 1, 3, 9, 11, 5, 7, 13, 15
#else
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#endif
	return (vec)SHUFFLE(r[0], r[2], EVEN) + (vec)SHUFFLE(r[0], r[2], ODD);
#undef EVEN
#undef ODD
}

// dot_sums computes the sums of count rows of A with up to 2·VLEN lines of B, of one pair of operands, or adds them.
INLINE void dot_sums(vec sums[][2], const char *a, int64_t lda, const char *b, int64_t ldb, int64_t bytes, int64_t rows,
	int64_t width, const int count, const int n, const dtype type, const int second, const int ahead, int alone) {
	vec parts[DOT_ROWS * 2 * VLEN];
	const char *row[DOT_ROWS], *line[DOT_LINES];
	for (int i = 0; i < count; i++) row[i] = a + (i < rows ? i : rows - 1) * lda;
	for (int64_t at = 0; at < width; at += n) {
		for (int64_t l = 0; l < n; l++) line[l] = b + (at + l < width ? at + l : width - 1) * ldb;
		dots(parts + at, row, line, bytes, count, n, type, second, ahead, alone);
	}
	for (int64_t i = 0; i < rows; i++)
		for (int j = 0; j < (width > VLEN ? 2 : 1); j++) {
			const vec sum = lane_sums(parts + (2 * i + j) * VLEN);
			sums[i][j] = second ? sums[i][j] + sum : sum;
		}
}

// few_dots is dot_sums for a product's first pair of operands or the second: of rows of A from m on, and lines from n
// on.
static void few_dots(vec sums[][2], const cpu_gemm_args *g, int64_t m, int64_t rows, int64_t n, int64_t width,
	const int second) {
	const int64_t size = size_of(g->type), bytes = (second ? g->k2 : g->k) * size;
	const int64_t lda = (second ? g->lda2 : g->lda) * size, ldb = (second ? g->ldb2 : g->ldb) * size;
	const char *a = (const char *)(second ? g->a2 : g->a) + m * lda;
	const char *b = (const char *)(second ? g->b2 : g->b) + n * ldb;
#define SUMS(count, n) \
	FOR_TYPE(BF16_DOT ? F32 : g->type, /* pairs are units */ \
		dot_sums(sums, a, lda, b, ldb, bytes, rows, width, count, n, type, second, !second && m == 0, g->alone))
	if (rows == 1) { SUMS(1, DOT_LINES) }
	else if (rows == 2) { SUMS(2, VLEN == 16 ? DOT_LINES : DOT_LINES / 2) }
	else { SUMS(DOT_ROWS, VLEN == 16 ? DOT_LINES / 2 : DOT_LINES / 4) }
#undef SUMS
}

static void AT_LEVEL(few)(const cpu_gemm_args *g, int64_t lo, int64_t hi) {
	for (int64_t m = 0; m < g->m; m += DOT_ROWS)
		for (int64_t n = lo; n < hi; n += 2 * VLEN) {
			const int64_t rows = g->m - m < DOT_ROWS ? g->m - m : DOT_ROWS;
			const int64_t width = hi - n < 2 * VLEN ? hi - n : 2 * VLEN;
			vec sums[DOT_ROWS][2];
			float bias[2 * VLEN];
			few_dots(sums, g, m, rows, n, width, 0);
			if (g->k2) few_dots(sums, g, m, rows, n, width, 1);
			const int64_t size = size_of(g->c_type);
			gemm_target to = {.c = (char *)g->c + (m * g->ldc + n) * size, .stride = g->ldc * size, .type = g->c_type,
				.add = g->accumulate, .alpha = g->alpha, .act = g->act, .pre_stride = g->n * size};
			if (g->pre) to.pre = (char *)g->pre + (m * g->n + n) * size;
			if (g->bias) {
				for (int64_t i = 0; i < width; i++) bias[i] = element((void *)g->bias, n + i, g->type);
				to.bias = bias;
			}
			AT_LEVEL(store)((const float *)sums, to, rows, width);
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

#undef DOT_ROWS
#undef DOT_LINES
#undef ROWS
#undef SIDE
#undef KERNELS
