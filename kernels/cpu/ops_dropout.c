// Dropout; kernels/op_dropout.go has the formula.
#ifndef LEVEL
#include "ops.h"

// The operands: an element is kept if its random bits are at least below.
typedef struct {
	matrix y, x;
	uint32_t key[2], below;
	float scale;
} dropped;

#define EACH_LEVEL "ops_dropout.c"
#include "each_level.h"

TASKS(dropout);

// Dropout computes y = scale·x for the elements whose random bits are at least below, and y = 0 for the others.
void cpu_dropout(tensor y, tensor x, int64_t below, float scale, int64_t key) {
	dropped o = {.y = y, .x = x, .key = {(uint32_t)key, (uint32_t)(key >> 32)}, .below = (uint32_t)below, .scale = scale};
	cpu_parallel(dropout[y.type][cpu_level()], &o, y.rows, grain(y.cols * 2 * size_of(y.type)));
}

#else
#include "ops_loops.h"
#include "random_loops.h"

BODY(dropout, dropped) {
	vecuns lane;
	for (int i = 0; i < VLEN; i++) lane[i] = i;
	for (int64_t r = lo; r < hi; r++) {
		void *y = row(o->y, r, type), *x = row(o->x, r, type);
		EACH(i, n, 0, o->y.cols, {
			vecuns kept = (vecuns)(mixed(lane + (uint32_t)(r * o->y.cols + i), o->key) >= o->below);
			st(y, i, n, (vec)((vecuns)(o->scale * ld(x, i, n, type)) & kept), type);
		});
	}
}
EACH_TYPE(dropout)
#endif
