// Cross-entropy, fused and in steps; kernels/op_crossentropy.go has the formulas.
#ifndef LEVEL
#include "ops.h"

typedef struct {
	float *loss, *logp;
	char *logits, *dlogits;
	const int32_t *targets;
	int64_t vocab;
	float scale;
	dtype to; // of dlogits
} loss_operands;

#define EACH_LEVEL "ops_loss.c"
#include "each_level.h"

TASKS(cross_entropy);
TASKS(log_softmax);
TASKS(nll_backward);

// CrossEntropy computes the loss of each row and, unless dlogits is the zero Tensor, its gradient.
void cpu_cross_entropy(tensor loss, tensor dlogits, tensor logits, tensor targets, float scale) {
	loss_operands o = {.loss = (float *)loss.at, .logits = (char *)logits.at, .dlogits = (char *)dlogits.at,
		.targets = (int32_t *)targets.at, .vocab = logits.cols, .scale = scale, .to = dlogits.type};
	cpu_parallel(cross_entropy[logits.type][cpu_level()], &o, logits.rows, grain(logits.cols * size_of(logits.type)));
}

// LogSoftmax computes y = logits − log Σ exp(logits) of each row, in F32.
void cpu_log_softmax(tensor y, tensor logits) {
	loss_operands o = {.logp = (float *)y.at, .logits = (char *)logits.at, .vocab = y.cols};
	cpu_parallel(log_softmax[logits.type][cpu_level()], &o, y.rows, grain(y.cols * (4 + size_of(logits.type))));
}

// NLL computes loss = −logp[target] of each row.
void cpu_nll(tensor loss, tensor logp, tensor targets) {
	const int32_t *t = (int32_t *)targets.at;
	for (int64_t r = 0; r < logp.rows; r++) ((float *)loss.at)[r] = -((float *)logp.at)[r * logp.cols + t[r]];
}

// NLLBackward computes dlogits = (exp(logp) − [i = target]) · scale.
void cpu_nll_backward(tensor dlogits, tensor logp, tensor targets, float scale) {
	loss_operands o = {.logp = (float *)logp.at, .logits = (char *)dlogits.at, .targets = (int32_t *)targets.at,
		.vocab = logp.cols, .scale = scale};
	cpu_parallel(nll_backward[dlogits.type][cpu_level()], &o, logp.rows, grain(logp.cols * (4 + size_of(dlogits.type))));
}

#else
#include "ops_loops.h"

#define max_of AT_LEVEL(max_of)
#define keep AT_LEVEL(keep)
#define softmax_sum AT_LEVEL(softmax_sum)

// keep returns x with other in the lanes from n on.
INLINE vec keep(vec x, int64_t n, float other) {
	static const int32_t lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
	if (n == VLEN) return x;
	vecint lane;
	memcpy(&lane, lanes, sizeof lane);
	return vselect(lane < (int32_t)n, x, vset(other));
}

// max_of returns the largest of the elements from to to, ignoring NaN.
INLINE float max_of(const void *x, int64_t from, int64_t to, const dtype type) {
	vec top[4]; // a single one would wait for itself
	for (int k = 0; k < 4; k++) top[k] = vset(-INFINITY);
	for (; from + 4 * VLEN <= to; from += 4 * VLEN)
		for (int k = 0; k < 4; k++) top[k] = vmax(ld(x, from + k * VLEN, VLEN, type), top[k]);
	EACH(i, n, from, to, { top[0] = vmax(keep(ld(x, i, n, type), n, -INFINITY), top[0]); });
	return vhmax(vmax(vmax(top[0], top[1]), vmax(top[2], top[3])));
}

// softmax_sum returns Σ exp(x − base) over a row, where base is the row's maximum. It reads the row once, a chunk at a
// time: first for the chunk's maximum, then, from the L1 cache, for its exponentials.
INLINE double softmax_sum(const void *x, int64_t count, float *base, const dtype type) {
	enum { CHUNK = 1024 };
	float max = -INFINITY;
	double sum = 0;
	*base = 0;
	for (int64_t from = 0; from < count; from += CHUNK) {
		int64_t to = from + CHUNK < count ? from + CHUNK : count;
		float chunk_max = max_of(x, from, to, type);
		if (chunk_max > max) {
			sum *= exp((double)max - (double)chunk_max);
			*base = max = chunk_max; // base stays 0 as long as all are -inf: -inf minus itself is NaN
		}
		vec s = vzero();
		EACH(i, n, from, to, { s += vexp(keep(ld(x, i, n, type), n, -INFINITY) - *base); });
		sum += vsum(s);
	}
	return sum;
}

BODY(cross_entropy, loss_operands) {
	for (int64_t r = lo; r < hi; r++) {
		void *x = o->logits + r * o->vocab * size_of(type);
		int64_t t = o->targets[r];
		float base;
		double sum = softmax_sum(x, o->vocab, &base, type);
		float loss = (float)(log(sum) - ((double)element(x, t, type) - base));
		o->loss[r] = loss;
		if (!o->dlogits) continue;
		void *dx = o->dlogits + r * o->vocab * size_of(o->to);
		float scale = (float)(o->scale / sum);
		const dtype from = type;
		FOR_TYPE(o->to, EACH(i, n, 0, o->vocab, {
			st(dx, i, n, scale * exp_for(ld(x, i, n, from) - base, type), type);
		}));
		set_element(dx, t, o->scale * expm1f(-loss), o->to);
	}
}
EACH_TYPE(cross_entropy)

BODY(log_softmax, loss_operands) {
	for (int64_t r = lo; r < hi; r++) {
		const void *x = o->logits + r * o->vocab * size_of(type);
		float *y = o->logp + r * o->vocab;
		float base;
		float log_sum = (float)log(softmax_sum(x, o->vocab, &base, type));
		EACH(i, n, 0, o->vocab, { st(y, i, n, ld(x, i, n, type) - base - log_sum, F32); });
	}
}
EACH_TYPE(log_softmax)

BODY(nll_backward, loss_operands) {
	for (int64_t r = lo; r < hi; r++) {
		void *dx = o->logits + r * o->vocab * size_of(type);
		const float *logp = o->logp + r * o->vocab;
		int64_t t = o->targets[r];
		EACH(i, n, 0, o->vocab, { st(dx, i, n, o->scale * exp_for(ld(logp, i, n, F32), type), type); });
		set_element(dx, t, o->scale * expm1f(logp[t]), type);
	}
}
EACH_TYPE(nll_backward)
#endif
