// What attention is made of besides products, where its scores lie in memory whole: one sequence's, [heads][len][len].
#ifndef RESTYLE_ATTENTION_EAGER_H
#define RESTYLE_ATTENTION_EAGER_H

#include <stdint.h>

#include "tensor.h"

// cpu_scores is the scores of one sequence. Row r is query r % len of head r / len; it sees the keys from its own down to
// the window-th before.
typedef struct {
	uintptr_t scores;  // floats, not yet scaled; or the weights' gradients
	uintptr_t weights; // of the type
	int64_t heads, len, window;
	float scale;
	dtype type;
	uintptr_t lse;      // of head h and query i at h·lse_stride + i
	int64_t lse_stride;
} cpu_scores;

// cpu_softmax makes weights of scores, and lse. What is not seen gets the weight 0.
void cpu_softmax(const cpu_scores *s);

// cpu_softmax_again makes weights of scores and lse.
void cpu_softmax_again(const cpu_scores *s);

// cpu_softmax_backward turns the weights, and their gradients in scores, into the gradients of the unscaled scores in
// weights. delta is Σ dy·y of each row [heads][len].
void cpu_softmax_backward(const cpu_scores *s, uintptr_t delta);

// cpu_head_dots is out[h][i] = the product of head h of row i of x and y, [len][heads·dim] in either type.
void cpu_head_dots(uintptr_t out, uintptr_t x, uintptr_t y, int64_t heads, int64_t len, int64_t dim, dtype type);

// cpu_store_rows stores n rows of floats, dim each, in rows that are stride elements apart.
void cpu_store_rows(uintptr_t to, int64_t stride, uintptr_t from, int64_t n, int64_t dim, dtype type);

#endif
