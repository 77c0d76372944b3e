// RMSNorm, LayerNorm, both with an addition before, and QKNorm; kernels/op_rmsnorm.go, op_layernorm.go and op_qknorm.go
// have the formulas.
#ifndef LEVEL
#include "ops.h"

// One norm, forward or backward. Forward, h is x + b if the two are added. Backward, y is the gradient of x.
typedef struct {
	void *y, *h, *x, *b, *dy;
	const void *w, *wk; // wk: the weight for key heads if w is that for query heads
	const void *bias;   // of LayerNorm, or NULL
	float *mean;        // of LayerNorm
	float *rstd, *dw, *partials;
	int64_t dim, heads, kv_heads;
	int64_t rows_per_partial, partial_count, width; // width: floats per partial
	float eps;
	int add;
} norm;

// part returns the address of element i of x.
static inline void *part(const void *x, int64_t i, dtype type) { return (char *)x + i * size_of(type); }

#define EACH_LEVEL "ops_norm.c"
#include "each_level.h"

TASKS(rmsnorm);
TASKS(add_rmsnorm);
TASKS(layernorm);
TASKS(add_layernorm);
TASKS(qknorm);
TASKS(rmsnorm_backward);
TASKS(layernorm_backward);
TASKS(qknorm_backward);
static const cpu_task sum_partials[CPU_LEVELS] = AT_EACH_LEVEL(sum_partials);

// RMSNorm computes the norm of every row of x.
void cpu_rmsnorm(tensor y, tensor rstd, tensor x, tensor w, float eps) {
	norm o = {
		.y = (void *)y.at, .x = (void *)x.at, .w = (void *)w.at, .rstd = (float *)rstd.at, .dim = y.cols, .eps = eps};
	cpu_parallel(rmsnorm[y.type][cpu_level()], &o, y.rows, grain(y.cols * 2 * size_of(y.type)));
}

// AddRMSNorm computes h = a + b, and the norm of every row of h.
void cpu_add_rmsnorm(tensor y, tensor rstd, tensor h, tensor a, tensor b, tensor w, float eps) {
	norm o = {.y = (void *)y.at, .h = (void *)h.at, .x = (void *)a.at, .b = (void *)b.at, .w = (void *)w.at,
		.rstd = (float *)rstd.at, .dim = y.cols, .eps = eps};
	cpu_parallel(add_rmsnorm[y.type][cpu_level()], &o, y.rows, grain(y.cols * 4 * size_of(y.type)));
}

// LayerNorm computes the norm of every row of x. bias may be the zero Tensor.
void cpu_layer_norm(tensor y, tensor mean, tensor rstd, tensor x, tensor w, tensor bias, float eps) {
	norm o = {.y = (void *)y.at, .x = (void *)x.at, .w = (void *)w.at, .bias = (void *)bias.at, .mean = (float *)mean.at,
		.rstd = (float *)rstd.at, .dim = y.cols, .eps = eps};
	cpu_parallel(layernorm[y.type][cpu_level()], &o, y.rows, grain(y.cols * 2 * size_of(y.type)));
}

// AddLayerNorm computes h = a + b, and the norm of every row of h. bias may be the zero Tensor.
void cpu_add_layer_norm(tensor y, tensor mean, tensor rstd, tensor h, tensor a, tensor b, tensor w, tensor bias,
    float eps) {
	norm o = {.y = (void *)y.at, .h = (void *)h.at, .x = (void *)a.at, .b = (void *)b.at, .w = (void *)w.at,
		.bias = (void *)bias.at, .mean = (float *)mean.at, .rstd = (float *)rstd.at, .dim = y.cols, .eps = eps};
	cpu_parallel(add_layernorm[y.type][cpu_level()], &o, y.rows, grain(y.cols * 4 * size_of(y.type)));
}

// QKNorm computes the norm of every head of q and k.
void cpu_qknorm(tensor y, tensor rstd, tensor qkv, tensor wq, tensor wk, int64_t heads, int64_t kv_heads, float eps) {
	norm o = {.y = (void *)y.at, .x = (void *)qkv.at, .w = (void *)wq.at, .wk = (void *)wk.at, .rstd = (float *)rstd.at,
		.dim = wq.cols, .heads = heads, .kv_heads = kv_heads, .eps = eps};
	cpu_parallel(qknorm[y.type][cpu_level()], &o, y.rows, grain(y.cols * 2 * size_of(y.type)));
}

