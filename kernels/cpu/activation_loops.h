// Activations of vectors, once per level, for the operations of their names and for what follows a product.
#include "ops_loops.h"

#define at_least AT_LEVEL(at_least)
#define limited AT_LEVEL(limited)
#define phi AT_LEVEL(phi)
#define gelu_of AT_LEVEL(gelu_of)
#define activated AT_LEVEL(activated)

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

INLINE vec gelu_of(vec x, const int tanh, dtype type) {
	vec slope;
	return at_least(x) * phi(limited(x), &slope, tanh, type);
}

// activated returns what follows a product.
INLINE vec activated(vec x, activation act, dtype type) {
	switch (act) {
	case GELU_EXACT: return gelu_of(x, 0, type);
	case GELU_TANH: return gelu_of(x, 1, type);
	case SILU: return x * sigmoid(x, type);
	default: return x;
	}
}
