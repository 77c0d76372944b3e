// The peak performance of this machine, for benchmarks to compare their results with.
#include "gemm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "level.h"
#include "pool.h"

enum { PER_THREAD = 4 }; // chunks: a thread that is held up leaves its share to the others

typedef struct {
	int64_t rounds, chunks, bytes;
	dtype type;
	char *to, *from;
	double *operations; // of each chunk
} job;

static void spin(void *arg, int64_t lo, int64_t hi) {
	job *j = arg;
	for (; lo < hi; lo++) j->operations[lo] = gemm_level_for(j->type, cpu_level())->peak(j->rounds);
}

double cpu_gemm_peak(dtype type, double seconds) {
	job j = {.rounds = 10000, .chunks = PER_THREAD * cpu_threads(), .type = type};
	j.operations = calloc((size_t)j.chunks, sizeof *j.operations);
	double best = 0;
	for (double start = gemm_now(); best == 0 || gemm_now() - start < seconds;) {
		double t = gemm_now(), sum = 0;
		cpu_parallel(spin, &j, j.chunks, 1);
		t = gemm_now() - t;
		for (int64_t i = 0; i < j.chunks; i++) sum += j.operations[i];
		if (sum / t > best) best = sum / t;
	}
	free(j.operations);
	return best;
}

static void copy(void *arg, int64_t lo, int64_t hi) {
	job *j = arg;
	memcpy(j->to + lo, j->from + lo, (size_t)(hi - lo));
}

double cpu_copy_rate(double seconds) {
	job j = {.bytes = 256 << 20};
	j.to = aligned_alloc(2 << 20, (size_t)j.bytes), j.from = aligned_alloc(2 << 20, (size_t)j.bytes);
	double best = 0;
	if (j.to && j.from) {
		memset(j.to, 1, (size_t)j.bytes), memset(j.from, 2, (size_t)j.bytes);
		for (double start = gemm_now(); best == 0 || gemm_now() - start < seconds;) {
			double t = gemm_now();
			cpu_parallel(copy, &j, j.bytes, 1 << 20);
			t = gemm_now() - t;
			if (2 * (double)j.bytes / t > best) best = 2 * (double)j.bytes / t;
		}
	}
	free(j.to), free(j.from);
	return best;
}
