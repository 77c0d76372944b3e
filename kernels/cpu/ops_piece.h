// How the operations on rows and elements are cut into pieces for the threads.
#ifndef RESTYLE_OPS_PIECE_H
#define RESTYLE_OPS_PIECE_H

#include <stdint.h>

// A piece reads and writes about this much: enough that claiming it costs nothing beside, little enough that it stays in a
// core's nearest cache from one pass to the next. What is smaller than this runs on one thread.
enum { PIECE_BYTES = 1 << 15 };

// piece is the number of items of so many bytes that make a piece.
static inline int64_t piece(int64_t item_bytes) {
	return item_bytes < PIECE_BYTES ? PIECE_BYTES / (item_bytes > 0 ? item_bytes : 1) : 1;
}

// TASKS is the table by type and level of a task that its loops define through BOTH_TYPES.
#define TASKS(name) static const cpu_task name[2][CPU_LEVELS] = {AT_EACH_LEVEL(name##_f32), AT_EACH_LEVEL(name##_bf16)}

#endif
