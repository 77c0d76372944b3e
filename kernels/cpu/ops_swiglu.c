// SwiGLU, fused and in steps; kernels/op_swiglu.go has the formulas.
#ifndef LEVEL
#include "ops.h"

#define EACH_LEVEL "ops_swiglu.c"
#include "each_level.h"

TASKS(silu);
TASKS(silu_backward);
TASKS(swiglu);
TASKS(swiglu_backward);

// SiLU computes y = x / (1 + e⁻ˣ).
void cpu_silu(matrix y, matrix x) { each_row(silu, (elements){.y = y, .a = x}, 2); }

// SiLUBackward computes dx = dy · silu′(x).
void cpu_silu_backward(matrix dx, matrix dy, matrix x) {
	each_row(silu_backward, (elements){.y = dx, .a = x, .dy = dy}, 3);
}

// SwiGLU computes y = silu(gate) · up.
void cpu_swiglu(matrix y, matrix gate, matrix up) { each_row(swiglu, (elements){.y = y, .a = gate, .b = up}, 3); }

// SwiGLUBackward computes the gradient of SwiGLU.
void cpu_swiglu_backward(matrix dgate, matrix dup, matrix dy, matrix gate, matrix up) {
	each_row(swiglu_backward, (elements){.y = dgate, .y2 = dup, .a = gate, .b = up, .dy = dy}, 5);
}

#else
#include "ops_loops.h"

BODY(silu, elements) {
	for (int64_t r = lo; r < hi; r++) {
		void *y = row(o->y, r, type), *a = row(o->a, r, type);
		EACH(i, n, 0, o->y.cols, {
			vec x = ld(a, i, n, type);
			st(y, i, n, x * sigmoid(x, type), type);
		});
	}
}
EACH_TYPE(silu)

BODY(silu_backward, elements) {
	for (int64_t r = lo; r < hi; r++) {
		void *dx = row(o->y, r, type), *dy = row(o->dy, r, type), *a = row(o->a, r, type);
		EACH(i, n, 0, o->y.cols, {
			vec x = ld(a, i, n, type);
			vec s = sigmoid(x, type);
			st(dx, i, n, ld(dy, i, n, type) * s * (1.0f + x * (1.0f - s)), type);
		});
	}
}
EACH_TYPE(silu_backward)

BODY(swiglu, elements) {
	for (int64_t r = lo; r < hi; r++) {
		void *y = row(o->y, r, type), *gate = row(o->a, r, type), *up = row(o->b, r, type);
		EACH(i, n, 0, o->y.cols, {
			vec g = ld(gate, i, n, type);
			st(y, i, n, g * sigmoid(g, type) * ld(up, i, n, type), type);
		});
	}
}
EACH_TYPE(swiglu)

BODY(swiglu_backward, elements) {
	for (int64_t r = lo; r < hi; r++) {
		void *dgate = row(o->y, r, type), *dup = row(o->y2, r, type), *dy = row(o->dy, r, type);
		void *gate = row(o->a, r, type), *up = row(o->b, r, type);
		EACH(i, n, 0, o->y.cols, {
			vec g = ld(gate, i, n, type);
			vec u = ld(up, i, n, type);
			vec d = ld(dy, i, n, type);
			vec s = sigmoid(g, type);
			vec ds = d * s;
			st(dgate, i, n, ds * u * (1.0f + g * (1.0f - s)), type);
			st(dup, i, n, ds * g, type);
		});
	}
}
EACH_TYPE(swiglu_backward)
#endif