// Few partials, so that adding them up is cheap compared with the rows; but enough that threads share them evenly.
static int64_t rows_per_partial(int64_t rows, int64_t width) {
	int64_t n = grain(width * 6), min_rows = (rows + MAX_NORM_PARTIALS - 1) / MAX_NORM_PARTIALS;
	return n > min_rows ? n : min_rows;
}

// NormPartials returns the number of partial sums of weight gradients for rows of width elements.
int64_t cpu_norm_partials(int64_t rows, int64_t width) {
	int64_t n = rows_per_partial(rows, width);
	return (rows + n - 1) / n;
}

// backward handles the rows and then adds up the partials in their order, whichever thread computed them.
static void backward(const cpu_task tasks[][CPU_LEVELS], norm *o, tensor dx, int64_t width) {
	o->rows_per_partial = rows_per_partial(dx.rows, dx.cols);
	o->partial_count = cpu_norm_partials(dx.rows, dx.cols);
	o->width = width;
	cpu_parallel(tasks[dx.type][cpu_level()], o, dx.rows, o->rows_per_partial);
}

// sum_all_partials adds the first dim columns of the partials to dw, and the next to dw2. Either may be NULL.
static void sum_all_partials(norm *o, float *dw, float *dw2) {
	float *const sums[] = {dw, dw2};
	for (int i = 0; i < 2; i++, o->partials += o->dim)
		if ((o->dw = sums[i])) cpu_parallel(sum_partials[cpu_level()], o, o->dim, grain(o->partial_count * 4));
}

// RMSNormBackward computes the gradient of RMSNorm, and adds it to dx if add is true. partials are [NormPartials(rows,
// dim), dim], or the zero Tensor if there is no dw.
void cpu_rmsnorm_backward(tensor dx, tensor dw, tensor dy, tensor x, tensor w, tensor rstd, tensor partials, bool add) {
	norm o = {.y = (void *)dx.at, .dw = (float *)dw.at, .dy = (void *)dy.at, .x = (void *)x.at, .w = (void *)w.at,
		.rstd = (float *)rstd.at, .partials = (float *)partials.at, .dim = dx.cols, .add = add};
	backward(rmsnorm_backward, &o, dx, dx.cols);
	sum_all_partials(&o, o.dw, NULL);
}

// LayerNormBackward computes the gradient of LayerNorm, and adds it to dx if add is true. partials are
// [NormPartials(rows, dim), 2·dim], for dw and db, or [NormPartials(rows, dim), dim] if there is no db, or the zero
// Tensor if there is neither.
void cpu_layer_norm_backward(tensor dx, tensor dw, tensor db, tensor dy, tensor x, tensor w, tensor mean, tensor rstd,
	tensor partials, bool add) {
	norm o = {.y = (void *)dx.at, .dy = (void *)dy.at, .x = (void *)x.at, .w = (void *)w.at, .mean = (float *)mean.at,
		.rstd = (float *)rstd.at, .partials = (float *)partials.at, .dim = dx.cols, .add = add};
	backward(layernorm_backward, &o, dx, db.at ? 2 * dx.cols : dx.cols);
	sum_all_partials(&o, (float *)dw.at, (float *)db.at);
}

// QKNormBackward computes the gradient of QKNorm. partials are [NormPartials(rows, elements of a row), 2·headDim], or
// the zero Tensor if there is neither dwq nor dwk.
void cpu_qknorm_backward(tensor dqkv, tensor dwq, tensor dwk, tensor dy, tensor qkv, tensor wq, tensor wk, tensor rstd,
	tensor partials, int64_t heads, int64_t kv_heads) {
	int64_t dim = wq.cols;
	norm o = {.y = (void *)dqkv.at, .dy = (void *)dy.at, .x = (void *)qkv.at, .w = (void *)wq.at, .wk = (void *)wk.at,
		.rstd = (float *)rstd.at, .partials = (float *)partials.at, .dim = dim, .heads = heads, .kv_heads = kv_heads};
	backward(qknorm_backward, &o, dqkv, 2 * dim);
	sum_all_partials(&o, (float *)dwq.at, (float *)dwk.at);
}

