// The operations on rows and elements, for package cpu alone; their formulas are in package kernels, in the files of the
// same names. Tensors come as addresses. bf16 says whether activations and weights are BF16, or else F32.
#ifndef RESTYLE_OPS_H
#define RESTYLE_OPS_H

#include <stdint.h>

// A matrix, or some of its columns: rows begin ld elements apart.
typedef struct {
	uintptr_t at;
	int64_t ld;
} columns;

// ops_elementwise.c
void cpu_add(uintptr_t y, uintptr_t a, uintptr_t b, int64_t n, int bf16);
void cpu_mul(columns y, columns a, columns b, int64_t rows, int64_t cols, int bf16);
void cpu_silu(columns y, columns x, int64_t rows, int64_t cols, int bf16);
void cpu_silu_backward(columns dx, columns dy, columns x, int64_t rows, int64_t cols, int bf16);
void cpu_swiglu(columns y, columns gate, columns up, int64_t rows, int64_t cols, int bf16);
void cpu_swiglu_backward(columns dgate, columns dup, columns dy, columns gate, columns up, int64_t rows, int64_t cols,
	int bf16);

// ops_norm.c. cpu_norm_block is how many rows share a row of partials; without partials there are no gradients of weights.
int64_t cpu_norm_block(int64_t rows, int64_t width);
void cpu_rmsnorm(uintptr_t y, uintptr_t rstd, uintptr_t x, uintptr_t w, int64_t rows, int64_t dim, float eps, int bf16);
void cpu_add_rmsnorm(uintptr_t y, uintptr_t rstd, uintptr_t h, uintptr_t a, uintptr_t b, uintptr_t w, int64_t rows,
	int64_t dim, float eps, int bf16);
void cpu_rmsnorm_backward(uintptr_t dx, uintptr_t dw, uintptr_t dy, uintptr_t x, uintptr_t w, uintptr_t rstd,
	uintptr_t partials, int64_t rows, int64_t dim, int add, int bf16);
void cpu_qknorm(uintptr_t y, uintptr_t rstd, uintptr_t qkv, uintptr_t wq, uintptr_t wk, int64_t rows, int64_t heads,
	int64_t kv_heads, int64_t head_dim, float eps, int bf16);
void cpu_qknorm_backward(uintptr_t dqkv, uintptr_t dwq, uintptr_t dwk, uintptr_t dy, uintptr_t qkv, uintptr_t wq,
	uintptr_t wk, uintptr_t rstd, uintptr_t partials, int64_t rows, int64_t heads, int64_t kv_heads, int64_t head_dim,
	int bf16);

// ops_rope.c
void cpu_rope(uintptr_t qkv, uintptr_t positions, uintptr_t cos, uintptr_t sin, int64_t rows, int64_t heads,
	int64_t kv_heads, int64_t head_dim, int back, int bf16);

// ops_loss.c
void cpu_cross_entropy(uintptr_t loss, uintptr_t dlogits, uintptr_t logits, uintptr_t targets, int64_t rows, int64_t vocab,
	float scale, int to_bf16, int bf16);
void cpu_log_softmax(uintptr_t y, uintptr_t logits, int64_t rows, int64_t vocab, int bf16);
void cpu_nll(uintptr_t loss, uintptr_t logp, uintptr_t targets, int64_t rows, int64_t vocab);
void cpu_nll_backward(uintptr_t dlogits, uintptr_t logp, uintptr_t targets, int64_t rows, int64_t vocab, float scale,
	int bf16);

// ops_optim.c. Blocks of ADAMW_BLOCK elements share a scale where state is 8-bit codes.
enum { ADAMW_BLOCK = 256, DECADES = 7 };

// A map from codes to numbers from -1 or 0 to 1. Indices are those of its magnitudes, from 0 on.
typedef struct {
	// The bytes of value and above apart, lowest first. They come before all else so that vectors of them begin where lines of
	// the cache do; those of a signed map's magnitudes, from its middle on, do not.
	uint8_t value_bytes[4][ADAMW_BLOCK], above_bytes[4][ADAMW_BLOCK];
	uint16_t base[2][32], rise[2][32];     // the lines below by the exponent of a magnitude, for the two decades that it can meet
	float value[ADAMW_BLOCK];              // of the code; its square in a map of roots
	float above[ADAMW_BLOCK];              // what a magnitude must exceed to have an index larger than this
	float slope[DECADES], offset[DECADES]; // the lines whose least is an index at most that of x, and at least that less one
} dynamic_map;

// What a step does with the weight, by what stands behind it; and bitsandbytes' own update, of either type.
enum { WEIGHT_F32, WEIGHT_BF16, WEIGHT_MASTER, WEIGHT_SPLIT8, WEIGHT_STOCHASTIC, WEIGHT_BNB_F32, WEIGHT_BNB_BF16 };

typedef struct {
	float grad_scale, keep, beta1, rest1, beta2, rest2, rate, root, eps;
	float gain_m, gain_root, keep_root; // of g and of √v, where √v is what is kept
	uint32_t seed[2]; // of stochastic rounding in this tensor and step
} adamw_factors;

// m_scale is 0 where m and v are F32, and rest where w has nothing behind it.
typedef struct {
	uintptr_t w, g, m, v, m_scale, v_scale, rest;
	int64_t n, first; // elements, and the parameter's element that the first of them is
	int weight;
} adamw_tensors;

void cpu_adamw(const adamw_tensors *x, const adamw_factors *f, const dynamic_map *m_map, const dynamic_map *v_map);
void cpu_quantize(uintptr_t codes, uintptr_t scale, uintptr_t x, int64_t n, const dynamic_map *map, int is_signed);
void cpu_dequantize(uintptr_t x, uintptr_t codes, uintptr_t scale, int64_t n, const dynamic_map *map, int is_signed);
double cpu_sum_squares(uintptr_t x, int64_t n, int bf16);
void cpu_read(uintptr_t x, int64_t bytes);

// ops_rows.c
void cpu_gather(uintptr_t y, uintptr_t x, uintptr_t index, int64_t n, int64_t row_bytes);
void cpu_scatter(uintptr_t dx, uintptr_t dy, uintptr_t index, int64_t n, int64_t rows, int64_t row_bytes);
void cpu_embedding_backward(uintptr_t dtable, uintptr_t dy, uintptr_t ids, int64_t rows, int64_t dim, int32_t pad, int bf16);

#endif
