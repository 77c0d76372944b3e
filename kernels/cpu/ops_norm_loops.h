#include "ops_loops.h"


// Rows are handled in groups of a few. Their sums do not wait for each other, nor does one row for the other's root, and
// what they share, w and dw, is loaded and stored once for all of them.
#ifndef GROUP
#define GROUP 4
#define IN_GROUPS(r, rows, name, ...)                                               \
	do {                                                                            \
		int64_t r = 0;                                                              \
		for (; r + GROUP <= (rows); r += GROUP) AT_LEVEL(name)(__VA_ARGS__, GROUP); \
		for (; r < (rows); r++) AT_LEVEL(name)(__VA_ARGS__, 1);                     \
	} while (0)
#endif

// forward_group normalises the g rows of dim elements from x on. Where h is not NULL, it becomes x + b first, and what is
// normalised is the sum as it is stored.
INLINE void AT_LEVEL(forward_group)(void *y, void *h, const void *x, const void *b, const void *w, float *rstd, int64_t dim,
	float eps, const int bf16, const int g) {
	vec s[GROUP] = {0};
	EACH(i, n, 0, dim, {
		for (int k = 0; k < g; k++) {
			vec v = ld(x, k * dim + i, n, bf16);
			if (h) {
				v = stored(v + ld(b, k * dim + i, n, bf16), bf16);
				st(h, k * dim + i, n, v, bf16);
			}
			s[k] += v * v;
		}
	});
	for (int k = 0; k < g; k++) rstd[k] = 1.0f / sqrtf(vsum(s[k]) / (float)dim + eps);
	if (h) x = h;
	EACH(i, n, 0, dim, {
		vec weight = ld(w, i, n, bf16);
		for (int k = 0; k < g; k++) st(y, k * dim + i, n, ld(x, k * dim + i, n, bf16) * rstd[k] * weight, bf16);
	});
}

// backward_group is the gradient of g rows. dw, where it is not NULL, are sums that the rows' parts are added to. Where add
// is not 0, dx holds a gradient already, that this one is added to.
INLINE void AT_LEVEL(backward_group)(void *dx, float *dw, const void *dy, const void *x, const void *w, const float *rstd,
	int64_t dim, const int add, const int bf16, const int g) {
	vec s[GROUP] = {0};
	EACH(i, n, 0, dim, {
		vec weight = ld(w, i, n, bf16);
		for (int k = 0; k < g; k++) s[k] += ld(dy, k * dim + i, n, bf16) * weight * (ld(x, k * dim + i, n, bf16) * rstd[k]);
	});
	float mean[GROUP];
	for (int k = 0; k < g; k++) mean[k] = vsum(s[k]) / (float)dim;
	EACH(i, n, 0, dim, {
		vec weight = ld(w, i, n, bf16);
		vec sum = dw ? ld(dw, i, n, 0) : vzero();
		for (int k = 0; k < g; k++) {
			vec d = ld(dy, k * dim + i, n, bf16);
			vec xhat = ld(x, k * dim + i, n, bf16) * rstd[k];
			vec gradient = rstd[k] * (d * weight - xhat * mean[k]);
			if (add) gradient += ld(dx, k * dim + i, n, bf16);
			st(dx, k * dim + i, n, gradient, bf16);
			sum += d * xhat;
		}
		if (dw) st(dw, i, n, sum, 0);
	});
}

// forward_rows and backward_rows are the same for any number of rows.
INLINE void AT_LEVEL(forward_rows)(void *y, void *h, const void *x, const void *b, const void *w, float *rstd, int64_t rows,
	int64_t dim, float eps, const int bf16) {
	IN_GROUPS(r, rows, forward_group, part(y, r * dim, bf16), h ? part(h, r * dim, bf16) : NULL, part(x, r * dim, bf16),
		h ? part(b, r * dim, bf16) : NULL, w, rstd + r, dim, eps, bf16);
}

INLINE void AT_LEVEL(backward_rows)(void *dx, float *dw, const void *dy, const void *x, const void *w, const float *rstd,
	int64_t rows, int64_t dim, const int add, const int bf16) {
	IN_GROUPS(r, rows, backward_group, part(dx, r * dim, bf16), dw, part(dy, r * dim, bf16), part(x, r * dim, bf16), w,
		rstd + r, dim, add, bf16);
}

