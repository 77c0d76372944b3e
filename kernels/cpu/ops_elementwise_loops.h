#include "ops_loops.h"

BODY(add, add_operands) {
	EACH(i, n, lo, hi, { st(o->y, i, n, ld(o->a, i, n, bf16) + ld(o->b, i, n, bf16), bf16); });
}
BOTH_TYPES(add)

// sigmoid is 1 / (1 + e⁻ˣ), and 0 where e⁻ˣ overflows, from e^88.8 on.
#define sigmoid AT_LEVEL(sigmoid)
INLINE vec sigmoid(vec x, int bf16) { return 1.0f / (1.0f + exp_for(vmin(vset(88.8f), -x), bf16)); }

BODY(mul, operands) {
	for (int64_t r = lo; r < hi; r++) {
		void *y = row(o->y, r, bf16), *a = row(o->a, r, bf16), *b = row(o->b, r, bf16);
		EACH(i, n, 0, o->cols, { st(y, i, n, ld(a, i, n, bf16) * ld(b, i, n, bf16), bf16); });
	}
}
BOTH_TYPES(mul)

BODY(silu, operands) {
	for (int64_t r = lo; r < hi; r++) {
		void *y = row(o->y, r, bf16), *a = row(o->a, r, bf16);
		EACH(i, n, 0, o->cols, {
			vec x = ld(a, i, n, bf16);
			st(y, i, n, x * sigmoid(x, bf16), bf16);
		});
	}
}
BOTH_TYPES(silu)

BODY(silu_backward, operands) {
	for (int64_t r = lo; r < hi; r++) {
		void *dx = row(o->y, r, bf16), *dy = row(o->c, r, bf16), *a = row(o->a, r, bf16);
		EACH(i, n, 0, o->cols, {
			vec x = ld(a, i, n, bf16);
			vec s = sigmoid(x, bf16);
			st(dx, i, n, ld(dy, i, n, bf16) * s * (1.0f + x * (1.0f - s)), bf16);
		});
	}
}
BOTH_TYPES(silu_backward)

BODY(swiglu, operands) {
	for (int64_t r = lo; r < hi; r++) {
		void *y = row(o->y, r, bf16), *gate = row(o->a, r, bf16), *up = row(o->b, r, bf16);
		EACH(i, n, 0, o->cols, {
			vec g = ld(gate, i, n, bf16);
			st(y, i, n, g * sigmoid(g, bf16) * ld(up, i, n, bf16), bf16);
		});
	}
}
BOTH_TYPES(swiglu)

BODY(swiglu_backward, operands) {
	for (int64_t r = lo; r < hi; r++) {
		void *dgate = row(o->y, r, bf16), *dup = row(o->y2, r, bf16), *dy = row(o->c, r, bf16);
		void *gate = row(o->a, r, bf16), *up = row(o->b, r, bf16);
		EACH(i, n, 0, o->cols, {
			vec g = ld(gate, i, n, bf16);
			vec u = ld(up, i, n, bf16);
			vec d = ld(dy, i, n, bf16);
			vec s = sigmoid(g, bf16);
			vec ds = d * s;
			st(dgate, i, n, ds * u * (1.0f + g * (1.0f - s)), bf16);
			st(dup, i, n, ds * g, bf16);
		});
	}
}
BOTH_TYPES(swiglu_backward)
