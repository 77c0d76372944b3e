#include "pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

// A job is published in one word: its number in the upper half, the number of unclaimed chunks in the lower. A thread
// that has claimed a chunk knows that the job cannot end before the chunk is done, so it may read the rest of the job
// after the claim. A thread that wakes up too late finds nothing to claim, and no one waits for it: on a busy machine
// the job is finished by whichever threads run.
static _Atomic uint64_t board;
static cpu_task job_fn;
static void *job_arg;
static int64_t job_items, job_grain, job_chunks;
static _Atomic int64_t job_done;

static pthread_mutex_t one_job = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t bed = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t alarm_clock = PTHREAD_COND_INITIALIZER;
static _Atomic int sleepers;
static _Atomic int running; // whether a job is not done
static _Atomic int threads = 1;
static int started = 1; // number of threads, including the caller

static __thread int in_task;
static __thread int number;

// A worker looks for the next job for about 50 µs after the end of one before it sleeps: waking a sleeper takes about
// as long, and the operations of a small model follow each other faster than that. It does not sleep while others
// finish a job either, for some milliseconds: a job that takes longer is worth waking for. Whoever has waited for more
// than 50 µs lets other programs have the core.
enum { LOOKS = 2000, PATIENCE = 5 * LOOKS };

static inline void rest(int looks) {
	if (looks >= LOOKS) {
		sched_yield();
		return;
	}
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

// work claims and executes chunks until none is left.
static void work(void) {
	uint64_t seen = atomic_load(&board);
	while ((uint32_t)seen > 0) {
		// Checked before every claim: if the claim succeeds, the number of threads has been this since before the job
		// started.
		if (number >= atomic_load(&threads)) return;
		if (!atomic_compare_exchange_weak(&board, &seen, seen - 1)) continue;
		int64_t lo = (job_chunks - (int64_t)(uint32_t)seen) * job_grain;
		int64_t hi = lo + job_grain < job_items ? lo + job_grain : job_items;
		in_task = 1;
		job_fn(job_arg, lo, hi);
		in_task = 0;
		atomic_fetch_add(&job_done, 1);
		seen = atomic_load(&board);
	}
}

static void *worker(void *arg) {
	number = (int)(intptr_t)arg;
	for (int looks = 0, idle = 0;; looks++, idle++) {
		int wanted = number < atomic_load(&threads);
		if (wanted && (uint32_t)atomic_load(&board) > 0) {
			work();
			looks = 0;
		}
		if (wanted && looks < PATIENCE && atomic_load(&running)) idle = 0;
		if (idle < LOOKS) {
			rest(looks);
			continue;
		}
		pthread_mutex_lock(&bed);
		atomic_fetch_add(&sleepers, 1);
		while ((uint32_t)atomic_load(&board) == 0 || number >= atomic_load(&threads))
			pthread_cond_wait(&alarm_clock, &bed);
		atomic_fetch_sub(&sleepers, 1);
		pthread_mutex_unlock(&bed);
		looks = idle = 0;
	}
	return NULL;
}

static void alone(cpu_task fn, void *arg, int64_t items, int64_t grain) {
	int outer = in_task;
	in_task = 1;
	for (int64_t lo = 0; lo < items; lo += grain) fn(arg, lo, lo + grain < items ? lo + grain : items);
	in_task = outer;
}

void cpu_parallel(cpu_task fn, void *arg, int64_t items, int64_t grain) {
	if (items <= 0) return;
	if (grain < 1) grain = 1;
	while ((items + grain - 1) / grain > INT32_MAX) grain *= 2;
	int64_t chunks = (items + grain - 1) / grain;
	if (chunks == 1 || in_task || atomic_load(&threads) == 1 || pthread_mutex_trylock(&one_job) != 0) {
		alone(fn, arg, items, grain);
		return;
	}
	job_fn = fn, job_arg = arg, job_items = items, job_grain = grain, job_chunks = chunks;
	atomic_store(&job_done, 0);
	atomic_store(&running, 1);
	uint64_t before = atomic_load(&board);
	atomic_store(&board, ((before >> 32) + 1) << 32 | (uint64_t)chunks);
	if (atomic_load(&sleepers) > 0) {
		pthread_mutex_lock(&bed);
		pthread_cond_broadcast(&alarm_clock);
		pthread_mutex_unlock(&bed);
	}
	work();
	for (int looks = 0; atomic_load(&job_done) < chunks; looks++) rest(looks);
	atomic_store(&running, 0);
	pthread_mutex_unlock(&one_job);
}

int cpu_set_threads(int n) {
	if (n < 1) return EINVAL;
	int err = 0;
	pthread_mutex_lock(&one_job);
	while (started < n && err == 0) {
		pthread_attr_t attr;
		pthread_attr_init(&attr);
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		pthread_t t;
		err = pthread_create(&t, &attr, worker, (void *)(intptr_t)started);
		pthread_attr_destroy(&attr);
		if (err == 0) started++;
	}
	if (err == 0) atomic_store(&threads, n);
	pthread_mutex_unlock(&one_job);
	return err;
}

int cpu_threads(void) { return in_task ? 1 : atomic_load(&threads); }

int cpu_thread(void) { return number; }
