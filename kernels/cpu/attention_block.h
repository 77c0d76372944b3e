// The building blocks of attention's forward and backward passes: products of query and key blocks in the cache, and
// copies that bring rows of memory into the order in which products read them. attention_parts.h describes these
// blocks.

// CALLED functions are too long to inline wherever they are used; not every file uses all of them.
#define CALLED static __attribute__((noinline, unused))

#define dot_step AT_LEVEL(dot_step)
#define tile AT_LEVEL(tile)
#define product AT_LEVEL(product)
#define product_of AT_LEVEL(product_of)
#define copy_lanes AT_LEVEL(copy_lanes)
#define copy_rows AT_LEVEL(copy_rows)
#define load_words AT_LEVEL(load_words)
#define transpose AT_LEVEL(transpose)
#define pack_rows AT_LEVEL(pack_rows)
#define pack_depth AT_LEVEL(pack_depth)
#define pack_lanes AT_LEVEL(pack_lanes)
#define dot_rows AT_LEVEL(dot_rows)
#define store_row AT_LEVEL(store_row)

// dot_step adds one word's product: c + a·b, or c + a₀·b₀ + a₁·b₁ for pairs.
INLINE vec dot_step(int pair, vec c, vec a, vec b) {
#if BF16_DOT
	if (pair) return (vec)_mm512_dpbf16_ps((__m512)c, (__m512bh)(__m512i)a, (__m512bh)(__m512i)b);
#endif
	return c + a * b;
}

// tile computes R rows of J vectors of c (+)= a·b in registers. a is [R][depth] words, lda from row to row, or by
// depth, [depth][R]; b is [depth][J vectors].
INLINE void tile(int pair, int R, int J, float *c, int64_t ldc, const float *a, int64_t lda, int by_depth,
	const float *b, int64_t ldb, int64_t depth, int fresh) {
	vec acc[8][4];
	for (int r = 0; r < R; r++)
		for (int j = 0; j < J; j++) acc[r][j] = fresh ? vzero() : vload(c + r * ldc + j * VLEN);
	for (int64_t k = 0; k < depth; k++) {
		vec x[4];
		for (int j = 0; j < J; j++) x[j] = vload(b + k * ldb + j * VLEN);
		for (int r = 0; r < R; r++) {
			vec s = vset(by_depth ? a[k * lda + r] : a[r * lda + k]);
			for (int j = 0; j < J; j++) acc[r][j] = dot_step(pair, acc[r][j], s, x[j]);
		}
	}
	for (int r = 0; r < R; r++)
		for (int j = 0; j < J; j++) vstore(c + r * ldc + j * VLEN, acc[r][j]);
}

// product_of computes c (+)= a·b for a multiple of 8 rows by a number of vectors. Tiles keep 8 to 24 sums in registers,
// enough to hide the latency of additions.
INLINE void product_of(int pair, float *c, int64_t ldc, const float *a, int64_t lda, int by_depth, const float *b,
	int64_t ldb, int64_t rows, int64_t vectors, int64_t depth, int fresh) {
#define TILES(R, J)                                                                                            \
	for (int64_t i = 0; i < rows; i += R)                                                                      \
		tile(pair, R, J, c + i * ldc, ldc, a + (by_depth ? i : i * lda), lda, by_depth, b, ldb, depth, fresh); \
	c += J * VLEN, b += J * VLEN, vectors -= J
#if VLEN == 16 || defined(__aarch64__) // 32 registers
	while (vectors == 4 || vectors > 5) { TILES(4, 4); }
	while (vectors >= 3) { TILES(8, 3); }
	while (vectors >= 2) { TILES(8, 2); }
#else
	while (vectors >= 2) { TILES(4, 2); }
#endif
	while (vectors >= 1) { TILES(8, 1); }
#undef TILES
}

// product is product_of, compiled once for each kind of operand.
CALLED void product(int pair, float *c, int64_t ldc, const float *a, int64_t lda, int by_depth,
                                              const float *b, int64_t ldb, int64_t rows, int64_t vectors, int64_t depth,
                                              int fresh) {
#if BF16_DOT
	if (pair && by_depth) product_of(1, c, ldc, a, lda, 1, b, ldb, rows, vectors, depth, fresh);
	else if (pair) product_of(1, c, ldc, a, lda, 0, b, ldb, rows, vectors, depth, fresh);
	else
#endif
	if (by_depth) product_of(0, c, ldc, a, lda, 1, b, ldb, rows, vectors, depth, fresh);
	else product_of(0, c, ldc, a, lda, 0, b, ldb, rows, vectors, depth, fresh);
}

// load_words returns words at to at+VLEN of a row of n words, with zeros after its end.
INLINE vec load_words(int pair, dtype type, const void *row, int64_t at, int64_t n) {
	int64_t left = n - at;
	return ld(row, at, left >= VLEN ? VLEN : left, pair ? F32 : type);
}

// copy_rows copies n rows of a number of words to out [n][apart]. A NULL row is zeros.
INLINE void copy_rows(int pair, dtype type, float *out, int64_t apart, const void *const *rows, int64_t n,
    int64_t words) {
	for (int64_t i = 0; i < n; i++)
		for (int64_t at = 0; at < words; at += VLEN)
			vstore(out + i * apart + at, rows[i] ? load_words(pair, type, rows[i], at, words) : vzero());
}

