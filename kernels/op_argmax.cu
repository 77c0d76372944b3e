// Choosing a token.
#include "common.cuh"
#include "block.cuh"
#include "topk_rank.cuh"

// choose_next sets next[2] to the index of the highest of n logits, the first of equal ones, or to -1 if one is NaN or
// +infinity, or all are -infinity. It sets next[0] to the same index, or to 0 instead of -1, and adds 1 to next[1].
// Each of at most BLOCK_DIM thread blocks stores its result in bests; the last block combines them.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	choose_next(int *next, unsigned *counter, Rank *bests, const float *logits, int n) {
	waitForPrerequisites();
	Rank best = 0;
#pragma unroll 4
	for (int i = thread(); i < n; i += gridDim.x * BLOCK_DIM) best = larger(best, rank(logits[i], i));
	best = fold(best, larger);
	if (threadIdx.x == 0) bests[blockIdx.x] = best;
	if (!isLastBlock(counter, gridDim.x)) return;
	best = fold(threadIdx.x < gridDim.x ? bests[threadIdx.x] : 0, larger);
	if (threadIdx.x > 0) return;
	const float highest = logits[indexOf(best)];
	next[2] = highest - highest == 0 ? indexOf(best) : -1; // a NaN or an infinity comes first
	next[0] = max(next[2], 0);
	next[1]++;
}
