#include "ops_loops.h"

BODY(adamw, adamw_operands) {
	adamw_factors f = o->f;
	EACH(i, n, lo, hi, {
		vec g = ld(o->g, i, n, 0) * f.grad_scale;
		vec m = f.beta1 * ld(o->m, i, n, 0) + f.rest1 * g;
		vec v = f.beta2 * ld(o->v, i, n, 0) + f.rest2 * (g * g);
		vec w = ld(o->w, i, n, bf16) * f.keep;
		st(o->m, i, n, m, 0);
		st(o->v, i, n, v, 0);
		st(o->w, i, n, w - f.rate * (m / (vsqrt(v) * f.root + f.eps)), bf16);
	});
}
BOTH_TYPES(adamw)

// Squares are added up in float64. The lanes of a vector are spread over two, and a block's total is what they hold in the
// end, lane after lane.
BODY(sum_squares, squares_operands) {
	for (int64_t b = lo; b < hi; b++) {
		int64_t from = b * o->block, to = from + o->block < o->count ? from + o->block : o->count;
		typedef double wide __attribute__((vector_size(8 * VLEN)));
		wide s = {0};
		EACH(i, n, from, to, {
			wide x = __builtin_convertvector(ld(o->x, i, n, bf16), wide);
			s += x * x;
		});
		double sum = 0;
		for (int k = 0; k < VLEN; k++) sum += s[k];
		o->sums[b] = sum;
	}
}
BOTH_TYPES(sum_squares)
