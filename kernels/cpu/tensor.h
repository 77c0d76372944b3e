// Tensors and their elements as C sees them.
#ifndef RESTYLE_TENSOR_H
#define RESTYLE_TENSOR_H

#include <stdint.h>
#include <string.h>

// The types of elements, numbered as in package tensor. Operations compute in F32, BF16 and F16.
typedef enum {
	F32 = 1, F16, BF16, I64, I32, U8, F64, INT8, INT4, INT4Z, NF4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, DTYPES
} dtype;

// size_of returns the bytes of an element.
static inline int64_t size_of(dtype t) { return t == U8 ? 1 : t == F16 || t == BF16 ? 2 : t == I64 ? 8 : 4; }

// EACH_FLOAT_TYPE expands X for each type that operations compute in, and the suffix of its functions.
#define EACH_FLOAT_TYPE(X, ...) X(F32, f32, __VA_ARGS__) X(BF16, bf16, __VA_ARGS__) X(F16, f16, __VA_ARGS__)

// FOR_TYPE runs a statement in which type is a constant, equal to of.
#define FOR_TYPE(of, ...) \
	switch (of) { \
		EACH_FLOAT_TYPE(FOR_TYPE_, __VA_ARGS__) \
	default: break; \
	}
#define FOR_TYPE_(T, suffix, ...) \
	case T: { \
		const dtype type = T; \
		__VA_ARGS__; \
		break; \
	}

static inline float float_of_bits(uint32_t bits) {
	float f;
	memcpy(&f, &bits, 4);
	return f;
}

static inline uint32_t bits_of_float(float f) {
	uint32_t bits;
	memcpy(&bits, &f, 4);
	return bits;
}

// element returns element i of x, which is F32, BF16 or F16.
static inline float element(const void *x, int64_t i, dtype type) {
	if (type == F32) return ((const float *)x)[i];
	uint32_t h = ((const uint16_t *)x)[i], magnitude = (h & 0x7FFF) << 13;
	if (type == BF16) return float_of_bits(h << 16);
	// F16 has F32's form, with fewer bits of mantissa and an exponent that is 112 lower. A NaN becomes a quiet one.
	uint32_t f = bits_of_float(float_of_bits(magnitude) * 0x1p112f);
	if (magnitude >= 0x0F800000) f = magnitude | 0x7F800000 | (magnitude > 0x0F800000 ? 0x400000 : 0);
	return float_of_bits(f | (h & 0x8000) << 16);
}

// set_element stores v, rounded to the nearest value of the type, ties to even. A NaN stays one.
static inline void set_element(void *x, int64_t i, float v, dtype type) {
	uint32_t u = bits_of_float(v), magnitude = u & 0x7FFFFFFF, sign = u >> 16 & 0x8000, h;
	if (type == F32) {
		((float *)x)[i] = v;
		return;
	}
	if (type == BF16) {
		h = magnitude > 0x7F800000 ? u >> 16 | 0x40 : (u + 0x7FFF + (u >> 16 & 1)) >> 16;
	} else if (magnitude > 0x7F800000) {
		h = sign | 0x7E00 | (magnitude >> 13 & 0x3FF);
	} else if (magnitude >= 0x477FF000) { // from 65,520 on, the nearest is infinity
		h = sign | 0x7C00;
	} else if (magnitude < 0x38800000) { // below 2⁻¹⁴, F16 has the last place of 0.5 as F32
		h = sign | (bits_of_float(float_of_bits(magnitude) + 0.5f) - 0x3F000000);
	} else {
		h = sign | (magnitude - (112 << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13;
	}
	((uint16_t *)x)[i] = (uint16_t)h;
}

// A matrix is rows of elements, stride elements from one row to the next. If there is no matrix, at is 0.
typedef struct {
	uintptr_t at;
	int64_t rows, cols, stride;
	dtype type;
} matrix;

// The activations that may follow a product, numbered as in package cpu.
typedef enum { NO_ACTIVATION, GELU_EXACT, GELU_TANH, SILU } activation;

// A tensor is a matrix without gaps between rows, which are the rows of its last axis.
typedef matrix tensor;

static inline int64_t length(tensor x) { return x.rows * x.cols; }

#endif
