// The product of two tensors, element by element, and its gradients; kernels/op_mul.go has the formulas.
#ifndef LEVEL
#include "ops.h"

#define EACH_LEVEL "ops_mul.c"
#include "each_level.h"

TASKS(mul);
TASKS(mul_backward);

// Mul computes y = a · b.
void cpu_mul(matrix y, matrix a, matrix b) { each_row(mul, (elements){.y = y, .a = a, .b = b}, 3); }

// MulBackward computes da = dy · b and db = dy · a.
void cpu_mul_backward(tensor da, tensor db, tensor dy, tensor a, tensor b) {
	each_row(mul_backward, (elements){.y = da, .y2 = db, .dy = dy, .a = a, .b = b}, 5);
}

#else
#include "ops_loops.h"

BODY(mul, elements) {
	for (int64_t r = lo; r < hi; r++) {
		void *y = row(o->y, r, type), *a = row(o->a, r, type), *b = row(o->b, r, type);
		EACH(i, n, 0, o->y.cols, { st(y, i, n, ld(a, i, n, type) * ld(b, i, n, type), type); });
	}
}
EACH_TYPE(mul)

BODY(mul_backward, elements) {
	for (int64_t r = lo; r < hi; r++) {
		void *da = row(o->y, r, type), *db = row(o->y2, r, type), *dy = row(o->dy, r, type);
		void *a = row(o->a, r, type), *b = row(o->b, r, type);
		EACH(i, n, 0, o->y.cols, {
			vec d = ld(dy, i, n, type);
			vec u = ld(a, i, n, type);
			vec v = ld(b, i, n, type);
			st(da, i, n, d * v, type);
			st(db, i, n, d * u, type);
		});
	}
}
EACH_TYPE(mul_backward)
#endif
