// A few rows by a matrix in BF16, as decoding has them: c = a·bᵀ + bias, or added to what c holds, for up to eight rows of a.
// Each weight is read once, which is all that takes time.
#include "common.cuh"
#include "mma.cuh"

constexpr int WARPS = BLOCK / 32, OUTPUTS = 16, MOST = 8; // of a block; and rows of a
constexpr int AHEAD = 4; // words of 16 bytes that a thread has on their way of each of its two rows of b

// A block has 16 rows of b, and its warps take turns along them. Each product is of 16 by 8 sums. The order of k is another
// than mma's, the same for both operands: where mma wants columns 2t and 2t+8 and the next of lane t, it is given those that
// the lane has loaded at once.
extern "C" __global__ void __launch_bounds__(BLOCK) matvec(C *c, long long cRow, const bf16 *a, long long aRow, const bf16 *b,
	long long bRow, const bf16 *bias, int m, int n, int depth, int add) {
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, first = blockIdx.x * OUTPUTS;
	typedef Vec<bf16, 8> Words;
	float sums[4] = {};
	for (int k = warp * AHEAD * 32; k < depth; k += WARPS * AHEAD * 32) {
		Words low[AHEAD], high[AHEAD], x[AHEAD]; // rows g and g + 8 of b, and g of a
#pragma unroll
		for (int i = 0; i < AHEAD; i++) {
			const int at = k + 32 * i + lane % 4 * 8;
			if (at >= depth) continue;
			if (first + g < n) low[i] = loadOf<8>(b + (first + g) * bRow + at, 0);
			if (first + g + 8 < n) high[i] = loadOf<8>(b + (first + g + 8) * bRow + at, 0);
			if (g < m) x[i] = fetchOf<8>(a + g * aRow + at, 0);
		}
#pragma unroll
		for (int i = 0; i < AHEAD; i++) {
			const uint4 u = low[i].words[0], v = high[i].words[0], w = x[i].words[0];
			mma(sums, {u.x, v.x, u.y, v.y}, {w.x, w.y});
			mma(sums, {u.z, v.z, u.w, v.w}, {w.z, w.w});
		}
	}
	__shared__ float parts[WARPS][MOST][OUTPUTS];
#pragma unroll
	for (int i = 0; i < 4; i++) parts[warp][lane % 4 * 2 + i % 2][g + i / 2 * 8] = sums[i];
	__syncthreads();
	for (int i = threadIdx.x; i < m * OUTPUTS; i += BLOCK) {
		const int r = i / OUTPUTS, s = first + i % OUTPUTS;
		if (s >= n) continue;
		float sum = 0;
		for (int j = 0; j < WARPS; j++) sum += parts[j][r][i % OUTPUTS];
		put(c + r * cRow + s, sum, bias, s, add);
	}
}
