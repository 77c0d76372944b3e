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

const gemm_level *gemm_level_for(dtype type) {
	int level = cpu_level();
	return levels[type != BF16 && level > CPU_AVX512 ? CPU_AVX512 : level];
}