#else
#include "ops_loops.h"

// Rows are handled in small groups. The sums of a group do not wait for each other, nor does one row wait for the root
// of another, and what they share, w and dw, is loaded and stored once for all of them.
#ifndef GROUP
#define GROUP 4
#define IN_GROUPS(r, rows, name, ...)                                               \
	do {                                                                            \
		int64_t r = 0;                                                              \
		for (; r + GROUP <= (rows); r += GROUP) AT_LEVEL(name)(__VA_ARGS__, GROUP); \
		for (; r < (rows); r++) AT_LEVEL(name)(__VA_ARGS__, 1);                     \
	} while (0)
#endif

// first_lanes returns x with zeros instead of all lanes but the first n.
INLINE vec AT_LEVEL(first_lanes)(vec x, int64_t n) { return n == VLEN ? x : vload_part((const float *)&x, n); }

// forward_group normalizes g rows of dim elements from x on. If h is not NULL, it first becomes x + b, and what is
// normalized is the sum as it is stored. If centered is not 0, the norm is LayerNorm, and bias may be NULL.
INLINE void AT_LEVEL(forward_group)(void *y, void *h, const void *x, const void *b, const void *w, const void *bias,
	float *mean, float *rstd, int64_t dim, float eps, const int centered, const dtype type, const int g) {
	vec s[GROUP] = {0};
	EACH(i, n, 0, dim, {
		for (int k = 0; k < g; k++) {
			vec v = ld(x, k * dim + i, n, type);
			if (h) {
				v = stored(v + ld(b, k * dim + i, n, type), type);
				st(h, k * dim + i, n, v, type);
			}
			s[k] += centered ? v : v * v;
		}
	});
	if (h) x = h;
	float off[GROUP] = {0}; // how far the first mean is from the mean, because its sum was rounded
	if (centered) {
		vec rest[GROUP] = {0};
		for (int k = 0; k < g; k++) {
			mean[k] = vsum(s[k]) / (float)dim;
			s[k] = vzero();
		}
		EACH(i, n, 0, dim, {
			for (int k = 0; k < g; k++) {
				vec v = AT_LEVEL(first_lanes)(ld(x, k * dim + i, n, type) - mean[k], n);
				s[k] += v * v;
				rest[k] += v;
			}
		});
		for (int k = 0; k < g; k++) mean[k] += off[k] = vsum(rest[k]) / (float)dim;
	}
	for (int k = 0; k < g; k++) {
		float square = vsum(s[k]) / (float)dim;
		if (centered) square = fmaxf(0, square - off[k] * off[k]);
		rstd[k] = 1.0f / sqrtf(square + eps);
	}
	EACH(i, n, 0, dim, {
		vec weight = ld(w, i, n, type);
		vec shift = centered && bias ? ld(bias, i, n, type) : vzero();
		for (int k = 0; k < g; k++) {
			vec v = ld(x, k * dim + i, n, type);
			st(y, k * dim + i, n, centered ? (v - mean[k]) * rstd[k] * weight + shift : v * rstd[k] * weight, type);
		}
	});
}

