// GELU and its gradient, in both forms; kernels/op_gelu.go has the formulas.
#ifndef LEVEL
#include "ops.h"

#define EACH_LEVEL "ops_gelu.c"
#include "each_level.h"

TASKS(gelu_erf);
TASKS(gelu_tanh);
TASKS(gelu_erf_backward);
TASKS(gelu_tanh_backward);

// GELU computes y = x · Φ(x), or with tanh x times its approximation of Φ.
void cpu_gelu(tensor y, tensor x, bool tanh) { each_row(tanh ? gelu_tanh : gelu_erf, (elements){.y = y, .a = x}, 2); }

// GELUBackward computes the gradient of GELU.
void cpu_gelu_backward(tensor dx, tensor dy, tensor x, bool tanh) {
	each_row(tanh ? gelu_tanh_backward : gelu_erf_backward, (elements){.y = dx, .a = x, .dy = dy}, 3);
}

#else
#include "activation_loops.h"

#define gelu_row AT_LEVEL(gelu_row)
#define gelu_row_backward AT_LEVEL(gelu_row_backward)

INLINE void gelu_row(const elements *o, int64_t r, const int tanh, const dtype type) {
	void *y = row(o->y, r, type), *a = row(o->a, r, type);
	EACH(i, n, 0, o->y.cols, {
		st(y, i, n, gelu_of(ld(a, i, n, type), tanh, type), type);
	});
}

INLINE void gelu_row_backward(const elements *o, int64_t r, const int tanh, const dtype type) {
	void *dx = row(o->y, r, type), *dy = row(o->dy, r, type), *a = row(o->a, r, type);
	EACH(i, n, 0, o->y.cols, {
		vec x = limited(ld(a, i, n, type));
		vec slope;
		vec p = phi(x, &slope, tanh, type);
		st(dx, i, n, ld(dy, i, n, type) * (p + x * slope), type);
	});
}

BODY(gelu_erf, elements) {
	for (int64_t r = lo; r < hi; r++) gelu_row(o, r, 0, type);
}
EACH_TYPE(gelu_erf)

BODY(gelu_tanh, elements) {
	for (int64_t r = lo; r < hi; r++) gelu_row(o, r, 1, type);
}
EACH_TYPE(gelu_tanh)

BODY(gelu_erf_backward, elements) {
	for (int64_t r = lo; r < hi; r++) gelu_row_backward(o, r, 0, type);
}
EACH_TYPE(gelu_erf_backward)

BODY(gelu_tanh_backward, elements) {
	for (int64_t r = lo; r < hi; r++) gelu_row_backward(o, r, 1, type);
}
EACH_TYPE(gelu_tanh_backward)
#endif
