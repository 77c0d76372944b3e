#include "ops.h"
#include "ops_piece.h"
#include "pool.h"

typedef struct {
	float *loss, *logp;
	char *logits, *dlogits;
	const int32_t *targets;
	int64_t vocab;
	float scale;
	int to_bf16; // the type of dlogits
} loss_operands;

#define EACH_LEVEL "ops_loss_loops.h"
#include "each_level.h"

TASKS(cross_entropy);
TASKS(log_softmax);
TASKS(nll_backward);

void cpu_cross_entropy(uintptr_t loss, uintptr_t dlogits, uintptr_t logits, uintptr_t targets, int64_t rows, int64_t vocab,
	float scale, int to_bf16, int bf16) {
	loss_operands o = {.loss = (float *)loss, .logits = (char *)logits, .dlogits = (char *)dlogits,
		.targets = (int32_t *)targets, .vocab = vocab, .scale = scale, .to_bf16 = to_bf16};
	cpu_parallel(cross_entropy[bf16][cpu_level()], &o, rows, piece(vocab * (bf16 ? 2 : 4)));
}

void cpu_log_softmax(uintptr_t y, uintptr_t logits, int64_t rows, int64_t vocab, int bf16) {
	loss_operands o = {.logp = (float *)y, .logits = (char *)logits, .vocab = vocab};
	cpu_parallel(log_softmax[bf16][cpu_level()], &o, rows, piece(vocab * (bf16 ? 6 : 8)));
}

void cpu_nll(uintptr_t loss, uintptr_t logp, uintptr_t targets, int64_t rows, int64_t vocab) {
	for (int64_t r = 0; r < rows; r++) ((float *)loss)[r] = -((float *)logp)[r * vocab + ((int32_t *)targets)[r]];
}

void cpu_nll_backward(uintptr_t dlogits, uintptr_t logp, uintptr_t targets, int64_t rows, int64_t vocab, float scale,
	int bf16) {
	loss_operands o = {.logp = (float *)logp, .logits = (char *)dlogits, .targets = (int32_t *)targets, .vocab = vocab,
		.scale = scale};
	cpu_parallel(nll_backward[bf16][cpu_level()], &o, rows, piece(vocab * (bf16 ? 6 : 8)));
}
