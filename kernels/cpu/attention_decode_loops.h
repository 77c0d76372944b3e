// One query's attention to a chunk of keys, all heads. A row of the KV cache holds all key/value heads next to each
// other. The loops process VLEN rows at a time, all heads of these before the next, so that memory is read from start
// to end.

#include "attention_block.h"

#define chunk_scores AT_LEVEL(chunk_scores)
#define sum_each AT_LEVEL(sum_each)
#define group_scores AT_LEVEL(group_scores)
#define chunk_values AT_LEVEL(chunk_values)
#define sum_values AT_LEVEL(sum_values)
#define near_rows AT_LEVEL(near_rows)

// near_rows prefetches one head's share of the VLEN rows that will be read next.
INLINE void near_rows(const cpu_attention *a, const matrix *m, int64_t row, int64_t end, int64_t head) {
	const int64_t size = size_of(a->q.type), n = end - row < VLEN ? end - row : VLEN;
	const int64_t share = n * a->head_dim * size; // bytes
	const char *p = (const char *)m->at + row * m->stride * size + head * share;
	for (int64_t i = 0; i < share; i += 64) __builtin_prefetch(p + i);
}

// sum_each returns a vector whose lane i is the sum of the lanes of x[i]: two vectors become one with the sums of both,
// until one is left.
INLINE vec sum_each(vec *x) {
#if VLEN == 16
	__m512 y[16];
	for (int i = 0; i < 16; i++) y[i] = (__m512)x[i];
	for (int i = 0; i < 8; i++)
		y[i] = _mm512_unpacklo_ps(y[2 * i], y[2 * i + 1]) + _mm512_unpackhi_ps(y[2 * i], y[2 * i + 1]);
	for (int i = 0; i < 4; i++) {
		__m512d a = _mm512_castps_pd(y[2 * i]), b = _mm512_castps_pd(y[2 * i + 1]);
		y[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b)) + _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
	}
	for (int n = 2; n > 0; n /= 2)
		for (int i = 0; i < n; i++)
			y[i] = _mm512_shuffle_f32x4(y[2 * i], y[2 * i + 1], 0x88) + _mm512_shuffle_f32x4(y[2 * i], y[2 * i + 1], 0xDD);
	return (vec)y[0];
#else
	vec sum = vzero();
	transpose(x);
	for (int i = 0; i < VLEN; i++) sum += x[i];
	return sum;
#endif
}

// group_scores computes the scores of R heads, whose queries are at q, for the VLEN / R keys at k, which are step bytes
// apart.
INLINE void group_scores(
	int R, int pair, dtype type, float *scores, const char *q, int64_t dim, const char *k, int64_t step) {
	const int64_t keys = VLEN / R, size = size_of(type), words = pair ? dim / 2 : dim;
	vec sums[VLEN], x[4];
	for (int i = 0; i < VLEN; i++) sums[i] = vzero();
	for (int64_t at = 0; at < words; at += VLEN) {
		const int64_t end = at + VLEN < words ? at + VLEN : words;
		for (int r = 0; r < R; r++) x[r] = load_words(pair, type, q + r * dim * size, at, end);
		for (int i = 0; i < keys; i++) {
			vec y = load_words(pair, type, k + i * step, at, end);
			for (int r = 0; r < R; r++) sums[r * keys + i] = dot_step(pair, sums[r * keys + i], x[r], y);
		}
	}
	vec all = sum_each(sums);
	for (int r = 0; r < R; r++) memcpy(scores + r * CHUNK, (float *)&all + r * keys, (size_t)keys * sizeof(float));
}

// chunk_scores computes the scores of the keys lo to hi, [heads][CHUNK].
INLINE void chunk_scores(int pair, dtype type, const cpu_attention *a, float *scores, int64_t lo, int64_t hi) {
	const int64_t share = a->heads / a->kv_heads, dim = a->head_dim, step = a->k.stride * size_of(type);
	for (int64_t key = lo; key < hi; key += VLEN)
		for (int64_t kv = 0; kv < a->kv_heads; kv++) {
			const int64_t end = key + VLEN < hi ? key + VLEN : hi;
			if (end < hi) near_rows(a, &a->k, end, hi, kv);
			else near_rows(a, &a->v, lo, hi, kv);
			for (int64_t h = kv * share, heads; h < (kv + 1) * share; h += heads) {
				heads = (kv + 1) * share - h >= 4 ? 4 : 1;
				const char *q = row_of(a, &a->q, 0, h);
				// The last keys may be computed twice. A chunk with too few keys repeats each as often as it takes to fill a group.
				const int64_t n = VLEN / heads, few = hi - lo < n;
				for (int64_t at = key; at < end; at += few ? 1 : n) {
					const int64_t from = few || at + n <= hi ? at : hi - n, by = few ? 0 : step;
					const char *k = row_of(a, &a->k, from, kv);
					float *s = scores + h * CHUNK + from - lo;
					if (heads == 4) group_scores(4, pair, type, s, q, dim, k, by);
					else group_scores(1, pair, type, s, q, dim, k, by);
				}
			}
		}
}

