// What the operations on rows and elements share; their formulas are in package kernels, in the files of the same names.
//
// A function whose comment begins with a name in Go's spelling is called from Go by that name: go generate writes ops.go from
// these definitions. Nothing else declares them.
#ifndef RESTYLE_OPS_H
#define RESTYLE_OPS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "level.h"
#include "pool.h"
#include "tensor.h"

// A thread claims a grain of items at a time, which read and write about this much: enough that claiming costs nothing
// next to it, little enough that it stays in a core's L1 cache from one pass to the next. Less than this runs on one thread.
enum { GRAIN_BYTES = 1 << 15 };

// grain is the number of items of so many bytes that make a grain.
static inline int64_t grain(int64_t item_bytes) {
	return item_bytes < GRAIN_BYTES ? GRAIN_BYTES / (item_bytes > 0 ? item_bytes : 1) : 1;
}

// MAX_NORM_PARTIALS is the largest number that NormPartials gives.
enum { MAX_NORM_PARTIALS = 64 };

// TASKS is the table by type and level of a task that its loops define through BOTH_TYPES.
#define TASKS(name) \
	static const cpu_task name[][CPU_LEVELS] = {[F32] = AT_EACH_LEVEL(name##_f32), [BF16] = AT_EACH_LEVEL(name##_bf16)}

// The operands of an operation on elements: results y and y2, inputs a and b, the gradient of the result dy.
typedef struct {
	matrix y, y2, a, b, dy;
} elements;

// row is where a row begins, of a matrix whose type is a constant in the loops.
static inline void *row(matrix x, int64_t r, dtype type) { return (char *)x.at + r * x.stride * size_of(type); }

// each_row has a task handle the rows of so many matrices, y among them.
static inline void each_row(const cpu_task tasks[][CPU_LEVELS], elements o, int matrices) {
	cpu_parallel(tasks[o.y.type][cpu_level()], &o, o.y.rows, grain(o.y.cols * matrices * size_of(o.y.type)));
}

#endif
