// Attention to keys and values in blocks; kernels/op_paged.go has the formula.
#ifndef LEVEL
#include "attention_parts.h"
#include "ops.h"

// Rows of one sequence that follow each other are query blocks of up to QUERIES queries, with the heads that share a
// key/value head. A query block takes SPAN keys at a time, which begin at a multiple of SPAN, whatever the first that
// it sees: so the order of a row's sums depends only on its position and the window.
enum { BLOCK = 16, SPAN = LANES, QUERIES = 32 };

typedef struct {
	matrix y, qkv, k, v;
	const int32_t *tables, *places;
	int64_t table; // blocks of a table
	int64_t heads, kv_heads, dim, window;
	float scale;
	int32_t *firsts; // the first row of each query block, and at the end the number of rows
	char *room;      // of all threads
} pages;

// A thread's memory: queries and their sums of values, [queries][padded], for each query the sums of the exponentials
// in GROUP lanes and the largest score; and of a span, the keys by depth, the values, and the scores, [queries][SPAN].
typedef struct {
	float *queries, *out, *sums, *tops, *keys, *values, *scores;
} page_room;

#define EACH_LEVEL "ops_paged.c"
#include "each_level.h"

static void (*const attend_pages[CPU_LEVELS])(const pages *, page_room, int64_t, int64_t, int64_t) = AT_EACH_LEVEL(
	attend_pages);

// rows_of_block returns how many rows of a sequence a query block has at most.
static int64_t rows_of_block(int64_t share) { return share < QUERIES ? QUERIES / share : 1; }

static int64_t carve_pages(page_room *r, int64_t share, int64_t dim, char *at) {
	char *begin = at;
	const int64_t padded = round_up(dim, GROUP), queries = rows_of_block(share) * share;
	r->queries = take(&at, queries * padded);
	r->out = take(&at, queries * padded);
	r->sums = take(&at, queries * GROUP);
	r->tops = take(&at, queries);
	r->keys = take(&at, padded * SPAN);
	r->values = take(&at, SPAN * padded);
	r->scores = take(&at, queries * SPAN);
	return at - begin;
}

// PagedRoom returns the bytes of memory that AttentionPaged takes.
int64_t cpu_paged_room(int64_t rows, int64_t heads, int64_t kv_heads, int64_t dim) {
	page_room r;
	return round_up(4 * (rows + 1), 64) + cpu_threads() * carve_pages(&r, heads / kv_heads, dim, NULL);
}

static void paged_task(void *arg, int64_t lo, int64_t hi) {
	const pages *p = arg;
	const int64_t share = p->heads / p->kv_heads;
	page_room r;
	carve_pages(&r, share, p->dim, p->room + cpu_thread() * carve_pages(&r, share, p->dim, NULL));
	for (int64_t i = lo; i < hi; i++) {
		const int32_t *rows = p->firsts + i / p->kv_heads;
		attend_pages[cpu_level()](p, r, rows[0], rows[1], i % p->kv_heads);
	}
}

// AttentionPaged computes the attention of rows of qkv to keys and values in blocks. room is PagedRoom bytes.
void cpu_attention_paged(tensor y, tensor qkv, tensor k, tensor v, tensor tables, tensor places, tensor room,
	int64_t heads, int64_t kv_heads, int64_t window, float scale) {
	pages p = {.y = y, .qkv = qkv, .k = k, .v = v, .tables = (const int32_t *)tables.at, .table = tables.cols,
		.places = (const int32_t *)places.at, .heads = heads, .kv_heads = kv_heads, .dim = k.cols / kv_heads,
		.window = window, .scale = scale, .firsts = (int32_t *)room.at,
		.room = (char *)room.at + round_up(4 * (y.rows + 1), 64)};
	const int64_t most = rows_of_block(heads / kv_heads);
	int64_t blocks = 0;
	for (int64_t row = 0; row < y.rows; row++)
		if (row == 0 || p.places[2 * row] != p.places[2 * row - 2] || row - p.firsts[blocks - 1] == most)
			p.firsts[blocks++] = (int32_t)row;
	p.firsts[blocks] = (int32_t)y.rows;
	cpu_parallel(paged_task, &p, blocks * kv_heads, 1);
}

