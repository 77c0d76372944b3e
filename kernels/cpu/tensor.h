// Tensors and their elements as C sees them.
#ifndef RESTYLE_TENSOR_H
#define RESTYLE_TENSOR_H

#include <stdint.h>

// The types of elements, numbered as in package tensor.
typedef enum { F32 = 1, F16, BF16, I64, I32, U8 } dtype;

// size_of returns the bytes of an element.
static inline int64_t size_of(dtype t) { return t == U8 ? 1 : t == F16 || t == BF16 ? 2 : t == I64 ? 8 : 4; }

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
