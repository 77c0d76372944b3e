#include "ops_loops.h"

BODY(rope, rope_operands) {
	int64_t half = o->half, size = bf16 ? 2 : 4;
	for (int64_t r = lo; r < hi; r++) {
		const float *c = o->cos + o->positions[r] * half, *s = o->sin + o->positions[r] * half;
		char *x = o->qkv + r * o->width * size;
		for (int64_t k = 0; k < o->heads; k++, x += 2 * half * size) {
			void *x2 = x + half * size;
			EACH(i, n, 0, half, {
				vec cos = ld(c, i, n, 0);
				vec sin = o->sign * ld(s, i, n, 0);
				vec a = ld(x, i, n, bf16);
				vec b = ld(x2, i, n, bf16);
				st(x, i, n, a * cos - b * sin, bf16);
				st(x2, i, n, b * cos + a * sin, bf16);
			});
		}
	}
}
BOTH_TYPES(rope)
