#include "attention.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "attention_parts.h"
#include "pool.h"

// A query block of one sequence and one key/value head.
struct block {
	int64_t row;              // the sequence's first row
	int kv_head, head, share; // the key/value head, the first query head that shares it, and the number of heads that do
	int lanes, groups;        // in use
	// For each lane: its row in the sequence, its head within the group, and the last key that its query sees. Unused
	// lanes see what the last used one sees.
	int32_t lane_row[LANES], lane_head[LANES], position[LANES];
};

// What a query block sees of a key block, in tiles of keys counted from the key block's first.
struct view {
	int begin, end;                       // tiles that any group sees
	int from[GROUPS], to[GROUPS];         // tiles of which the group sees any key
	int all_from[GROUPS], all_to[GROUPS]; // tiles of which the whole group sees all keys
	int32_t key;                          // the first key of the key block
	int window, groups;
};

static inline int clamp_tile(int64_t n, int tiles) { return n < 0 ? 0 : n > tiles ? tiles : (int)n; }

static inline int64_t floor_tile(int64_t n) { return n >= 0 ? n / TILE : -((TILE - 1 - n) / TILE); }

static void look(struct view *w, const struct block *b, int64_t key, int64_t end, int window) {
	int tiles = (int)(round_up(end - key, TILE) / TILE);
	int64_t wide = window > 0 ? window : INT32_MAX / 2;
	w->window = (int)wide, w->groups = b->groups, w->key = (int32_t)key;
	w->begin = tiles, w->end = 0;
	for (int g = 0; g < b->groups; g++) {
		int64_t first = b->position[g * GROUP] - key, last = b->position[(g + 1) * GROUP - 1] - key;
		w->from[g] = clamp_tile(floor_tile(first - wide + 1), tiles);
		w->to[g] = clamp_tile(floor_tile(last) + 1, tiles);
		if (w->from[g] > w->to[g]) w->from[g] = w->to[g];
		w->all_from[g] = clamp_tile(floor_tile(last - wide + 1 + TILE - 1), tiles);
		w->all_to[g] = clamp_tile(floor_tile(first + 1), tiles);
		if (w->from[g] == w->to[g]) continue;
		if (w->from[g] < w->begin) w->begin = w->from[g];
		if (w->to[g] > w->end) w->end = w->to[g];
	}
	if (w->begin > w->end) w->begin = w->end;
}

// groups_of sets the range of groups that see a tile: they are consecutive.
static inline void groups_of(const struct view *w, int t, int *from, int *to) {
	int g0 = 0, g1 = w->groups;
	while (g0 < g1 && t >= w->to[g0]) g0++;
	while (g1 > g0 && t < w->from[g1 - 1]) g1--;
	*from = g0, *to = g1;
}

static inline const void *lane_row(const cpu_attention *a, const matrix *m, const struct block *b, int lane) {
	return row_of(a, m, b->row + b->lane_row[lane], b->head + b->lane_head[lane]);
}

// lane_rows and key_rows store pointers to the rows of a query block's lanes, and of n keys of which the first live
// exist; NULL for those that do not.
static inline void lane_rows(const void **rows, const cpu_attention *a, const matrix *m, const struct block *b) {
	for (int i = 0; i < b->groups * GROUP; i++) rows[i] = i < b->lanes ? lane_row(a, m, b, i) : NULL;
}

static inline void key_rows(const void **rows, const cpu_attention *a, const matrix *m, const struct block *b,
	int64_t key, int64_t live, int n) {
	const char *at = row_of(a, m, b->row + key, b->kv_head);
	int64_t step = m->stride * size_of(m->type);
	for (int i = 0; i < n; i++, at += step) rows[i] = i < live ? at : NULL;
}

static inline float *lane_lse(const cpu_attention *a, const struct block *b, int lane) {
	return (float *)a->lse + (b->head + b->lane_head[lane]) * a->rows + b->row + b->lane_row[lane];
}

static inline int64_t lanes_of(const cpu_attention *a, int64_t len) { return len * (a->heads / a->kv_heads); }

static inline int64_t blocks_of(const cpu_attention *a, int64_t len) { return (lanes_of(a, len) + LANES - 1) / LANES; }

// block_at sets up the query block that starts at lane first of a sequence of len rows.
static void block_at(struct block *b, const cpu_attention *a, int64_t row, int64_t len, int kv_head, int64_t first) {
	int share = a->heads / a->kv_heads;
	int64_t left = len * share - first;
	*b = (struct block){.row = row, .kv_head = kv_head, .head = kv_head * share, .share = share,
	                    .lanes = left < LANES ? (int)left : LANES};
	b->groups = (int)round_up(b->lanes, GROUP) / GROUP;
	int32_t at = (int32_t)(first / share), h = (int32_t)(first % share);
	for (int i = 0; i < b->groups * GROUP; i++) {
		b->lane_row[i] = at, b->lane_head[i] = h;
		b->position[i] = (int32_t)position_of(a, len, at);
		if (i + 1 < b->lanes && ++h == share) h = 0, at++;
	}
}

