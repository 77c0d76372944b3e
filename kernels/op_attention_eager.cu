// The steps of unfused attention, whose scores are in memory: for each head, len rows of len. The formulas are in
// op_attention_eager.go. A thread block has one row. Keys that its query does not see have weight 0.
#include "common.cuh"

struct Row {
	long long at;           // its first vector
	int vectors, lo, hi;    // number of vectors, the first key that the query sees, and the first one after those
	long long number, head; // index of its value in a matrix [heads, len], and its head
};

inline Row row(int len, int window, int causal) {
	const int i = blockIdx.x;
	const long long number = (long long)blockIdx.y * len + i;
	return {number * (len / WIDTH), len / WIDTH, window && i >= window ? i - window + 1 : 0, causal ? i + 1 : len,
		number, blockIdx.y};
}

// across combines the values of all threads of the block, and returns the result to all of them.
template <typename F> inline float across(float x, F f) {
	__shared__ float parts[BLOCK_DIM / 32];
#pragma unroll
	for (int i = 1; i < 32; i *= 2) x = f(x, __shfl_xor_sync(~0u, x, i));
	__syncthreads(); // all threads have read what an earlier call left
	if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
	__syncthreads();
	x = parts[0];
#pragma unroll
	for (int i = 1; i < BLOCK_DIM / 32; i++) x = f(x, parts[i]);
	return x;
}

// below returns s·scale - top, which is 0 for the score that top comes from, if that is huge.
inline float below(float s, float scale, float top) {
	return fabsf(top) < HUGE_SCORE ? fmaf(s, scale, -top) : __fmul_rn(s, scale) - top;
}

// weigh stores f of each score that is seen.
template <typename F> inline void weigh(T *weights, const float *scores, const Row &r, F f) {
	for (int k = threadIdx.x; k < r.vectors; k += BLOCK_DIM) {
		const int j = k * WIDTH;
		Vector out;
		if (j + WIDTH > r.lo && j < r.hi) {
			const Vec<float, WIDTH> s = loadCached(scores, r.at + k);
			out = each([&](int i) { return j + i >= r.lo && j + i < r.hi ? f(s[i]) : 0; });
		}
		store(weights, r.at + k, out);
	}
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM) attention_softmax(
	T *weights, float *lse, int lseRow, const float *scores, int len, int window, int causal, float scale) {
	waitForPrerequisites();
	const Row r = row(len, window, causal);
	float top = -INFINITY, total = 0;
	for (int k = r.lo / WIDTH + threadIdx.x; k * WIDTH < r.hi; k += BLOCK_DIM) {
		const Vec<float, WIDTH> s = loadCached(scores, r.at + k);
		auto seen = [&](int i) { return k * WIDTH + i >= r.lo && k * WIDTH + i < r.hi; };
		const float before = top;
#pragma unroll
		for (int i = 0; i < WIDTH; i++) {
			if (seen(i)) top = fmaxf(top, __fmul_rn(s[i], scale));
		}
		total *= expf(before - top);
#pragma unroll
		for (int i = 0; i < WIDTH; i++) {
			if (seen(i)) total += expf(below(s[i], scale, top));
		}
	}
	const float rowMax = across(top, [](float a, float b) { return fmaxf(a, b); });
	total = across(total > 0 ? total * expf(top - rowMax) : 0, [](float a, float b) { return a + b; });
	if (threadIdx.x == 0) lse[r.head * lseRow + blockIdx.x] = rowMax + logf(total);
	weigh(weights, scores, r, [&](float s) { return expf(below(s, scale, rowMax)) / total; });
}

// attention_softmax_from_lse computes weights from the scores and lse.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) attention_softmax_from_lse(
	T *weights, const float *lse, int lseRow, const float *scores, int len, int window, int causal, float scale) {
	waitForPrerequisites();
	const Row r = row(len, window, causal);
	const float of = lse[r.head * lseRow + blockIdx.x];
	weigh(weights, scores, r, [&](float s) { return expf(below(s, scale, of)); });
}

// attention_softmax_backward turns weights into gradients of scores, given the gradients of the weights.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) attention_softmax_backward(
	T *weights, const float *delta, const float *gradients, int len, int window, int causal, float scale) {
	waitForPrerequisites();
	const Row r = row(len, window, causal);
	const float of = delta[r.number];
	for (int k = r.lo / WIDTH + threadIdx.x; k * WIDTH < r.hi; k += BLOCK_DIM) {
		const Vector w = loadCached(weights, r.at + k);
		const Vec<float, WIDTH> d = loadCached(gradients, r.at + k);
		store(weights, r.at + k, each([&](int i) {
			return k * WIDTH + i >= r.lo && k * WIDTH + i < r.hi ? w[i] * (d[i] - of) * scale : 0;
		}));
	}
}
