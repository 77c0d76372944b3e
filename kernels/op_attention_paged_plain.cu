// Attention of rows of many sequences to a pool of keys and values without tensor cores, for heads that
// op_attention_paged.cu does not take. DIM is the head dimension.
#include "common.cuh"

constexpr int PAGE = 16, KEYS = 32;  // keys of a block of the pool, and of a step
constexpr int EACH = (DIM + 31) / 32; // elements of a lane

// attention_paged_plain computes a head of a row with each warp. Its keys come KEYS at a time, counted from the
// sequence's first, so a row's bits depend only on its position and its keys. Each lane has the weight of a key.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) attention_paged_plain(T *y, const T *qkv, const T *k,
	const T *v, const int *tables, const int *places, int rows, int heads, int kvHeads, int maxBlocks, int window,
	float scale) {
	waitForPrerequisites();
	const int lane = threadIdx.x % 32, head = thread() / 32 % heads, kvHead = head / (heads / kvHeads);
	const long long row = thread() / 32 / heads;
	if (row >= rows) return;
	const int *const blocks = tables + (long long)places[2 * row] * maxBlocks;
	const int last = places[2 * row + 1], first = window ? max(0, last - window + 1) : 0;
	const T *const query = qkv + (row * (heads + 2 * kvHeads) + head) * DIM;
	auto element = [&](const T *of, int i) { return i * 32 + lane < DIM ? value(of[i * 32 + lane]) : 0; };
	auto place = [&](int key) {
		return (((long long)blocks[key / PAGE] * PAGE + key % PAGE) * kvHeads + kvHead) * DIM;
	};
	float q[EACH], sums[EACH] = {}, top = -INFINITY, total = 0; // total: of the lane's weights
#pragma unroll
	for (int i = 0; i < EACH; i++) q[i] = element(query, i);
	for (int from = first / KEYS * KEYS; from <= last; from += KEYS) {
		float score = -INFINITY;
		for (int key = max(from, first); key <= min(from + KEYS - 1, last); key++) {
			const T *const other = k + place(key);
			float sum = 0;
#pragma unroll
			for (int i = 0; i < EACH; i++) sum = __fmaf_rn(q[i], element(other, i), sum);
#pragma unroll
			for (int j = 1; j < 32; j *= 2) sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, j));
			if (key - from == lane) score = __fmul_rn(sum, scale);
		}
		float most = fmaxf(top, score);
#pragma unroll
		for (int j = 1; j < 32; j *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, j));
		const float base = most == -INFINITY ? 0 : most;
		const float keep = expf(__fadd_rn(top, -base)), weight = expf(__fadd_rn(score, -base));
		top = most;
		total = __fmaf_rn(total, keep, weight);
#pragma unroll
		for (int i = 0; i < EACH; i++) sums[i] = __fmul_rn(sums[i], keep);
		for (int key = max(from, first); key <= min(from + KEYS - 1, last); key++) {
			const T *const other = v + place(key);
			const float times = __shfl_sync(~0u, weight, key - from);
#pragma unroll
			for (int i = 0; i < EACH; i++) sums[i] = __fmaf_rn(times, element(other, i), sums[i]);
		}
	}
#pragma unroll
	for (int j = 1; j < 32; j *= 2) total = __fadd_rn(total, __shfl_xor_sync(~0u, total, j));
#pragma unroll
	for (int i = 0; i < EACH; i++) {
		T rounded[1];
		narrow(rounded, {__fdiv_rn(sums[i], total)});
		if (i * 32 + lane < DIM) y[(row * heads + head) * DIM + i * 32 + lane] = rounded[0];
	}
}
