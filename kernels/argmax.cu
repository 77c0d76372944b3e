// Choosing a token.
#include "common.cuh"
#include "block.cuh"

struct Best {
	float value;
	int at;      // -1: none
	int broken;  // 1: an element is NaN or +infinity
};

// choose_next sets next[0] to the index of the highest of n logits, the first of equal ones, or to -1 if one is NaN or
// +infinity, or all are -infinity. It adds 1 to next[1]. There is one thread block.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) choose_next(int *next, const float *logits, int n) {
	Best best = {-INFINITY, -1, 0};
#pragma unroll 8
	for (int i = threadIdx.x; i < n; i += BLOCK_DIM) {
		const float x = logits[i];
		best.broken |= !(x < INFINITY);
		if (x > best.value) best = {x, i, best.broken};
	}
	best = fold(best, [](Best a, Best b) {
		const bool second = b.at >= 0 && (a.at < 0 || b.value > a.value || (b.value == a.value && b.at < a.at));
		const int broken = a.broken | b.broken;
		return second ? Best{b.value, b.at, broken} : Best{a.value, a.at, broken};
	});
	if (threadIdx.x > 0) return;
	next[0] = best.broken ? -1 : best.at;
	next[1]++;
}
