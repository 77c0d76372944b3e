// Choosing a token.
#include "common.cuh"
#include "block.cuh"

struct Best {
	float value;
	int at;      // -1: none
	int broken;  // 1: an element is NaN or +infinity
};

inline Best better(Best a, Best b) {
	const bool second = b.at >= 0 && (a.at < 0 || b.value > a.value || (b.value == a.value && b.at < a.at));
	const int broken = a.broken | b.broken;
	return second ? Best{b.value, b.at, broken} : Best{a.value, a.at, broken};
}

// choose_next sets next[2] to the index of the highest of n logits, the first of equal ones, or to -1 if one is NaN or
// +infinity, or all are -infinity. It sets next[0] to the same index, or to 0 instead of -1, and adds 1 to next[1].
// Each of at most BLOCK_DIM thread blocks stores its result in bests; the last block combines them.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	choose_next(int *next, unsigned *counter, Best *bests, const float *logits, int n) {
	waitForPrerequisites();
	const Best none = {-INFINITY, -1, 0};
	Best best = none;
#pragma unroll 4
	for (int i = thread(); i < n; i += gridDim.x * BLOCK_DIM) {
		const float x = logits[i];
		best.broken |= !(x < INFINITY);
		if (x > best.value) best = {x, i, best.broken};
	}
	best = fold(best, better);
	if (threadIdx.x == 0) bests[blockIdx.x] = best;
	if (!isLastBlock(counter, gridDim.x)) return;
	best = fold(threadIdx.x < gridDim.x ? bests[threadIdx.x] : none, better);
	if (threadIdx.x > 0) return;
	next[2] = best.broken ? -1 : best.at;
	next[0] = max(next[2], 0);
	next[1]++;
}
