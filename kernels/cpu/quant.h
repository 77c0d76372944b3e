// Rows of quantized weights; package tensor has their layout.
#ifndef RESTYLE_QUANT_H
#define RESTYLE_QUANT_H

#include "ops.h"

// Weights of a group of INT4, whose codes are also NF4's unit; and weights of its low four bits, a group of NF4.
enum { GROUP = 128, HALF = 64 };

// padded returns bytes, or elements, as whole units.
static inline int64_t padded(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// quant_groups returns how many groups of GROUP weights a row of n has codes for.
static inline int64_t quant_groups(int64_t n) { return padded(n, GROUP) / GROUP; }

// coding is tensor.Coding.
typedef struct {
	int bits, group, scale, unit; // scale: bytes of a scale, and of an offset
	bool offsets, zeros;
	int zero;
} coding;

static const coding codings[DTYPES] = {
	[INT8] = {.bits = 8, .scale = 4},
	[INT4] = {.bits = 4, .group = GROUP, .scale = 2, .zero = 8},
	[INT4Z] = {.bits = 4, .group = GROUP, .scale = 2, .zeros = true},
	[NF4] = {.bits = 4, .group = HALF, .scale = 4},
	[Q4_0] = {.bits = 4, .group = 32, .scale = 2, .zero = 8},
	[Q4_1] = {.bits = 4, .group = 32, .scale = 2, .offsets = true},
	[Q5_0] = {.bits = 5, .group = 32, .scale = 2, .zero = 16},
	[Q5_1] = {.bits = 5, .group = 32, .scale = 2, .offsets = true},
	[Q8_0] = {.bits = 8, .group = 32, .scale = 2},
	[Q4_K] = {.bits = 4, .group = 32, .scale = 1, .unit = 256, .offsets = true},
	[Q5_K] = {.bits = 5, .group = 32, .scale = 1, .unit = 256, .offsets = true},
	[Q6_K] = {.bits = 6, .group = 16, .scale = 1, .unit = 256, .zero = 32},
};

// quant_scales returns the bytes of the scales of a row of n weights, where its offsets start, and quant_units the
// bytes of their units.
static inline int64_t quant_scales(dtype type, int64_t n) {
	const coding c = codings[type];
	return padded(c.group ? padded(n, c.group) / c.group * c.scale : c.scale, 16);
}

static inline int64_t quant_units(dtype type, int64_t n) {
	const int64_t unit = codings[type].unit;
	return unit ? padded(padded(n, unit) / unit * 2, 16) : 0;
}

// quant_head returns the bytes before the codes of a row of n weights, and quant_row the bytes of the row.
static inline int64_t quant_head(dtype type, int64_t n) {
	const int64_t scales = quant_scales(type, n) + quant_units(type, n);
	return (codings[type].offsets ? 2 * scales : scales) + (codings[type].zeros ? padded(quant_groups(n), 16) : 0);
}

static inline int64_t quant_row(dtype type, int64_t n) {
	const int bits = codings[type].bits;
	return quant_head(type, n) + (bits == 8 ? padded(n, 16) : quant_groups(n) * (GROUP / 8 * bits));
}

enum { MAX_ROWS = 8 }; // maximum rows of x

// Operands of a product. x has been copied with rows padded with zeros to whole groups, so that no loop has a rest.
typedef struct {
	matrix y, x, w;
	tensor bias, more;
	bool add;
	const int32_t *index; // of DequantizeRows: rows of w; NULL: all
} quant_product;

// WORDS is the type of x as words: multiples of a power of two per group, which are multiplied as integers.
#define WORDS F16

// long_grain returns the items of a chunk of weights: more than a grain if there are many for each thread, because what
// is prefetched at the end of a chunk may be another thread's. No result depends on where chunks begin.
static inline int64_t long_grain(int64_t items, int64_t item_bytes) {
	const int64_t part = items / (16 * cpu_threads()), most = 16 * grain(item_bytes);
	return part > most ? most : part > grain(item_bytes) ? part : grain(item_bytes);
}

enum { AHEAD = 4096 }; // bytes of weights that are prefetched ahead

// The types of GGUF, whose rows are whole blocks, are in ops_quant_blocks.c.
static inline bool is_block(dtype type) { return type >= Q4_0; }
void quant_few_blocks(quant_product *o, tensor x);
void quant_dequantize_blocks(quant_product *o);

#endif
