// Which experts of a mixture compute a row, and the gradient of their weights. The formulas are in op_experts.go.
#include "common.cuh"
#include "block.cuh"

// sort sorts the experts of a row, of which there are few.
inline void sort(int *x, int n) {
	for (int i = 1; i < n; i++) {
		const int moved = x[i];
		int j = i;
		for (; j > 0 && x[j - 1] > moved; j--) x[j] = x[j - 1];
		x[j] = moved;
	}
}

// route has a thread per row, whose experts topk has chosen.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	route(int *experts, float *weights, float *lse, const float *logits, int rows, int n, int k, int normalized) {
	waitForPrerequisites();
	const long long r = thread();
	if (r >= rows) return;
	experts += r * k, weights += r * k, logits += r * n;
	const float largest = logits[experts[0]];
	float all = 0, some = 0;
	for (int e = 0; e < n; e++) all += expf(logits[e] - largest);
	sort(experts, k);
	for (int s = 0; s < k; s++) some += weights[s] = expf(logits[experts[s]] - largest);
	for (int s = 0; s < k; s++) weights[s] /= normalized ? some : all;
	lse[r] = largest + logf(all);
}

// group_pairs has a thread block per expert, which counts the pairs of the experts before it, and then puts its own one
// after the other, BLOCK_DIM pairs at a time.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	group_pairs(int *place, int *rows, int *offsets, const int *experts, int pairs, int k) {
	waitForPrerequisites();
	const int own = blockIdx.x;
	__shared__ int of[BLOCK_DIM / 32];
	int before = 0;
	for (int i = threadIdx.x; i < pairs; i += BLOCK_DIM) before += experts[i] < own;
	int at = fold(before, [](int a, int b) { return a + b; });
	if (threadIdx.x == 0) offsets[own] = at;
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	for (int first = 0; first < pairs; first += BLOCK_DIM) {
		const int i = first + threadIdx.x;
		const bool mine = i < pairs && experts[i] == own;
		const unsigned ballot = __ballot_sync(~0u, mine);
		__syncthreads(); // all have read the counts of the last time
		if (lane == 0) of[warp] = __popc(ballot);
		__syncthreads();
		int to = at + __popc(ballot & ((1u << lane) - 1));
		for (int w = 0; w < BLOCK_DIM / 32; w++) {
			if (w < warp) to += of[w];
			at += of[w];
		}
		if (mine) place[i] = to, rows[to] = i / k;
	}
	if (threadIdx.x == 0 && own == gridDim.x - 1) offsets[own + 1] = at;
}

// add_balance has a thread block per expert.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	add_balance(float *sums, const int *experts, const float *logits, const float *lse, int rows, int n, int k) {
	waitForPrerequisites();
	const int own = blockIdx.x;
	float probability = 0;
	int count = 0;
	for (int r = threadIdx.x; r < rows; r += BLOCK_DIM) {
		probability += expf(logits[(long long)r * n + own] - lse[r]);
		for (int s = 0; s < k; s++) count += experts[(long long)r * k + s] == own;
	}
	count = fold(count, [](int a, int b) { return a + b; });
	__syncthreads();
	probability = blockSum(probability);
	if (threadIdx.x > 0) return;
	sums[own] += count;
	sums[n + own] += probability;
}

// route_backward has a warp per row.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) route_backward(T *dlogits, const float *dweights,
	const int *experts, const float *weights, const float *logits, const float *lse, const float *counts, int live,
	float scale, int rows, int n, int k, int normalized) {
	waitForPrerequisites();
	const long long r = thread() / 32;
	const int lane = threadIdx.x % 32;
	if (r >= rows) return;
	experts += r * k, weights += r * k, dweights += r * k, logits += r * n;
	if (!counts || r >= live) scale = 0;
	float mean = 0, balance = 0;
	for (int s = 0; s < k; s++) mean += weights[s] * dweights[s];
	for (int e = lane; e < n && scale != 0; e += 32) balance += expf(logits[e] - lse[r]) * counts[e];
	balance = lanes(balance);
	for (int e = lane; e < n; e += 32) {
		const float p = expf(logits[e] - lse[r]);
		float d[1] = {normalized ? 0 : -p * mean};
		for (int s = 0; s < k; s++) {
			if (experts[s] == e) d[0] = weights[s] * (dweights[s] - mean);
		}
		if (scale != 0) d[0] += scale * p * (counts[e] - balance);
		T to[1];
		narrow(to, d);
		dlogits[r * n + e] = to[0];
	}
}