// A thread's scratch memory for the forward pass. From one key block to the next it keeps out [LANES][dim], the sums of
// the values; sum, the sums of the exponentials; and top, the largest scores, relative to which the exponentials are
// taken.
struct forward {
	int64_t dim;
	float *queries, *keys, *values, *scores, *weights;
	float *out, *top, *sum, *factor;
};

// And for the backward pass. For a chunk of keys: keys and values by rows, keys by depth, dk and dv. For a query block:
// queries and dy by lanes and by depth, lse in base 2, delta = dy·y, dq. For both: weights and dscores by rows, dscores
// by depth.
struct backward {
	int64_t dim;
	float *keys, *values, *keys_depth, *dk, *dv;
	float *queries, *dys, *queries_depth, *dys_depth, *lse, *delta, *dq;
	float *scores, *dscores, *weights, *dweights, *dscores_depth;
};

#define EACH_LEVEL "attention_loops.h"
#include "each_level.h"

static int64_t carve_forward(struct forward *f, const cpu_attention *a, char *at) {
	char *begin = at;
	int64_t padded = round_up(a->head_dim, GROUP);
	f->dim = a->head_dim;
	f->queries = take(&at, padded * LANES);
	f->keys = take(&at, padded * KEYS);
	f->values = take(&at, padded * KEYS);
	f->scores = take(&at, KEYS * LANES);
	f->weights = take(&at, KEYS / 2 * LANES);
	f->out = take(&at, padded * LANES);
	f->top = take(&at, LANES);
	f->sum = take(&at, LANES);
	f->factor = take(&at, LANES);
	return at - begin;
}

static void (*const attend_keys[CPU_LEVELS])(const cpu_attention *, const struct block *, struct forward *, int64_t,
                                             int64_t) = AT_EACH_LEVEL(attend_keys);
static void (*const finish_forward[CPU_LEVELS])(const cpu_attention *, const struct block *, const struct forward *) =
	AT_EACH_LEVEL(finish_forward);
static void (*const attend_back[CPU_LEVELS])(const cpu_attention *, struct backward *, int64_t, int64_t, int, int64_t,
                                             int64_t, float *) = AT_EACH_LEVEL(attend_back);
static void (*const sum_row[CPU_LEVELS])(const cpu_attention *, void *, float *, int64_t, int64_t) = AT_EACH_LEVEL(
	sum_row);

// level returns the level whose loops the current one takes. Processors with AMX have slow dot products of bf16.
static int level(void) { return cpu_level() == CPU_AMX ? CPU_AVX512 : cpu_level(); }

struct job {
	const cpu_attention *a;
	const int32_t *seqs;
	char *scratch; // of all threads
	int64_t scratch_each;
	char *slabs; // after the scratch memory
};

static void forward_task(void *arg, int64_t lo, int64_t hi) {
	const struct job *j = arg;
	const cpu_attention *a = j->a;
	struct forward f;
	carve_forward(&f, a, j->scratch + cpu_thread() * j->scratch_each);
	for (int64_t item = lo; item < hi; item++) {
		int64_t at = item, row = 0, len = 0, blocks = 0;
		for (int s = 0; at >= blocks * a->kv_heads; s++) {
			at -= blocks * a->kv_heads;
			row = j->seqs[s], len = j->seqs[s + 1] - row, blocks = blocks_of(a, len);
		}
		struct block b; // the last query blocks see most keys: start with them
		block_at(&b, a, row, len, (int)(at % a->kv_heads), (blocks - 1 - at / a->kv_heads) * LANES);
		int64_t from = 0, to = b.position[b.lanes - 1] + 1;
		if (a->window > 0 && b.position[0] >= a->window) from = (b.position[0] - a->window + 1) / TILE * TILE;
		attend_keys[level()](a, &b, &f, from, to);
		finish_forward[level()](a, &b, &f);
	}
}

int64_t cpu_attention_forward_scratch(const cpu_attention *a) {
	struct forward f;
	return cpu_threads() * carve_forward(&f, a, NULL);
}

void cpu_attention_forward(const cpu_attention *a, const int32_t *seqs) {
	struct forward f;
	struct job j = {.a = a, .seqs = seqs, .scratch = (char *)a->scratch, .scratch_each = carve_forward(&f, a, NULL)};
	int64_t blocks = 0;
	for (int s = 0; s < a->n_seqs; s++) blocks += blocks_of(a, seqs[s + 1] - seqs[s]);
	cpu_parallel(forward_task, &j, blocks * a->kv_heads, 1);
}

// In the backward pass a task owns the gradients of a chunk of keys and values, and loops over the queries that see
// them. If a sequence has several chunks, their contributions to the gradients of the queries are added up at the end.
static inline int64_t chunk_of(int64_t len) {
	int64_t quarter = round_up((len + 3) / 4, KEYS);
	return quarter < 256 ? 256 : quarter;
}

