// One pool of threads for every operation on the CPU.
#ifndef RESTYLE_POOL_H
#define RESTYLE_POOL_H

#include <stdint.h>

// cpu_task handles the items lo to hi of arg. Items are independent of each other.
typedef void (*cpu_task)(void *arg, int64_t lo, int64_t hi);

// cpu_parallel has items 0 to items handled, grain at a time, by all threads, the calling one among them, and returns
// when all are. Pieces always begin at a multiple of grain, so what a piece is never depends on the number of threads.
// A call from within a task, or while another thread's call has the pool, runs on its own thread alone.
void cpu_parallel(cpu_task fn, void *arg, int64_t items, int64_t grain);

// cpu_set_threads has the pool use n threads from now on, the calling one counted. Returns 0, or an errno.
int cpu_set_threads(int n);

// cpu_threads is the number of threads that a call from here would use.
int cpu_threads(void);

// cpu_thread is the number of the calling thread within the pool: 0 for one that calls, from 1 for the pool's own. Two
// threads of one cpu_parallel never have the same; it is what per-thread workspaces are found by. Callers that ran alone
// because the pool was busy are 0 too: a workspace of thread 0 belongs to the caller's stack or is thread-local.
int cpu_thread(void);

#endif
