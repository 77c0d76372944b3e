// The rows of attention_eager.c, one after the other.

#include "ops_loops.h"

// softmax_row makes weights of the scores lo to hi, which are seen, and leaves the exponentials in s.
static void AT_LEVEL(softmax_row)(float *s, void *p, float *lse, int64_t lo, int64_t hi, float scale, dtype type) {
	vec tops = vset(-INFINITY);
	int64_t j = lo;
	for (; j + VLEN <= hi; j += VLEN) tops = vmax(vload(s + j), tops);
	float top = vhmax(tops);
	for (; j < hi; j++) top = s[j] > top ? s[j] : top;
	const float above = top > -INFINITY ? top * scale : 0;
	float sum = 0;
	vec sums = vzero();
	EACH(i, n, lo, hi, {
		vec e = vexp(ld(s, i, n, F32) * scale - above);
		st(s, i, n, e, F32);
		if (n == VLEN) sums += e;
		else for (int k = 0; k < n; k++) sum += e[k];
	});
	sum += vsum(sums);
	*lse = above + logf(sum);
	EACH(i, n, lo, hi, st(p, i, n, ld(s, i, n, F32) * (1 / sum), type););
}

static void AT_LEVEL(softmax_row_again)(float *s, void *p, float *lse, int64_t lo, int64_t hi, float scale, dtype type) {
	EACH(i, n, lo, hi, st(p, i, n, vexp(ld(s, i, n, F32) * scale - *lse), type););
}

static void AT_LEVEL(softmax_row_backward)(float *ds, void *p, float *delta, int64_t lo, int64_t hi, float scale, dtype type) {
	EACH(i, n, lo, hi, st(p, i, n, ld(p, i, n, type) * (ld(ds, i, n, F32) - *delta) * scale, type););
}

static float AT_LEVEL(dot_row)(const void *x, const void *y, int64_t dim, dtype type) {
	vec sum = vzero();
	EACH(i, n, 0, dim, sum += ld(x, i, n, type) * ld(y, i, n, type););
	return vsum(sum);
}

static void AT_LEVEL(copy_row)(void *to, const float *from, int64_t dim, dtype type) {
	EACH(i, n, 0, dim, st(to, i, n, ld(from, i, n, F32), type););
}
