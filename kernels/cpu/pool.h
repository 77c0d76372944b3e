// One pool of threads for every operation on the CPU.
#ifndef RESTYLE_POOL_H
#define RESTYLE_POOL_H

#include <stdint.h>

// cpu_task handles the items lo to hi of arg. Items are independent of each other.
typedef void (*cpu_task)(void *arg, int64_t lo, int64_t hi);

// cpu_parallel lets all threads, including the calling one, handle items 0 to items, grain at a time, and returns when
// all are done. Chunks always start at a multiple of grain, so they never depend on the number of threads. A call from
// within a task, or while another thread's call has the pool, runs on its own thread only.
void cpu_parallel(cpu_task fn, void *arg, int64_t items, int64_t grain);

// cpu_set_threads sets the number of threads of the pool, including the calling one. It returns 0, or an errno.
int cpu_set_threads(int n);

// cpu_threads returns the number of threads that a call from here would use.
int cpu_threads(void);

// cpu_thread returns the number of the calling thread within the pool: 0 for a caller, from 1 for the pool's own
// threads. Two threads of one cpu_parallel never have the same number, so per-thread workspaces are found by it.
// Callers that run alone because the pool is busy are 0 too: a workspace of thread 0 belongs to the caller's stack or
// is thread-local.
int cpu_thread(void);

#endif