// sum_values adds the values of n rows at v to the sums of R heads: J vectors of them, or left elements of one vector.
INLINE void sum_values(int R, int J, dtype type, float *out, int64_t ldo, const float *weights, const char *v,
	int64_t step, int64_t left, int64_t n) {
	vec acc[4][4];
	for (int r = 0; r < R; r++)
		for (int j = 0; j < J; j++) acc[r][j] = vload(out + r * ldo + j * VLEN);
	for (int64_t i = 0; i < n; i++, v += step) {
		vec x[4];
		for (int j = 0; j < J; j++) x[j] = load_words(0, type, v, j * VLEN, J > 1 ? J * VLEN : left);
		for (int r = 0; r < R; r++)
			for (int j = 0; j < J; j++) acc[r][j] += weights[r * CHUNK + i] * x[j];
	}
	for (int r = 0; r < R; r++)
		for (int j = 0; j < J; j++) vstore(out + r * ldo + j * VLEN, acc[r][j]);
}

// chunk_values adds up the values of the keys lo to hi with their weights, [heads][CHUNK], into out [heads][dim].
INLINE void chunk_values(dtype type, const cpu_attention *a, float *out, const float *weights, int64_t lo, int64_t hi) {
	const int64_t dim = a->head_dim, padded = round_up(dim, GROUP), share = a->heads / a->kv_heads, size = size_of(type);
	const int64_t step = a->v.stride * size;
	memset(out, 0, (size_t)(a->heads * padded) * sizeof(float));
	for (int64_t key = lo; key < hi; key += VLEN)
		for (int64_t kv = 0; kv < a->kv_heads; kv++) {
			int64_t n = hi - key < VLEN ? hi - key : VLEN;
			if (key + VLEN < hi) near_rows(a, &a->v, key + VLEN, hi, kv);
			for (int64_t h = kv * share, heads; h < (kv + 1) * share; h += heads) {
				const char *v = row_of(a, &a->v, key, kv);
				const float *w = weights + h * CHUNK + key - lo;
				heads = (kv + 1) * share - h >= 4 ? 4 : 1;
				for (int64_t at = 0, columns; at < dim; at += columns * VLEN) {
					float *o = out + h * padded + at;
					const char *p = v + at * size;
					columns = dim - at >= 4 * VLEN ? 4 : 1;
					if (heads == 4 && columns == 4) sum_values(4, 4, type, o, padded, w, p, step, 0, n);
					else if (heads == 4) sum_values(4, 1, type, o, padded, w, p, step, dim - at, n);
					else if (columns == 4) sum_values(1, 4, type, o, padded, w, p, step, 0, n);
					else sum_values(1, 1, type, o, padded, w, p, step, dim - at, n);
				}
			}
		}
}

static void AT_LEVEL(decode_chunk)(
	const cpu_attention *a, const struct part *p, float *scores, int64_t lo, int64_t hi) {
	if (pairs(a, BF16_DOT)) chunk_scores(BF16_DOT, BF16, a, scores, lo, hi);
	else FOR_TYPE(a->q.type, chunk_scores(0, type, a, scores, lo, hi))
	const float scale = (float)(1 / a->divisor);
	for (int64_t h = 0; h < a->heads; h++) {
		float *s = scores + h * CHUNK;
		vec tops = vset(-INFINITY), sums = vzero();
		int64_t n = hi - lo;
		for (int64_t i = n; i % VLEN; i++) s[i] = -INFINITY; // what other operations left there is no score
		for (int64_t i = 0; i < n; i += VLEN) tops = vmax(vload(s + i), tops);
		const float most = vhmax(tops), top = most * scale;
		const float base = fabsf(top) < HUGE_SCORE ? 0 : most, above = base == 0 ? top : 0;
		for (int64_t i = 0; i < n; i += VLEN) {
			vec e = vexp((vload(s + i) - base) * scale - above);
			vstore(s + i, e);
			sums += vload_part(s + i, n - i < VLEN ? n - i : VLEN);
		}
		p->top[h] = top, p->sum[h] = vsum(sums);
	}
	FOR_TYPE(a->q.type, chunk_values(type, a, p->out, scores, lo, hi))
}

// add_part adds another part's sums of a head to this part's: both are first scaled to the larger of the two largest
// scores.
static void AT_LEVEL(add_part)(const struct part *to, const struct part *from, int64_t h, int64_t padded) {
	float top = to->top[h] > from->top[h] ? to->top[h] : from->top[h];
	float x = expf(to->top[h] - top), y = expf(from->top[h] - top);
	to->top[h] = top;
	to->sum[h] = to->sum[h] * x + from->sum[h] * y;
	for (float *p = to->out + h * padded, *q = from->out + h * padded, *end = p + padded; p < end; p += VLEN, q += VLEN)
		vstore(p, vload(p) * x + vload(q) * y);
}

static void AT_LEVEL(finish_head)(const cpu_attention *a, const struct part *p, int64_t h) {
	const int64_t padded = round_up(a->head_dim, GROUP);
	store_row(a->q.type, (void *)row_of(a, &a->y, 0, h), p->out + h * padded, 1 / p->sum[h], a->head_dim);
}
