// GELU and its gradient, in both forms; kernels/gelu.go has the formulas.
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
#include "ops_loops.h"

#define at_least AT_LEVEL(at_least)
#define limited AT_LEVEL(limited)
#define phi AT_LEVEL(phi)
#define gelu_row AT_LEVEL(gelu_row)
#define gelu_row_backward AT_LEVEL(gelu_row_backward)

// Below -16 either Φ is 0, and above 16 it is 1. x is limited to these, so that nothing overflows. A NaN stays one.
INLINE vec at_least(vec x) { return vmax(vset(-16.0f), x); }
INLINE vec limited(vec x) { return vmin(vset(16.0f), at_least(x)); }

// phi returns Φ(x), for x within the limits, and stores Φ′(x) in slope. It computes the smaller of Φ(x) and Φ(-x)
// first: computed as 1 minus the other, it would lose its digits.
INLINE vec phi(vec x, vec *slope, const int tanh, dtype type) {
	vec a = vmax(x, -x), square = x * x, small, large;
	if (tanh) {
		vec e = exp_for(-a * (0x1.988454p+0f + 0x1.2444f2p-4f * square), type); // e^-2|u|
		large = 1.0f / (1.0f + e);
		small = e * large;
		*slope = small * large * (0x1.988454p+0f + 0x1.b6676cp-3f * square);
	} else {
		// erfc(a/√2) / 2 = e^(-a²/2) · t · p(t), by a polynomial of relative error 3e-8
		vec e = exp_for(-0.5f * square, type), t = 1.0f / (1.0f + 0x1.eb851ep-3f * a);
		vec p = 0x1.a7fe8ap-6f * t - 0x1.034ba2p-3f;
		p = p * t + 0x1.ae9bb4p-3f;
		p = p * t - 0x1.34ea78p-3f;
		p = p * t + 0x1.2d3864p-3f;
		p = p * t + 0x1.9a497p-6f;
		p = p * t + 0x1.6c0372p-4f;
		p = p * t + 0x1.6b4606p-4f;
		p = p * t + 0x1.88c168p-4f;
		p = p * t + 0x1.882728p-4f;
		small = e * t * p;
		large = 1.0f - small;
		*slope = 0x1.988454p-2f * e;
	}
	return vselect(x < 0.0f, small, large);
}

INLINE void gelu_row(const elements *o, int64_t r, const int tanh, const dtype type) {
	void *y = row(o->y, r, type), *a = row(o->a, r, type);
	EACH(i, n, 0, o->y.cols, {
		vec x = ld(a, i, n, type);
		vec slope;
		st(y, i, n, at_least(x) * phi(limited(x), &slope, tanh, type), type);
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
BOTH_TYPES(gelu_erf)

BODY(gelu_tanh, elements) {
	for (int64_t r = lo; r < hi; r++) gelu_row(o, r, 1, type);
}
BOTH_TYPES(gelu_tanh)

BODY(gelu_erf_backward, elements) {
	for (int64_t r = lo; r < hi; r++) gelu_row_backward(o, r, 0, type);
}
BOTH_TYPES(gelu_erf_backward)

BODY(gelu_tanh_backward, elements) {
	for (int64_t r = lo; r < hi; r++) gelu_row_backward(o, r, 1, type);
}
BOTH_TYPES(gelu_tanh_backward)
#endif
