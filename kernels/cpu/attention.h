// Attention within each of several sequences laid end to end, with grouped key/value heads, forward and backward.
#ifndef RESTYLE_ATTENTION_H
#define RESTYLE_ATTENTION_H

#include <stdint.h>

#include "tensor.h"

// cpu_attention has the operands of attention and says which keys each query sees. Sequence s has the queries seqs[s]
// to seqs[s+1] of q, and as many keys and values of k and v, from the same row on. With ahead > 0, which requires a
// single sequence, there are ahead more keys, and query i is at position ahead + i. Head h starts at column h·head_dim.
typedef struct {
	matrix q, k, v, y;     // of one type; q, y: heads · head_dim columns; k, v: kv_heads · head_dim
	matrix dq, dk, dv, dy; // for the backward pass
	uintptr_t lse;             // [heads, rows] floats, log of the sum of the exponentials; 0 if it is not wanted
	int64_t rows;              // seqs[n_seqs]
	int64_t ahead;
	int32_t n_seqs, heads, kv_heads, head_dim;
	int32_t causal; // a query sees no key after its own position
	double divisor; // of the products of queries and keys
	int32_t window; // maximum number of keys that a query sees, if causal; 0: all
	uintptr_t scratch; // as many bytes as cpu_attention_…_scratch returns, at a multiple of 64
} cpu_attention;

// cpu_attention_forward_scratch and cpu_attention_backward_scratch return the bytes of scratch memory that the passes
// need.
int64_t cpu_attention_forward_scratch(const cpu_attention *a);
int64_t cpu_attention_backward_scratch(const cpu_attention *a, const int32_t *seqs);

void cpu_attention_forward(const cpu_attention *a, const int32_t *seqs);
void cpu_attention_backward(const cpu_attention *a, const int32_t *seqs);

// cpu_attention_decode is the forward pass of a single query, row 0 of q, that comes after ahead keys, in the order in
// which these are in memory.
int64_t cpu_attention_decode_scratch(const cpu_attention *a);
void cpu_attention_decode(const cpu_attention *a);

#endif
