// The inner loops of products at each level, and those for AMX.
#include "gemm.h"

#include <stddef.h>

#define EACH_LEVEL "gemm_loops.h"
#include "each_level.h"

#if defined(__x86_64__)
#include "gemm_amx.h"
static const gemm_level *const levels[CPU_LEVELS] = {
	&gemm_portable, &gemm_portable, &gemm_avx2, &gemm_avx512, &gemm_avx512bf16, &gemm_amx,
};
#else
static const gemm_level *const levels[CPU_LEVELS] = {&gemm_portable, &gemm_portable};
#endif

const gemm_level *gemm_level_for(dtype type, int level) {
	return levels[type != BF16 && level > CPU_AVX512 ? CPU_AVX512 : level];
}

// The two loops are timed alternately. Only the fastest run of each counts: other programs can make a run slower but
// not faster, and a run is shorter than they usually leave a core alone. The rates differ by a factor of two where they
// are known; if they were equal somewhere, the answer must not change from start to start.
int gemm_dots_pay(void) {
	double best[2] = {0};
#if defined(__x86_64__)
	enum { RUNS = 8, ROUNDS = 2000 };
	const gemm_level *both[] = {&gemm_avx512, &gemm_avx512bf16};
	for (int i = 0; i < 2 * RUNS; i++) {
		double start = gemm_now(), rate = both[i % 2]->peak(ROUNDS) / (gemm_now() - start);
		if (rate > best[i % 2]) best[i % 2] = rate;
	}
#endif
	return best[1] > 1.25 * best[0];
}
