#include "ops.h"
#include "ops_piece.h"
#include "pool.h"

typedef struct {
	char *qkv;
	const int32_t *positions;
	const float *cos, *sin;
	int64_t heads, half, width; // heads of q and k, pairs in each, elements of a row
	float sign;                 // of the angle
} rope_operands;

#define EACH_LEVEL "ops_rope_loops.h"
#include "each_level.h"

TASKS(rope);

void cpu_rope(uintptr_t qkv, uintptr_t positions, uintptr_t cos, uintptr_t sin, int64_t rows, int64_t heads,
	int64_t kv_heads, int64_t head_dim, int back, int bf16) {
	rope_operands o = {(char *)qkv, (int32_t *)positions, (float *)cos, (float *)sin, heads + kv_heads, head_dim / 2,
		(heads + 2 * kv_heads) * head_dim, back ? -1.0f : 1.0f};
	cpu_parallel(rope[bf16][cpu_level()], &o, rows, piece(o.width * 2 * (bf16 ? 2 : 4)));
}