#else
#include "attention_block.h"

#define multiply_add AT_LEVEL(multiply_add)
#define page_tile AT_LEVEL(page_tile)
#define page_product AT_LEVEL(page_product)
#define page_rows AT_LEVEL(page_rows)
#define page_softmax AT_LEVEL(page_softmax)

// multiply_add returns a·b + c, rounded once if the level can. The instruction is written out, as compilers may choose
// another one for another number of rows, with other bits.
INLINE vec multiply_add(vec a, vec b, vec c) {
#if VLEN == 16
	return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif VLEN == 8
	return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
	return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
	return a * b + c;
#endif
}

// page_tile computes R rows of J vectors of c (+)= a·b in registers.
INLINE void page_tile(const int R, const int J, float *c, int64_t ldc, const float *a, int64_t lda, const float *b,
	int64_t ldb, int64_t depth, const int fresh) {
	vec acc[4][4];
	UNROLL for (int r = 0; r < R; r++)
		UNROLL for (int j = 0; j < J; j++) acc[r][j] = fresh ? vzero() : vload(c + r * ldc + j * VLEN);
	for (int64_t k = 0; k < depth; k++) {
		vec x[4];
		UNROLL for (int j = 0; j < J; j++) x[j] = vload(b + k * ldb + j * VLEN);
		UNROLL for (int r = 0; r < R; r++) {
			const vec one = vset(a[r * lda + k]);
			UNROLL for (int j = 0; j < J; j++) acc[r][j] = multiply_add(one, x[j], acc[r][j]);
		}
	}
	UNROLL for (int r = 0; r < R; r++)
		UNROLL for (int j = 0; j < J; j++) vstore(c + r * ldc + j * VLEN, acc[r][j]);
}

// page_product computes n rows of c (+)= a·b, each sum in the order of the depth.
INLINE void page_product(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb, int64_t n,
	int64_t vectors, int64_t depth, const int fresh) {
#if VLEN == 16 || defined(__aarch64__) // 32 registers
	enum { WIDE = 4 };
#else
	enum { WIDE = 2 };
#endif
#define TILE_OF(R) \
	if (wide) page_tile(R, WIDE, to, ldc, from, lda, b, ldb, depth, fresh); \
	else page_tile(R, 1, to, ldc, from, lda, b, ldb, depth, fresh)
	while (vectors > 0) {
		const int wide = vectors >= WIDE;
		for (int64_t i = 0; i < n; i += 4) {
			float *to = c + i * ldc;
			const float *from = a + i * lda;
			if (n - i >= 4) { TILE_OF(4); }
			else if (n - i == 3) { TILE_OF(3); }
			else if (n - i == 2) { TILE_OF(2); }
			else { TILE_OF(1); }
		}
		const int done = wide ? WIDE : 1;
		c += done * VLEN, b += done * VLEN, vectors -= done;
	}
#undef TILE_OF
}

// page_rows lists the rows of the keys or values of a span, of one head; only the first live rows exist.
INLINE void page_rows(const void **rows, const pages *p, const matrix *m, const int32_t *table, int64_t key,
	int64_t live, int64_t kv) {
	for (int64_t i = 0; i < SPAN; i++) {
		rows[i] = NULL;
		if (i >= live) continue;
		const int64_t row = table[(key + i) / BLOCK] * (int64_t)BLOCK + (key + i) % BLOCK;
		rows[i] = (const char *)m->at + (row * m->stride + kv * p->dim) * size_of(m->type);
	}
}

