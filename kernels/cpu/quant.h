// Rows of quantized weights; package tensor has their layout.
#ifndef RESTYLE_QUANT_H
#define RESTYLE_QUANT_H

#include "ops.h"

// Weights of a group of INT4, whose codes are also NF4's unit; and weights of its low four bits, a group of NF4.
enum { GROUP = 128, HALF = 64 };

// padded returns bytes, or elements, as whole units.
static inline int64_t padded(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

static inline int64_t quant_groups(int64_t n) { return padded(n, GROUP) / GROUP; }

// quant_head returns the bytes before the codes of a row of n weights, and quant_row the bytes of the row.
static inline int64_t quant_head(dtype type, int64_t n) {
	int64_t groups = quant_groups(n);
	if (type == INT8) return 16;
	if (type == NF4) return padded(4 * (padded(n, HALF) / HALF), 16);
	return padded(2 * groups, 16) + (type == INT4Z ? padded(groups, 16) : 0);
}

static inline int64_t quant_row(dtype type, int64_t n) {
	return quant_head(type, n) + (type == INT8 ? padded(n, 16) : quant_groups(n) * HALF);
}

#endif
