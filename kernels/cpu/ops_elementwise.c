#include "ops.h"
#include "ops_piece.h"
#include "pool.h"

typedef struct {
	void *y, *a, *b;
} add_operands;

// Results y and y2, inputs a and b, the gradient of the result c.
typedef struct {
	columns y, y2, a, b, c;
	int64_t cols;
} operands;

static inline void *row(columns x, int64_t r, int bf16) { return (char *)x.at + r * x.ld * (bf16 ? 2 : 4); }

#define EACH_LEVEL "ops_elementwise_loops.h"
#include "each_level.h"

TASKS(add);
TASKS(mul);
TASKS(silu);
TASKS(silu_backward);
TASKS(swiglu);
TASKS(swiglu_backward);

void cpu_add(uintptr_t y, uintptr_t a, uintptr_t b, int64_t n, int bf16) {
	add_operands o = {(void *)y, (void *)a, (void *)b};
	cpu_parallel(add[bf16][cpu_level()], &o, n, piece(8));
}

// run has a task handle the rows of several matrices.
static void run(const cpu_task tasks[2][CPU_LEVELS], operands o, int matrices, int64_t rows, int bf16) {
	cpu_parallel(tasks[bf16][cpu_level()], &o, rows, piece(o.cols * matrices * (bf16 ? 2 : 4)));
}

void cpu_mul(columns y, columns a, columns b, int64_t rows, int64_t cols, int bf16) {
	run(mul, (operands){.y = y, .a = a, .b = b, .cols = cols}, 3, rows, bf16);
}

void cpu_silu(columns y, columns x, int64_t rows, int64_t cols, int bf16) {
	run(silu, (operands){.y = y, .a = x, .cols = cols}, 2, rows, bf16);
}

void cpu_silu_backward(columns dx, columns dy, columns x, int64_t rows, int64_t cols, int bf16) {
	run(silu_backward, (operands){.y = dx, .a = x, .c = dy, .cols = cols}, 3, rows, bf16);
}

void cpu_swiglu(columns y, columns gate, columns up, int64_t rows, int64_t cols, int bf16) {
	run(swiglu, (operands){.y = y, .a = gate, .b = up, .cols = cols}, 3, rows, bf16);
}

void cpu_swiglu_backward(columns dgate, columns dup, columns dy, columns gate, columns up, int64_t rows, int64_t cols,
	int bf16) {
	run(swiglu_backward, (operands){.y = dgate, .y2 = dup, .a = gate, .b = up, .c = dy, .cols = cols}, 5, rows, bf16);
}
