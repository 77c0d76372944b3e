// What the files of attention share: the sizes of its query and key blocks, and where rows are.
#ifndef RESTYLE_ATTENTION_PARTS_H
#define RESTYLE_ATTENTION_PARTS_H

#include "attention.h"

// A query block is LANES queries, a key block KEYS keys. Their scores are kept with a query in each lane,
// sᵀ[key][lane], so that maxima and sums over the keys need no work across lanes. The lanes are the rows of a sequence,
// each with the query heads that share one key/value head, in this order: with 4 heads per group, 64 lanes are 16 rows.
//
// Query and key blocks hold 32-bit words: a float, or with bfloat16 dot products ("pair") two bfloat16 that are
// adjacent along the dimension that a product sums over. So one product serves both types, and all of attention.
//
// Visibility is tracked for TILE keys and GROUP lanes at a time: nothing else is computed or read.
enum { LANES = 64, KEYS = 128, TILE = 8, GROUP = 16, GROUPS = LANES / GROUP };

static inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

static inline const void *row_of(const cpu_attention *a, const matrix *m, int64_t row, int64_t head) {
	return (const char *)m->at + (row * m->stride + head * a->head_dim) * size_of(m->type);
}

// pairs reports whether products take two bfloat16 at once, if the level has such dot products: rows must be BF16,
// and heads made of whole pairs.
static inline int pairs(const cpu_attention *a, int bf16_dot) { 
	return bf16_dot && a->q.type == BF16 && a->head_dim % 2 == 0;
 }

// position_of returns the last key that a row of a sequence of len rows sees.
static inline int64_t position_of(const cpu_attention *a, int64_t len, int64_t row) {
	return a->ahead + (a->causal ? row : len - 1);
}

// take allocates a number of floats from scratch memory; from NULL, it only counts.
static float *take(char **at, int64_t floats) {
	char *p = *at;
	*at += round_up(floats * 4, 64);
	return (float *)p;
}

#endif
