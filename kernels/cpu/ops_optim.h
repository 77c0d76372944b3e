// AdamW and its state in 8-bit codes; kernels/op_adamw.go has the formulas.
#ifndef RESTYLE_OPS_OPTIM_H
#define RESTYLE_OPS_OPTIM_H

#include <stdint.h>

#include "tensor.h"

// QUANT_BLOCK elements, a quantization block, share a scale if state is 8-bit codes.
enum { QUANT_BLOCK = 256, DECADES = 7 };

// A map from codes to numbers from -1 or 0 to 1. Indices count its magnitudes, from 0 on.
typedef struct {
	// The bytes of value and above in separate planes, lowest first. They are the first fields so that vectors of them
	// start at cache lines; vectors of a signed map's magnitudes, from its middle on, do not.
	uint8_t value_bytes[4][QUANT_BLOCK], above_bytes[4][QUANT_BLOCK];
	// the lines below, by the exponent of a magnitude, for the two decades that it can be in
	uint16_t base[2][32], rise[2][32];
	float value[QUANT_BLOCK];              // of the code; its square in a map of roots
	float above[QUANT_BLOCK];              // a magnitude above this has a larger index
	float slope[DECADES], offset[DECADES]; // lines whose minimum, truncated, is the index of x or one less
} dynamic_map;

// What the step does with the weight: it rounds it, to nearest or at random, or keeps what rounding loses in a master,
// of F32 or of 8 bits; or it is bitsandbytes' own update.
enum { WEIGHT_ROUNDED, WEIGHT_MASTER, WEIGHT_SPLIT8, WEIGHT_STOCHASTIC, WEIGHT_BNB };

typedef struct {
	float grad_scale, decay_factor, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, root, eps;
	float gain_m, gain_root, sqrt_beta2; // of g and of √v, if the state holds √v
	uint32_t seed[2]; // of stochastic rounding in this tensor and step
} adamw_factors;

// m_scale is 0 if m and v are F32, and master is 0 if w has none.
typedef struct {
	uintptr_t w, g, m, v, m_scale, v_scale, master;
	int64_t n, first; // elements, and the index of the first within the parameter
	int weight;         // what a step does with w
	dtype type, g_type; // of w and g: F32, BF16 or F16
} adamw_tensors;

void cpu_adamw(const adamw_tensors *x, const adamw_factors *f, const dynamic_map *m_map, const dynamic_map *v_map);
void cpu_quantize(uintptr_t codes, uintptr_t scale, uintptr_t x, int64_t n, const dynamic_map *map, int is_signed);
void cpu_dequantize(uintptr_t x, uintptr_t codes, uintptr_t scale, int64_t n, const dynamic_map *map, int is_signed);

#endif
