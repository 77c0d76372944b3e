// Dropout; kernels/op_dropout.go has the formula.
#ifndef LEVEL
#include "ops.h"

// The operands: element i of all is kept if its random bits are at least below.
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
			const int64_t at = r * o->y.cols + i;
			vecuns number = lane + (uint32_t)at;
			// The upper half of an element's number goes into the key, and may change within a vector.
			const uint32_t key[2] = {o->key[0], o->key[1] + (uint32_t)(at >> 32)};
			const uint32_t next[2] = {o->key[0], key[1] + 1};
			vecuns random = mixed(number, key);
			if ((uint32_t)at > UINT32_MAX - VLEN) {
				vecuns other = mixed(number, next);
				vecuns wrapped = (vecuns)(number < lane);
				random = (random & ~wrapped) | (other & wrapped);
			}
			vecuns kept = (vecuns)(random >= o->below);
			st(y, i, n, (vec)((vecuns)(o->scale * ld(x, i, n, type)) & kept), type);
		});
	}
}
EACH_TYPE(dropout)
#endif
