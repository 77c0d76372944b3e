// RoPE; kernels/op_rope.go has the formula.
#ifndef LEVEL
#include "ops.h"

typedef struct {
	char *qkv;
	const int32_t *positions;
	const float *cos, *sin;
	int64_t heads, half, width; // heads of q and k, pairs in each, elements of a row
	float sign;                 // of the angle
} rope_operands;

#define EACH_LEVEL "ops_rope.c"
#include "each_level.h"

TASKS(rope);

// RoPE rotates the heads of q and k, or rotates them back.
void cpu_rope(tensor qkv, tensor positions, tensor cos, tensor sin, int64_t heads, int64_t kv_heads, bool back) {
	rope_operands o = {(char *)qkv.at, (int32_t *)positions.at, (float *)cos.at, (float *)sin.at, heads + kv_heads,
		cos.cols, qkv.cols, back ? -1.0f : 1.0f};
	cpu_parallel(rope[qkv.type][cpu_level()], &o, qkv.rows, grain(qkv.cols * 2 * size_of(qkv.type)));
}

#else
#include "ops_loops.h"

BODY(rope, rope_operands) {
	int64_t half = o->half, size = size_of(type);
	for (int64_t r = lo; r < hi; r++) {
		const float *c = o->cos + o->positions[r] * half, *s = o->sin + o->positions[r] * half;
		char *x = o->qkv + r * o->width * size;
		for (int64_t k = 0; k < o->heads; k++, x += 2 * half * size) {
			void *x2 = x + half * size;
			EACH(i, n, 0, half, {
				vec cos = ld(c, i, n, F32);
				vec sin = o->sign * ld(s, i, n, F32);
				vec a = ld(x, i, n, type);
				vec b = ld(x2, i, n, type);
				st(x, i, n, a * cos - b * sin, type);
				st(x2, i, n, b * cos + a * sin, type);
			});
		}
	}
}
EACH_TYPE(rope)
#endif