// page_softmax turns the scores of a query at a position, of n keys of a span that begins at key, into exponentials
// relative to the largest score so far, and scales the sums so far.
INLINE void page_softmax(const pages *p, page_room r, int64_t query, int64_t position, int64_t key, int64_t n) {
	float *s = r.scores + query * SPAN, *sums = r.sums + query * GROUP, *top = r.tops + query;
	const int64_t padded = round_up(p->dim, GROUP), first = p->window > 0 ? position - p->window + 1 - key : 0;
	const int64_t end = position + 1 - key;
	for (int64_t i = 0; i < n && i < first; i++) s[i] = -INFINITY;
	for (int64_t i = end < 0 ? 0 : end; i < n; i++) s[i] = -INFINITY;
	vec most = vset(*top);
	for (int64_t i = 0; i < n; i += VLEN) most = vmax(vload(s + i), most);
	const float before = *top, now = vhmax(most);
	*top = now;
	// If no key was seen yet, exponents are relative to 0, and all exponentials are e^-inf = 0.
	float above = now > -INFINITY ? now * p->scale : 0, base = 0;
	if (fabsf(above) >= HUGE_SCORE) base = now, above = 0; // subtract it before scaling
	const vec scale = vset(p->scale), less = vset(-above);
	if (before != now) { // otherwise the factor is 1, which rounding might miss
		const vec factor = vset(vexp(multiply_add(vset(before - base), scale, less))[0]);
		for (int64_t i = 0; i < GROUP; i += VLEN) vstore(sums + i, vload(sums + i) * factor);
		float *out = r.out + query * padded;
		for (int64_t i = 0; i < padded; i += VLEN) vstore(out + i, vload(out + i) * factor);
	}
	vec sum = vload(sums);
	for (int64_t i = 0; i < n; i += VLEN) {
		const vec e = vexp(multiply_add(vload(s + i) - base, scale, less));
		vstore(s + i, e);
		sum += e;
	}
	vstore(sums, sum);
}

static void AT_LEVEL(attend_pages)(const pages *p, page_room r, int64_t row, int64_t end, int64_t kv) {
	const dtype type = p->qkv.type;
	const int64_t share = p->heads / p->kv_heads, n = (end - row) * share, padded = round_up(p->dim, GROUP);
	const int32_t *table = p->tables + p->places[2 * row] * p->table;
	int64_t from = INT64_MAX, last = 0;
	for (int64_t i = row; i < end; i++) {
		const int64_t at = p->places[2 * i + 1], first = p->window > 0 && at >= p->window ? at - p->window + 1 : 0;
		from = first < from ? first : from, last = at > last ? at : last;
	}
	for (int64_t i = 0; i < n; i++) {
		const void *q = (const char *)p->qkv.at +
			((row + i / share) * p->qkv.stride + (kv * share + i % share) * p->dim) * size_of(type);
		pack_rows(0, type, r.queries + i * padded, padded, &q, 1, p->dim);
		r.tops[i] = -INFINITY;
	}
	memset(r.out, 0, (size_t)(n * padded) * sizeof(float));
	memset(r.sums, 0, (size_t)(n * GROUP) * sizeof(float));
	for (int64_t key = from / SPAN * SPAN; key <= last; key += SPAN) {
		const int64_t live = last + 1 - key < SPAN ? last + 1 - key : SPAN, lanes = round_up(live, VLEN);
		const void *rows[SPAN];
		page_rows(rows, p, &p->k, table, key, live, kv);
		pack_lanes(0, type, r.keys, rows, lanes, p->dim);
		page_product(r.scores, SPAN, r.queries, padded, r.keys, LANES, n, lanes / VLEN, p->dim, 1);
		for (int64_t i = 0; i < n; i++) page_softmax(p, r, i, p->places[2 * (row + i / share) + 1], key, lanes);
		page_rows(rows, p, &p->v, table, key, live, kv);
		pack_rows(0, type, r.values, padded, rows, live, p->dim);
		page_product(r.out, padded, r.scores, SPAN, r.values, padded, n, padded / VLEN, live, 0);
	}
	for (int64_t i = 0; i < n; i++) {
		void *y = (char *)p->y.at + ((row + i / share) * p->y.stride + (kv * share + i % share) * p->dim) * size_of(type);
		store_row(type, y, r.out + i * padded, 1 / vsum(vload(r.sums + i * GROUP)), p->dim);
	}
}
#endif