// backward_group computes the gradient of g rows. dw and, for LayerNorm, db are sums to which the rows' contributions
// are added, unless they are NULL. If add is not 0, the gradient is added to dx.
INLINE void AT_LEVEL(backward_group)(void *dx, float *dw, float *db, const void *dy, const void *x, const void *w,
	const float *mean, const float *rstd, int64_t dim, const int add, const int centered, const dtype type,
	const int g) {
	vec s[GROUP] = {0}, s2[GROUP] = {0};
	EACH(i, n, 0, dim, {
		vec weight = ld(w, i, n, type);
		for (int k = 0; k < g; k++) {
			vec v = ld(x, k * dim + i, n, type), gradient = ld(dy, k * dim + i, n, type) * weight;
			s[k] += gradient * ((centered ? v - mean[k] : v) * rstd[k]);
			if (centered) s2[k] += gradient;
		}
	});
	float of_xhat[GROUP], of_one[GROUP]; // means of the gradient's products with x̂ and with 1
	for (int k = 0; k < g; k++) {
		of_xhat[k] = vsum(s[k]) / (float)dim;
		if (centered) of_one[k] = vsum(s2[k]) / (float)dim;
	}
	EACH(i, n, 0, dim, {
		vec weight = ld(w, i, n, type);
		vec sum = dw ? ld(dw, i, n, F32) : vzero(), sum2 = db ? ld(db, i, n, F32) : vzero();
		for (int k = 0; k < g; k++) {
			vec d = ld(dy, k * dim + i, n, type), v = ld(x, k * dim + i, n, type);
			vec xhat = (centered ? v - mean[k] : v) * rstd[k];
			// A row of one element is its own mean, so that its gradient is 0: rounding would leave 2⁻²⁴ of dy · w · rstd.
			const float scale = centered && dim == 1 ? 0 : rstd[k];
			vec gradient = scale * (centered ? d * weight - of_one[k] - xhat * of_xhat[k] : d * weight - xhat * of_xhat[k]);
			if (add) gradient += ld(dx, k * dim + i, n, type);
			st(dx, k * dim + i, n, gradient, type);
			sum += d * xhat;
			if (centered) sum2 += d;
		}
		if (dw) st(dw, i, n, sum, F32);
		if (centered && db) st(db, i, n, sum2, F32);
	});
}

// forward_rows and backward_rows do the same for any number of rows.
INLINE void AT_LEVEL(forward_rows)(void *y, void *h, const void *x, const void *b, const void *w, const void *bias,
	float *mean, float *rstd, int64_t rows, int64_t dim, float eps, const int centered, const dtype type) {
	IN_GROUPS(r, rows, forward_group, part(y, r * dim, type), h ? part(h, r * dim, type) : NULL, part(x, r * dim, type),
		h ? part(b, r * dim, type) : NULL, w, bias, centered ? mean + r : NULL,
		rstd + r, dim, eps, centered, type);
}

INLINE void AT_LEVEL(backward_rows)(void *dx, float *dw, float *db, const void *dy, const void *x, const void *w,
	const float *mean, const float *rstd, int64_t rows, int64_t dim, const int add, const int centered,
	const dtype type) {
	IN_GROUPS(r, rows, backward_group, part(dx, r * dim, type), dw, db, part(dy, r * dim, type), part(x, r * dim, type), w,
		centered ? mean + r : NULL, rstd + r, dim, add, centered, type);
}

// norm_forward computes rows lo to hi of a norm, of x or, if add is not 0, of h = x + b.
INLINE void AT_LEVEL(norm_forward)(
	const norm *o, int64_t lo, int64_t hi, const int add, const int centered, const dtype type) {
	int64_t at = lo * o->dim;
	AT_LEVEL(forward_rows)(part(o->y, at, type), add ? part(o->h, at, type) : NULL, part(o->x, at, type),
		add ? part(o->b, at, type) : NULL, o->w, o->bias, centered ? o->mean + lo : NULL, o->rstd + lo, hi - lo, o->dim,
		o->eps, centered, type);
}

BODY(rmsnorm, norm) { AT_LEVEL(norm_forward)(o, lo, hi, 0, 0, type); }
EACH_TYPE(rmsnorm)

BODY(add_rmsnorm, norm) { AT_LEVEL(norm_forward)(o, lo, hi, 1, 0, type); }
EACH_TYPE(add_rmsnorm)

BODY(layernorm, norm) { AT_LEVEL(norm_forward)(o, lo, hi, 0, 1, type); }
EACH_TYPE(layernorm)

BODY(add_layernorm, norm) { AT_LEVEL(norm_forward)(o, lo, hi, 1, 1, type); }
EACH_TYPE(add_layernorm)

