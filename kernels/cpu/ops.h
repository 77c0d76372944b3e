// What the operations on rows and elements share. Their formulas are in package kernels, in the files of the same
// names.
//
// A function whose comment starts with a name in Go's spelling is called from Go by that name: go generate writes
// ops.go from these definitions. Nothing else declares them.
#ifndef RESTYLE_OPS_H
#define RESTYLE_OPS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "level.h"
#include "pool.h"
#include "tensor.h"

// A thread claims one grain of items at a time, which reads and writes about this many bytes: enough to make claiming
// cheap in comparison, and few enough to stay in a core's L1 cache from one pass to the next. Less than this runs on
// one thread.
enum { GRAIN_BYTES = 1 << 15 };

// grain returns the number of items, of item_bytes each, that make a grain.
static inline int64_t grain(int64_t item_bytes) {
	return item_bytes < GRAIN_BYTES ? GRAIN_BYTES / (item_bytes > 0 ? item_bytes : 1) : 1;
}

// MAX_NORM_PARTIALS is the maximum of NormPartials.
enum { MAX_NORM_PARTIALS = 64 };

// TASKS is the table, by type and level, of a task that its loops define with EACH_TYPE.
#define TASKS(name) static const cpu_task name[][CPU_LEVELS] = {EACH_FLOAT_TYPE(TASKS_, name)}
#define TASKS_(T, suffix, name) [T] = AT_EACH_LEVEL(name##_##suffix),

// The operands of an elementwise operation: results y and y2, inputs a and b, the gradient dy of the result.
typedef struct {
	matrix y, y2, a, b, dy;
	float scale; // of cpu_store_rows
} elements;

// row returns where a row starts, for a matrix whose type is a constant in the loops.
static inline void *row(matrix x, int64_t r, dtype type) { return (char *)x.at + r * x.stride * size_of(type); }

// each_row lets a task handle the rows of a number of matrices, including y.
static inline void each_row(const cpu_task tasks[][CPU_LEVELS], elements o, int matrices) {
	cpu_parallel(tasks[o.y.type][cpu_level()], &o, o.y.rows, grain(o.y.cols * matrices * size_of(o.y.type)));
}

#endif
