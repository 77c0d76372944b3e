// Rows of quantized weights; package tensor has their layout.
#ifndef RESTYLE_QUANT_H
#define RESTYLE_QUANT_H

#include "ops.h"

enum { GROUP = 128, HALF = 64 }; // weights of a group, and of its low four bits

// padded returns bytes, or elements, as whole units.
static inline int64_t padded(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

static inline int64_t quant_groups(int64_t n) { return padded(n, GROUP) / GROUP; }

// quant_head returns the bytes before the codes of a row of n weights, and quant_row the bytes of the row.
static inline int64_t quant_head(dtype type, int64_t n) {
	int64_t groups = quant_groups(n);
	return type == INT8 ? 16 : padded(2 * groups, 16) + (type == INT4Z ? padded(groups, 16) : 0);
}

static inline int64_t quant_row(dtype type, int64_t n) {
	return quant_head(type, n) + (type == INT8 ? padded(n, 16) : quant_groups(n) * HALF);
}

#endif