// The heads of a row follow each other, as rows do.
BODY(qknorm, norm) {
	int64_t normed = o->heads + o->kv_heads, width = (normed + o->kv_heads) * o->dim;
	for (int64_t r = lo; r < hi; r++) {
		int64_t q = r * width, k = q + o->heads * o->dim, v = q + normed * o->dim;
		float *rstd = o->rstd + r * normed;
		AT_LEVEL(forward_rows)(part(o->y, q, type), NULL, part(o->x, q, type), NULL, o->w, NULL, NULL, rstd, o->heads,
			o->dim, o->eps, 0, type);
		AT_LEVEL(forward_rows)(part(o->y, k, type), NULL, part(o->x, k, type), NULL, o->wk, NULL, NULL, rstd + o->heads,
			o->kv_heads, o->dim, o->eps, 0, type);
		if (o->y != o->x) memcpy(part(o->y, v, type), part(o->x, v, type), (size_t)(o->kv_heads * o->dim * size_of(type)));
	}
}
EACH_TYPE(qknorm)

// norm_backward computes rows lo to hi of a norm's gradient. Each partial is the weights' gradient of its own rows.
INLINE void AT_LEVEL(norm_backward)(const norm *o, int64_t lo, int64_t hi, const int centered, const dtype type) {
	float *dw = o->partials ? o->partials + lo / o->rows_per_partial * o->width : NULL;
	float *db = centered && dw && o->width > o->dim ? dw + o->dim : NULL;
	if (dw) memset(dw, 0, (size_t)o->width * sizeof *dw);
	int64_t at = lo * o->dim;
	void *dx = part(o->y, at, type), *dy = part(o->dy, at, type), *x = part(o->x, at, type);
	const float *mean = centered ? o->mean + lo : NULL, *rstd = o->rstd + lo;
	if (o->add) AT_LEVEL(backward_rows)(dx, dw, db, dy, x, o->w, mean, rstd, hi - lo, o->dim, 1, centered, type);
	else AT_LEVEL(backward_rows)(dx, dw, db, dy, x, o->w, mean, rstd, hi - lo, o->dim, 0, centered, type);
}

BODY(rmsnorm_backward, norm) { AT_LEVEL(norm_backward)(o, lo, hi, 0, type); }
EACH_TYPE(rmsnorm_backward)

BODY(layernorm_backward, norm) { AT_LEVEL(norm_backward)(o, lo, hi, 1, type); }
EACH_TYPE(layernorm_backward)

BODY(qknorm_backward, norm) {
	int64_t normed = o->heads + o->kv_heads, width = (normed + o->kv_heads) * o->dim;
	float *dwq = o->partials ? o->partials + lo / o->rows_per_partial * 2 * o->dim : NULL,
		  *dwk = dwq ? dwq + o->dim : NULL;
	if (dwq) memset(dwq, 0, 2 * (size_t)o->dim * sizeof *dwq);
	for (int64_t r = lo; r < hi; r++) {
		int64_t q = r * width, k = q + o->heads * o->dim, v = q + normed * o->dim;
		const float *rstd = o->rstd + r * normed;
		AT_LEVEL(backward_rows)(part(o->y, q, type), dwq, NULL, part(o->dy, q, type), part(o->x, q, type), o->w, NULL, rstd,
			o->heads, o->dim, 0, 0, type);
		AT_LEVEL(backward_rows)(part(o->y, k, type), dwk, NULL, part(o->dy, k, type), part(o->x, k, type), o->wk, NULL,
			rstd + o->heads, o->kv_heads, o->dim, 0, 0, type);
		if (o->y != o->dy) memcpy(part(o->y, v, type), part(o->dy, v, type), (size_t)(o->kv_heads * o->dim * size_of(type)));
	}
}
EACH_TYPE(qknorm_backward)

// sum_partials adds columns lo to hi of the partials to dw, in their order.
static void AT_LEVEL(sum_partials)(void *arg, int64_t lo, int64_t hi) {
	const norm *o = arg;
	EACH(i, n, lo, hi, {
		vec s = vzero();
		for (int64_t b = 0; b < o->partial_count; b++) s += ld(o->partials + b * o->width, i, n, F32);
		st(o->dw, i, n, ld(o->dw, i, n, F32) + s, F32);
	});
}
#endif
