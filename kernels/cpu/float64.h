// Products of float64 matrices.
#ifndef RESTYLE_FLOAT64_H
#define RESTYLE_FLOAT64_H

#include <stdint.h>

// A float64_matrix has rows that start stride elements after each other.
typedef struct {
	double *at;
	int64_t stride;
} float64_matrix;

// cpu_subtract_product computes c -= a·b; SubtractProduct has the details.
void cpu_subtract_product(int64_t m, int64_t n, int64_t k, float64_matrix c, float64_matrix a, float64_matrix b,
	int upper);

#endif
