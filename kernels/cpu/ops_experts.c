// Mixtures of experts: which experts compute a row, and the sum of what they computed. kernels/op_experts.go has the
// formulas.
#ifndef LEVEL
#include "ops.h"

#include <math.h>

typedef struct {
	tensor y, x;
	matrix weights;
	tensor place, dweights;
} pairs;

#define EACH_LEVEL "ops_experts.c"
#include "each_level.h"

typedef struct {
	tensor experts, weights, lse, logits;
	bool normalize;
} routing;

static void sort(int32_t *x, int64_t n) {
	for (int64_t i = 1; i < n; i++) {
		const int32_t moved = x[i];
		int64_t j = i;
		for (; j > 0 && x[j - 1] > moved; j--) x[j] = x[j - 1];
		x[j] = moved;
	}
}

static void route(void *arg, int64_t lo, int64_t hi) {
	const routing *o = arg;
	const int64_t n = o->logits.cols, k = o->experts.cols;
	for (int64_t r = lo; r < hi; r++) {
		const float *logits = row(o->logits, r, F32);
		int32_t *chosen = (int32_t *)o->experts.at + r * k;
		float *weights = (float *)o->weights.at + r * k, all = 0, some = 0;
		const float largest = logits[chosen[0]];
		for (int64_t e = 0; e < n; e++) all += expf(logits[e] - largest);
		sort(chosen, k);
		for (int64_t s = 0; s < k; s++) some += weights[s] = expf(logits[chosen[s]] - largest);
		for (int64_t s = 0; s < k; s++) weights[s] /= o->normalize ? some : all;
		((float *)o->lse.at)[r] = largest + logf(all);
	}
}

// Route sorts the experts of each row, which TopK has chosen, by index, and computes weights and lse.
void cpu_route(tensor experts, tensor weights, tensor lse, tensor logits, bool normalize) {
	routing o = {experts, weights, lse, logits, normalize};
	cpu_parallel(route, &o, logits.rows, grain(logits.cols * 32));
}

// GroupPairs sorts the pairs of a row and one of its experts by expert, then by row: a counting sort.
void cpu_group_pairs(tensor place, tensor rows, tensor offsets, tensor experts) {
	const int32_t *expert = (const int32_t *)experts.at;
	int32_t *next = (int32_t *)offsets.at, *to = (int32_t *)place.at, *from = (int32_t *)rows.at;
	const int64_t pairs = length(experts), n = length(offsets) - 1;
	memset(next, 0, (size_t)(n + 1) * sizeof *next);
	for (int64_t i = 0; i < pairs; i++) next[expert[i] + 1]++;
	for (int64_t e = 0; e < n; e++) next[e + 1] += next[e];
	for (int64_t i = 0; i < pairs; i++) {
		to[i] = next[expert[i]]++;
		from[to[i]] = (int32_t)(i / experts.cols);
	}
	for (int64_t e = n; e > 0; e--) next[e] = next[e - 1]; // each was where the next expert starts
	next[0] = 0;
}

typedef struct {
	tensor balance, experts, logits, lse;
	int64_t live;
} balancing;

// Each task has some experts to itself.
static void add_balance(void *arg, int64_t lo, int64_t hi) {
	const balancing *o = arg;
	const int64_t n = o->logits.cols, k = o->experts.cols;
	float *counts = (float *)o->balance.at, *sums = counts + n;
	for (int64_t r = 0; r < o->live; r++) {
		const int32_t *chosen = (const int32_t *)o->experts.at + r * k;
		const float *logits = row(o->logits, r, F32), lse = ((const float *)o->lse.at)[r];
		for (int64_t s = 0; s < k; s++) {
			if (lo <= chosen[s] && chosen[s] < hi) counts[chosen[s]]++;
		}
		for (int64_t e = lo; e < hi; e++) sums[e] += expf(logits[e] - lse);
	}
}

// AddBalance adds to balance, for each expert, how many of the first rows chose it, and the sum of its probabilities.
void cpu_add_balance(tensor balance, tensor experts, tensor logits, tensor lse, int64_t live) {
	balancing o = {balance, experts, logits, lse, live};
	cpu_parallel(add_balance, &o, logits.cols, grain(live * 32));
}

typedef struct {
	tensor dlogits, dweights, experts, weights, logits, lse;
	matrix balance;
	int64_t live;
	float scale;
	bool normalize;
} routing_gradient;