BODY(rmsnorm, norm) {
	int64_t at = lo * o->dim;
	AT_LEVEL(forward_rows)(part(o->y, at, bf16), NULL, part(o->x, at, bf16), NULL, o->w, o->rstd + lo, hi - lo, o->dim, o->eps,
		bf16);
}
BOTH_TYPES(rmsnorm)

BODY(add_rmsnorm, norm) {
	int64_t at = lo * o->dim;
	AT_LEVEL(forward_rows)(part(o->y, at, bf16), part(o->h, at, bf16), part(o->x, at, bf16), part(o->b, at, bf16), o->w,
		o->rstd + lo, hi - lo, o->dim, o->eps, bf16);
}
BOTH_TYPES(add_rmsnorm)

// The heads of a row lie one after the other, as rows do.
BODY(qknorm, norm) {
	int64_t normed = o->heads + o->kv_heads, width = (normed + o->kv_heads) * o->dim;
	for (int64_t r = lo; r < hi; r++) {
		int64_t q = r * width, k = q + o->heads * o->dim, v = q + normed * o->dim;
		float *rstd = o->rstd + r * normed;
		AT_LEVEL(forward_rows)(part(o->y, q, bf16), NULL, part(o->x, q, bf16), NULL, o->w, rstd, o->heads, o->dim, o->eps, bf16);
		AT_LEVEL(forward_rows)(part(o->y, k, bf16), NULL, part(o->x, k, bf16), NULL, o->wk, rstd + o->heads, o->kv_heads, o->dim,
			o->eps, bf16);
		if (o->y != o->x) memcpy(part(o->y, v, bf16), part(o->x, v, bf16), (size_t)(o->kv_heads * o->dim * (bf16 ? 2 : 4)));
	}
}
BOTH_TYPES(qknorm)

// A block of rows shares a row of partials: the weights' gradient of these rows alone.
BODY(rmsnorm_backward, norm) {
	float *dw = o->partials ? o->partials + lo / o->block * o->dim : NULL;
	if (dw) memset(dw, 0, (size_t)o->dim * sizeof *dw);
	int64_t at = lo * o->dim;
	void *dx = part(o->y, at, bf16), *dy = part(o->dy, at, bf16), *x = part(o->x, at, bf16);
	if (o->add) AT_LEVEL(backward_rows)(dx, dw, dy, x, o->w, o->rstd + lo, hi - lo, o->dim, 1, bf16);
	else AT_LEVEL(backward_rows)(dx, dw, dy, x, o->w, o->rstd + lo, hi - lo, o->dim, 0, bf16);
}
BOTH_TYPES(rmsnorm_backward)

BODY(qknorm_backward, norm) {
	int64_t normed = o->heads + o->kv_heads, width = (normed + o->kv_heads) * o->dim;
	float *dwq = o->partials ? o->partials + lo / o->block * 2 * o->dim : NULL, *dwk = dwq ? dwq + o->dim : NULL;
	if (dwq) memset(dwq, 0, 2 * (size_t)o->dim * sizeof *dwq);
	for (int64_t r = lo; r < hi; r++) {
		int64_t q = r * width, k = q + o->heads * o->dim, v = q + normed * o->dim;
		const float *rstd = o->rstd + r * normed;
		AT_LEVEL(backward_rows)(part(o->y, q, bf16), dwq, part(o->dy, q, bf16), part(o->x, q, bf16), o->w, rstd, o->heads,
			o->dim, 0, bf16);
		AT_LEVEL(backward_rows)(part(o->y, k, bf16), dwk, part(o->dy, k, bf16), part(o->x, k, bf16), o->wk, rstd + o->heads,
			o->kv_heads, o->dim, 0, bf16);
		if (o->y != o->dy) memcpy(part(o->y, v, bf16), part(o->dy, v, bf16), (size_t)(o->kv_heads * o->dim * (bf16 ? 2 : 4)));
	}
}
BOTH_TYPES(qknorm_backward)

// sum_partials adds all blocks' partials of the columns lo to hi to dw, block after block.
static void AT_LEVEL(sum_partials)(void *arg, int64_t lo, int64_t hi) {
	const norm *o = arg;
	EACH(i, n, lo, hi, {
		vec s = vzero();
		for (int64_t b = 0; b < o->blocks; b++) s += ld(o->partials + b * o->width, i, n, 0);
		st(o->dw, i, n, ld(o->dw, i, n, 0) + s, 0);
	});
}
