// Attention of a single query, as in decoding: limited by the memory bandwidth of keys and values.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "attention_parts.h"
#include "pool.h"

// A task handles this many keys, so the order of the sums depends only on the number of keys.
enum { CHUNK = 128 };

// The result of a chunk of keys: out [heads][dim]; sum, the sum of the exponentials; and top, the largest score.
struct part {
	float *out, *top, *sum;
};

#define EACH_LEVEL "attention_decode_loops.h"
#include "each_level.h"

static void (*const decode_chunk[CPU_LEVELS])(const cpu_attention *, const struct part *, float *, int64_t, int64_t) =
	AT_EACH_LEVEL(decode_chunk);
static void (*const add_part[CPU_LEVELS])(const struct part *, const struct part *, int64_t, int64_t) = AT_EACH_LEVEL(
	add_part);
static void (*const finish_head[CPU_LEVELS])(const cpu_attention *, const struct part *, int64_t) = AT_EACH_LEVEL(
	finish_head);

static inline int64_t first_key(const cpu_attention *a) {
	return a->window > 0 && a->ahead >= a->window ? a->ahead - a->window + 1 : 0;
}

static inline int64_t chunks_of(const cpu_attention *a) { return (a->ahead + 1 - first_key(a) + CHUNK - 1) / CHUNK; }

static int64_t carve_part(struct part *p, const cpu_attention *a, char *at) {
	char *begin = at;
	p->out = take(&at, a->heads * round_up(a->head_dim, GROUP));
	p->top = take(&at, a->heads);
	p->sum = take(&at, a->heads);
	return at - begin;
}

static void carve(struct part *p, const cpu_attention *a, int64_t chunk) {
	carve_part(p, a, (char *)a->scratch + chunk * carve_part(p, a, NULL));
}

// The scores of each thread come after the parts.
static inline int64_t scores_of(const cpu_attention *a) {
	return round_up((a->heads * CHUNK + GROUP) * (int64_t)sizeof(float), 64);
}

static void decode_task(void *arg, int64_t lo, int64_t hi) {
	const cpu_attention *a = arg;
	struct part p;
	float *scores = (float *)(a->scratch + chunks_of(a) * carve_part(&p, a, NULL) + cpu_thread() * scores_of(a));
	for (int64_t chunk = lo; chunk < hi; chunk++) {
		carve(&p, a, chunk);
		int64_t from = first_key(a) + chunk * CHUNK, end = a->ahead + 1;
		decode_chunk[cpu_level()](a, &p, scores, from, from + CHUNK < end ? from + CHUNK : end);
	}
}

static void join_task(void *arg, int64_t lo, int64_t hi) {
	const cpu_attention *a = arg;
	struct part all, p;
	carve(&all, a, 0);
	for (int64_t h = lo; h < hi; h++) {
		for (int64_t chunk = 1; chunk < chunks_of(a); chunk++) {
			carve(&p, a, chunk);
			add_part[cpu_level()](&all, &p, h, round_up(a->head_dim, GROUP));
		}
		finish_head[cpu_level()](a, &all, h);
	}
}

int64_t cpu_attention_decode_scratch(const cpu_attention *a) {
	struct part p;
	return chunks_of(a) * carve_part(&p, a, NULL) + cpu_threads() * scores_of(a);
}

void cpu_attention_decode(const cpu_attention *a) {
	cpu_parallel(decode_task, (void *)a, chunks_of(a), 1);
	cpu_parallel(join_task, (void *)a, a->heads, 16);
}