// With p = e^(logits − lse) and the gradient g of p, the gradient of the logits is p·(g − Σ p·g). If the weights add up
// to 1, they are a softmax of their own.
static void route_backward(void *arg, int64_t lo, int64_t hi) {
	const routing_gradient *o = arg;
	const int64_t n = o->logits.cols, k = o->experts.cols;
	const float *counts = (const float *)o->balance.at;
	for (int64_t r = lo; r < hi; r++) {
		const int32_t *chosen = (const int32_t *)o->experts.at + r * k;
		const float *w = (const float *)o->weights.at + r * k, *dw = (const float *)o->dweights.at + r * k;
		const float *logits = row(o->logits, r, F32), lse = ((const float *)o->lse.at)[r];
		const float scale = r < o->live && counts ? o->scale : 0;
		float mean = 0, balance = 0;
		for (int64_t s = 0; s < k; s++) mean += w[s] * dw[s];
		for (int64_t e = 0; e < n && scale != 0; e++) balance += expf(logits[e] - lse) * counts[e];
		for (int64_t e = 0, s = 0; e < n; e++) {
			const float p = expf(logits[e] - lse);
			float d = o->normalize ? 0 : -p * mean;
			if (s < k && chosen[s] == e) {
				d = w[s] * (dw[s] - mean);
				s++;
			}
			if (scale != 0) d += scale * p * (counts[e] - balance);
			set_element(row(o->dlogits, r, o->dlogits.type), e, d, o->dlogits.type);
		}
	}
}

// RouteBackward computes the gradient of Route's weights, plus scale times the gradient of Σ counts · Σ p for the first
// rows.
void cpu_route_backward(tensor dlogits, tensor dweights, tensor experts, tensor weights, tensor logits, tensor lse,
	matrix balance, int64_t live, float scale, bool normalize) {
	routing_gradient o = {dlogits, dweights, experts, weights, logits, lse, balance, live, scale, normalize};
	cpu_parallel(route_backward, &o, logits.rows, grain(logits.cols * 32));
}

TASKS(combine);
TASKS(weigh_pairs);

// Combine adds up what the experts of a row computed: y[r] = Σ weights[r,s] · x[place[r,s]], or without weights.
void cpu_combine(tensor y, tensor x, matrix weights, tensor place) {
	pairs o = {.y = y, .x = x, .weights = weights, .place = place};
	cpu_parallel(combine[y.type][cpu_level()], &o, y.rows, grain((place.cols + 1) * y.cols * size_of(y.type)));
}

// WeighPairs computes dweights[r,s] = y[p] · x[p] with p = place[r,s], and multiplies y[p] and x[p] by weights[r,s].
void cpu_weigh_pairs(tensor dweights, tensor y, tensor x, tensor weights, tensor place) {
	pairs o = {y, x, weights, place, dweights};
	cpu_parallel(weigh_pairs[y.type][cpu_level()], &o, place.rows, grain(4 * place.cols * y.cols * size_of(y.type)));
}

#else
#include "ops_loops.h"

BODY(combine, pairs) {
	const int64_t k = o->place.cols;
	for (int64_t r = lo; r < hi; r++) {
		const int32_t *place = (const int32_t *)o->place.at + r * k;
		const float *weights = o->weights.at ? (const float *)o->weights.at + r * k : 0;
		EACH(i, n, 0, o->y.cols, {
			vec sum = vzero();
			for (int64_t s = 0; s < k; s++) {
				vec x = ld(row(o->x, place[s], type), i, n, type);
				sum += weights ? weights[s] * x : x;
			}
			st(row(o->y, r, type), i, n, sum, type);
		});
	}
}
EACH_TYPE(combine)

BODY(weigh_pairs, pairs) {
	const int64_t k = o->place.cols;
	for (int64_t at = lo * k; at < hi * k; at++) {
		const int64_t p = ((const int32_t *)o->place.at)[at];
		const float w = ((const float *)o->weights.at)[at];
		void *y = row(o->y, p, type), *x = row(o->x, p, type);
		vec sum = vzero();
		EACH(i, n, 0, o->y.cols, {
			vec u = ld(y, i, n, type);
			vec v = ld(x, i, n, type);
			sum += u * v;
			st(y, i, n, u * w, type);
			st(x, i, n, v * w, type);
		});
		((float *)o->dweights.at)[at] = vsum(sum);
	}
}
EACH_TYPE(weigh_pairs)
#endif
