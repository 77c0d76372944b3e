#include "ops_loops.h"

#define most_of AT_LEVEL(most_of)
#define keep AT_LEVEL(keep)
#define softmax_sum AT_LEVEL(softmax_sum)
#define element AT_LEVEL(element)
#define set_element AT_LEVEL(set_element)

// keep is x with other in the lanes from n on.
INLINE vec keep(vec x, int64_t n, float other) {
	static const int32_t lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
	if (n == VLEN) return x;
	vecint lane;
	memcpy(&lane, lanes, sizeof lane);
	return vselect(lane < (int32_t)n, x, vset(other));
}

// most_of is the largest of the elements from to to. A NaN is none.
INLINE float most_of(const void *x, int64_t from, int64_t to, const int bf16) {
	vec top[4]; // one alone would wait for itself
	for (int k = 0; k < 4; k++) top[k] = vset(-INFINITY);
	for (; from + 4 * VLEN <= to; from += 4 * VLEN)
		for (int k = 0; k < 4; k++) top[k] = vmax(ld(x, from + k * VLEN, VLEN, bf16), top[k]);
	EACH(i, n, from, to, { top[0] = vmax(keep(ld(x, i, n, bf16), n, -INFINITY), top[0]); });
	return vhmax(vmax(vmax(top[0], top[1]), vmax(top[2], top[3])));
}

// softmax_sum is Σ exp(x − base) over a row, where base is the row's maximum. It goes through the row once, a chunk at a time:
// first for the chunk's maximum, and then, in the nearest cache, for its exponentials.
INLINE double softmax_sum(const void *x, int64_t count, float *base, const int bf16) {
	enum { CHUNK = 1024 };
	float most = -INFINITY;
	double sum = 0;
	*base = 0;
	for (int64_t from = 0; from < count; from += CHUNK) {
		int64_t to = from + CHUNK < count ? from + CHUNK : count;
		float chunk_most = most_of(x, from, to, bf16);
		if (chunk_most > most) {
			sum *= exp((double)most - (double)chunk_most);
			*base = most = chunk_most; // it stays 0 while there are but -inf: less themselves they would be no number
		}
		vec s = vzero();
		EACH(i, n, from, to, { s += vexp(keep(ld(x, i, n, bf16), n, -INFINITY) - *base); });
		sum += vsum(s);
	}
	return sum;
}

INLINE float element(const void *x, int64_t i, const int bf16) {
	return bf16 ? bf16_to_f32(((const uint16_t *)x)[i]) : ((const float *)x)[i];
}

INLINE void set_element(void *x, int64_t i, float v, const int bf16) {
	if (bf16) ((uint16_t *)x)[i] = f32_to_bf16(v);
	else ((float *)x)[i] = v;
}

BODY(cross_entropy, loss_operands) {
	for (int64_t r = lo; r < hi; r++) {
		void *x = o->logits + r * o->vocab * (bf16 ? 2 : 4);
		int64_t t = o->targets[r];
		float base;
		double sum = softmax_sum(x, o->vocab, &base, bf16);
		float loss = (float)(log(sum) - ((double)element(x, t, bf16) - base));
		o->loss[r] = loss;
		if (!o->dlogits) continue;
		void *dx = o->dlogits + r * o->vocab * (o->to_bf16 ? 2 : 4);
		float scale = (float)(o->scale / sum);
		if (o->to_bf16) EACH(i, n, 0, o->vocab, { st(dx, i, n, scale * exp_for(ld(x, i, n, bf16) - base, 1), 1); });
		else EACH(i, n, 0, o->vocab, { st(dx, i, n, scale * exp_for(ld(x, i, n, bf16) - base, 0), 0); });
		set_element(dx, t, o->scale * expm1f(-loss), o->to_bf16);
	}
}
BOTH_TYPES(cross_entropy)

BODY(log_softmax, loss_operands) {
	for (int64_t r = lo; r < hi; r++) {
		const void *x = o->logits + r * o->vocab * (bf16 ? 2 : 4);
		float *y = o->logp + r * o->vocab;
		float base;
		float log_sum = (float)log(softmax_sum(x, o->vocab, &base, bf16));
		EACH(i, n, 0, o->vocab, { st(y, i, n, ld(x, i, n, bf16) - base - log_sum, 0); });
	}
}
BOTH_TYPES(log_softmax)

BODY(nll_backward, loss_operands) {
	for (int64_t r = lo; r < hi; r++) {
		void *dx = o->logits + r * o->vocab * (bf16 ? 2 : 4);
		const float *logp = o->logp + r * o->vocab;
		int64_t t = o->targets[r];
		EACH(i, n, 0, o->vocab, { st(dx, i, n, o->scale * exp_for(ld(logp, i, n, 0), bf16), bf16); });
		set_element(dx, t, o->scale * expm1f(logp[t]), bf16);
	}
}
BOTH_TYPES(nll_backward)
