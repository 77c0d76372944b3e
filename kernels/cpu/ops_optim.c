#include "ops.h"
#include "ops_optim.h"

typedef struct {
	adamw_tensors x;
	adamw_factors f;
	const dynamic_map *m_map, *v_map;
} adamw_operands;

// A quantization block: QUANT_BLOCK elements from element first on, either in the tensor or, at its end, in a copy with
// room for all of them.
typedef struct {
	char *w, *m, *v, *master;
	const float *g;
	float *m_scale, *v_scale;
	int64_t first;
} adamw_block;

typedef struct {
	uint8_t *codes;
	float *scale, *x;
	int64_t n;
	const dynamic_map *map;
	int is_signed;
} quantize_operands;

// The bytes per element of a weight's master, by what a step does with the weight.
static const int64_t master_bytes[] = {[WEIGHT_MASTER] = 4, [WEIGHT_SPLIT8] = 1, [WEIGHT_BNB] = 0};

#define VBMI 0
#define EACH_LEVEL "ops_optim_loops.h"
#include "each_level.h"
#undef VBMI

// One more level, only for these operations: AVX-512 with byte permutations, which the first machines with BF16 dot
// products lack. It computes the same numbers.
#if defined(__x86_64__)
#define LEVEL avx512vbmi
#define VLEN 16
#define BF16_DOT 1
#define VBMI 1
BEGIN_TARGET("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vbmi")
#include "vec.h"
#include EACH_LEVEL
END_TARGET

static cpu_task vbmi_or(cpu_task other, cpu_task vbmi) {
	return cpu_level() >= CPU_AVX512BF16 && __builtin_cpu_supports("avx512vbmi") ? vbmi : other;
}
#define TASK(name) vbmi_or(name[cpu_level()], name##_avx512vbmi)
#else
#define TASK(name) name[cpu_level()]
#endif

static const cpu_task adamw[CPU_LEVELS] = AT_EACH_LEVEL(adamw);
static const cpu_task quantize[CPU_LEVELS] = AT_EACH_LEVEL(quantize);
static const cpu_task dequantize[CPU_LEVELS] = AT_EACH_LEVEL(dequantize);

// A grain is whole quantization blocks: a sixteenth of all, so that the threads finish together, but not so few that
// each thread jumps about in memory, because prefetching starts over after every jump.
enum { MIN_BLOCKS = 8, MAX_BLOCKS = 512 };

static int64_t piece_of(int64_t n) {
	int64_t blocks = n / 16 / QUANT_BLOCK;
	blocks = blocks < MIN_BLOCKS ? MIN_BLOCKS : blocks > MAX_BLOCKS ? MAX_BLOCKS : blocks;
	return blocks * QUANT_BLOCK;
}

void cpu_adamw(const adamw_tensors *x, const adamw_factors *f, const dynamic_map *m_map, const dynamic_map *v_map) {
	adamw_operands o = {*x, *f, m_map, v_map};
	cpu_parallel(TASK(adamw), &o, x->n, piece_of(x->n));
}

void cpu_quantize(uintptr_t codes, uintptr_t scale, uintptr_t x, int64_t n, const dynamic_map *map, int is_signed) {
	quantize_operands o = {(uint8_t *)codes, (float *)scale, (float *)x, n, map, is_signed};
	cpu_parallel(TASK(quantize), &o, n, piece_of(n));
}

void cpu_dequantize(uintptr_t x, uintptr_t codes, uintptr_t scale, int64_t n, const dynamic_map *map, int is_signed) {
	quantize_operands o = {(uint8_t *)codes, (float *)scale, (float *)x, n, map, is_signed};
	cpu_parallel(TASK(dequantize), &o, n, piece_of(n));
}
