// The sum of two tensors; kernels/op_add.go has the formula.
#ifndef LEVEL
#include "ops.h"

#define EACH_LEVEL "ops_add.c"
#include "each_level.h"

TASKS(add);

// Add computes y = a + b.
void cpu_add(tensor y, tensor a, tensor b) {
	elements o = {.y = y, .a = a, .b = b};
	cpu_parallel(add[y.type][cpu_level()], &o, length(y), grain(8));
}

#else
#include "ops_loops.h"

BODY(add, elements) {
	void *y = (void *)o->y.at, *a = (void *)o->a.at, *b = (void *)o->b.at;
	EACH(i, n, lo, hi, { st(y, i, n, ld(a, i, n, type) + ld(b, i, n, type), type); });
}
EACH_TYPE(add)
#endif