static inline int64_t chunks_of(int64_t len) { return (len + chunk_of(len) - 1) / chunk_of(len); }

// slab_of returns the number of floats of one chunk's contribution to the gradients of a sequence's queries.
static inline int64_t slab_of(const cpu_attention *a, int64_t len) {
	return len * a->heads * round_up(a->head_dim, GROUP);
}

static inline int64_t slabs_of(const cpu_attention *a, int64_t len) {
	return chunks_of(len) > 1 ? chunks_of(len) * slab_of(a, len) : 0;
}

static int64_t carve_backward(struct backward *f, const cpu_attention *a, const int32_t *seqs, char *at) {
	char *begin = at;
	int64_t padded = round_up(a->head_dim, GROUP), chunk = 0;
	for (int s = 0; s < a->n_seqs; s++) {
		int64_t len = seqs[s + 1] - seqs[s], n = chunk_of(len) < len ? chunk_of(len) : round_up(len, TILE);
		if (n > chunk) chunk = n;
	}
	f->dim = a->head_dim;
	float **chunks[] = {&f->keys, &f->values, &f->keys_depth, &f->dk, &f->dv};
	for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) *chunks[i] = take(&at, padded * chunk);
	float **blocks[] = {&f->queries, &f->dys, &f->queries_depth, &f->dys_depth, &f->dq};
	for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) *blocks[i] = take(&at, padded * LANES);
	f->lse = take(&at, LANES);
	f->delta = take(&at, LANES);
	f->scores = take(&at, KEYS * LANES);
	f->dscores = take(&at, KEYS * LANES);
	f->weights = take(&at, KEYS / 2 * LANES);
	f->dweights = take(&at, KEYS / 2 * LANES);
	f->dscores_depth = take(&at, KEYS / 2 * LANES);
	return at - begin;
}

static void backward_task(void *arg, int64_t lo, int64_t hi) {
	const struct job *j = arg;
	const cpu_attention *a = j->a;
	struct backward f;
	carve_backward(&f, a, j->seqs, j->scratch + cpu_thread() * j->scratch_each);
	for (int64_t item = lo; item < hi; item++) {
		int64_t at = item, row = 0, len = 0, chunks = 0;
		float *slabs = (float *)j->slabs;
		for (int s = 0; at >= chunks * a->kv_heads; s++) {
			at -= chunks * a->kv_heads;
			if (chunks > 0) slabs += slabs_of(a, len);
			row = j->seqs[s], len = j->seqs[s + 1] - row, chunks = chunks_of(len);
		}
		int64_t chunk = at / a->kv_heads, from = chunk * chunk_of(len), to = from + chunk_of(len);
		attend_back[level()](a, &f, row, len, (int)(at % a->kv_heads), from, to < len ? to : len,
		                         chunks > 1 ? slabs + chunk * slab_of(a, len) : NULL);
	}
}

static void sum_task(void *arg, int64_t lo, int64_t hi) {
	const struct job *j = arg;
	const cpu_attention *a = j->a;
	const int64_t padded = round_up(a->head_dim, GROUP);
	float *slabs = (float *)j->slabs;
	for (int s = 0; s < a->n_seqs; s++) {
		int64_t begin = j->seqs[s], end = j->seqs[s + 1], len = end - begin;
		for (int64_t row = lo > begin ? lo : begin; slabs_of(a, len) > 0 && row < (hi < end ? hi : end); row++) {
			int64_t at = row - begin, first = a->window > 0 && at >= a->window ? (at - a->window + 1) / chunk_of(len) : 0;
			for (int64_t h = 0; h < a->heads; h++)
				sum_row[level()](a, (void *)row_of(a, &a->dq, row, h),
				                     slabs + first * slab_of(a, len) + (at * a->heads + h) * padded,
				                     position_of(a, len, at) / chunk_of(len) - first + 1, slab_of(a, len));
		}
		slabs += slabs_of(a, len);
	}
}

int64_t cpu_attention_backward_scratch(const cpu_attention *a, const int32_t *seqs) {
	struct backward f;
	int64_t bytes = cpu_threads() * carve_backward(&f, a, seqs, NULL);
	for (int s = 0; s < a->n_seqs; s++) bytes += 4 * slabs_of(a, seqs[s + 1] - seqs[s]);
	return bytes;
}

void cpu_attention_backward(const cpu_attention *a, const int32_t *seqs) {
	struct backward f;
	struct job j = {
		.a = a, .seqs = seqs, .scratch = (char *)a->scratch, .scratch_each = carve_backward(&f, a, seqs, NULL)};
	j.slabs = j.scratch + cpu_threads() * j.scratch_each;
	int64_t chunks = 0, several = 0;
	for (int s = 0; s < a->n_seqs; s++) {
		int64_t n = chunks_of(seqs[s + 1] - seqs[s]);
		chunks += n, several += n > 1;
	}
	cpu_parallel(backward_task, &j, chunks * a->kv_heads, 1);
	if (several > 0) cpu_parallel(sum_task, &j, a->rows, 16);
}
