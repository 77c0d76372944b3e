// AdamW and its state in 8-bit codes; kernels/adamw.go has the formulas.
#ifndef RESTYLE_OPS_OPTIM_H
#define RESTYLE_OPS_OPTIM_H

#include <stdint.h>

// Blocks of QUANT_BLOCK elements share a scale where state is 8-bit codes.
enum { QUANT_BLOCK = 256, DECADES = 7 };

// A map from codes to numbers from -1 or 0 to 1. Indices are those of its magnitudes, from 0 on.
typedef struct {
	// The bytes of value and above apart, lowest first. They come before all else so that vectors of them begin where lines of
	// the cache do; those of a signed map's magnitudes, from its middle on, do not.
	uint8_t value_bytes[4][QUANT_BLOCK], above_bytes[4][QUANT_BLOCK];
	uint16_t base[2][32], rise[2][32];     // the lines below by the exponent of a magnitude, for the two decades that it can meet
	float value[QUANT_BLOCK];              // of the code; its square in a map of roots
	float above[QUANT_BLOCK];              // what a magnitude must exceed to have an index larger than this
	float slope[DECADES], offset[DECADES]; // the lines whose least is an index at most that of x, and at least that less one
} dynamic_map;

// What a step does with the weight, by what stands behind it; and bitsandbytes' own update, of either type.
enum { WEIGHT_F32, WEIGHT_BF16, WEIGHT_MASTER, WEIGHT_SPLIT8, WEIGHT_STOCHASTIC, WEIGHT_BNB_F32, WEIGHT_BNB_BF16 };

typedef struct {
	float grad_scale, decay_factor, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, root, eps;
	float gain_m, gain_root, sqrt_beta2; // of g and of √v, where √v is what is kept
	uint32_t seed[2]; // of stochastic rounding in this tensor and step
} adamw_factors;

// m_scale is 0 where m and v are F32, and master where w has nothing behind it.
typedef struct {
	uintptr_t w, g, m, v, m_scale, v_scale, master;
	int64_t n, first; // elements, and the parameter's element that the first of them is
	int weight, half_gradient; // what a step does with w; 1: g is BF16
} adamw_tensors;

void cpu_adamw(const adamw_tensors *x, const adamw_factors *f, const dynamic_map *m_map, const dynamic_map *v_map);
void cpu_quantize(uintptr_t codes, uintptr_t scale, uintptr_t x, int64_t n, const dynamic_map *map, int is_signed);
void cpu_dequantize(uintptr_t x, uintptr_t codes, uintptr_t scale, int64_t n, const dynamic_map *map, int is_signed);

#endif