CALLED void pack_rows(int pair, dtype of, float *out, int64_t apart, const void *const *rows, int64_t n,
	int64_t words) {
	FOR_TYPE(pair ? F32 : of, copy_rows(0, type, out, apart, rows, n, words))
}

// pack_depth copies n rows of dim elements for a product that sums over rows: out is [n][apart] floats, or pairs of
// rows, [n/2][apart].
CALLED void pack_depth(int pair, dtype type, float *out, int64_t apart, const void *const *rows, int64_t n,
    int64_t dim) {
	if (!pair) {
		pack_rows(0, type, out, apart, rows, n, dim);
		return;
	}
	for (int64_t i = 0; i < n; i += 2)
		for (int64_t at = 0; at < dim; at += VLEN) { // a bfloat16 is the upper half of its float
			vec even = rows[i] ? load_words(0, BF16, rows[i], at, dim) : vzero();
			vec odd = rows[i + 1] ? load_words(0, BF16, rows[i + 1], at, dim) : vzero();
			vstore(out + i / 2 * apart + at, (vec)((vecuns)even >> 16 | (vecuns)odd));
		}
}

// transpose transposes VLEN vectors.
INLINE void transpose(vec *x) {
#if VLEN == 16
	__m512 a[16], b[16];
	for (int i = 0; i < 16; i += 2) {
		a[i] = _mm512_unpacklo_ps((__m512)x[i], (__m512)x[i + 1]);
		a[i + 1] = _mm512_unpackhi_ps((__m512)x[i], (__m512)x[i + 1]);
	}
	for (int i = 0; i < 16; i += 4)
		for (int h = 0; h < 2; h++) {
			__m512d lo = _mm512_castps_pd(a[i + h]), hi = _mm512_castps_pd(a[i + h + 2]);
			b[i + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(lo, hi));
			b[i + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(lo, hi));
		}
	for (int i = 0; i < 4; i++) { // quarter q of b[4r+i] is column 4q+i of rows 4r to 4r+4
		__m512 r01 = _mm512_shuffle_f32x4(b[i], b[4 + i], 0x44), r23 = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0x44);
		x[i] = (vec)_mm512_shuffle_f32x4(r01, r23, 0x88);
		x[4 + i] = (vec)_mm512_shuffle_f32x4(r01, r23, 0xDD);
		r01 = _mm512_shuffle_f32x4(b[i], b[4 + i], 0xEE), r23 = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0xEE);
		x[8 + i] = (vec)_mm512_shuffle_f32x4(r01, r23, 0x88);
		x[12 + i] = (vec)_mm512_shuffle_f32x4(r01, r23, 0xDD);
	}
#elif VLEN == 8
	__m256 a[8], b[8];
	for (int i = 0; i < 8; i += 2) {
		a[i] = _mm256_unpacklo_ps((__m256)x[i], (__m256)x[i + 1]);
		a[i + 1] = _mm256_unpackhi_ps((__m256)x[i], (__m256)x[i + 1]);
	}
	for (int i = 0; i < 8; i += 4)
		for (int h = 0; h < 2; h++) {
			b[i + 2 * h] = _mm256_shuffle_ps(a[i + h], a[i + h + 2], 0x44);
			b[i + 2 * h + 1] = _mm256_shuffle_ps(a[i + h], a[i + h + 2], 0xEE);
		}
	for (int i = 0; i < 4; i++) {
		x[i] = (vec)_mm256_permute2f128_ps(b[i], b[4 + i], 0x20);
		x[4 + i] = (vec)_mm256_permute2f128_ps(b[i], b[4 + i], 0x31);
	}
#else
	float t[VLEN][VLEN];
	for (int i = 0; i < VLEN; i++)
		for (int j = 0; j < VLEN; j++) t[j][i] = x[i][j];
	for (int i = 0; i < VLEN; i++) x[i] = vload(t[i]);
#endif
}

// copy_lanes transposes n rows, a multiple of VLEN, of a number of words to out [words][LANES]: each row becomes a
// lane. It writes up to a multiple of VLEN words.
INLINE void copy_lanes(int pair, dtype type, float *out, const void *const *rows, int64_t n, int64_t words) {
	for (int64_t lane = 0; lane < n; lane += VLEN)
		for (int64_t at = 0; at < words; at += VLEN) {
			vec x[VLEN];
			for (int i = 0; i < VLEN; i++)
				x[i] = rows[lane + i] ? load_words(pair, type, rows[lane + i], at, words) : vzero();
			transpose(x);
			for (int i = 0; i < VLEN; i++) vstore(out + (at + i) * LANES + lane, x[i]);
		}
}

CALLED void pack_lanes(int pair, dtype of, float *out, const void *const *rows, int64_t n, int64_t words) {
	FOR_TYPE(pair ? F32 : of, copy_lanes(0, type, out, rows, n, words))
}

// dot_rows returns the product of two rows in memory, summed in float.
CALLED float dot_rows(dtype of, const void *a, const void *b, int64_t dim) {
	vec sum = vzero();
	FOR_TYPE(of, EACH(i, n, 0, dim, { sum += ld(a, i, n, type) * ld(b, i, n, type); }))
	return vsum(sum);
}

// store_row stores f·x, rounded once.
CALLED void store_row(dtype of, void *row, const float *x, float f, int64_t dim) {
	FOR_TYPE(of, EACH(i, n, 0, dim, { st(row, i, n, ld(x, i, n, F32) * f, type); }))
}
