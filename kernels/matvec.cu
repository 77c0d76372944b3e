// A few rows times a BF16 matrix, as in decoding: c = a·bᵀ + bias, or added to c, for up to eight rows of a. Each
// weight is read once; nothing else takes time.
//
//   NORMED  1: a is one row, and its RMSNorm is multiplied
//   GATED   1: a is one row, and c is SwiGLU of the sums of b's first n rows and of the n rows after them
#include "mma.cuh"

constexpr int WARPS = BLOCK_DIM / 32, OUTPUTS = 16, MAX_ROWS = 8; // per thread block; and maximum rows of a
constexpr int AHEAD = 4; // 16-byte words in flight per thread, for each of its two rows of b

typedef Vec<bf16, 8> Eight;

#if NORMED
extern __shared__ uint4 row[]; // the norm of a

// normalize lets every thread block compute the norm itself: that takes less time than another launch, because a is
// cached.
inline void normalize(const bf16 *a, const bf16 *norm, int depth, float eps) {
	__shared__ float parts[WARPS];
	float squares = 0;
	for (int k = threadIdx.x; k < depth / 8; k += BLOCK_DIM) {
		const Eight x = loadCachedOf<8>(a, k);
#pragma unroll
		for (int i = 0; i < 8; i++) squares += x[i] * x[i];
	}
#pragma unroll
	for (int i = 1; i < 32; i *= 2) squares += __shfl_xor_sync(~0u, squares, i);
	if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = squares;
	__syncthreads();
	squares = 0;
#pragma unroll
	for (int i = 0; i < WARPS; i++) squares += parts[i];
	const float scale = 1 / sqrtf(squares / depth + eps);
	for (int k = threadIdx.x; k < depth / 8; k += BLOCK_DIM) {
		const Eight x = loadCachedOf<8>(a, k), w = loadCachedOf<8>(norm, k);
		float out[8];
#pragma unroll
		for (int i = 0; i < 8; i++) out[i] = x[i] * scale * w[i];
		Eight y;
		narrow(y.at, out);
		row[k] = y.words[0];
	}
	__syncthreads();
}
#endif

// A thread block has 16 rows of b, and its warps take turns along them. Each product has 16 by 8 sums. The order of k
// is not mma's, but the same for both operands: where mma needs columns 2t and 2t+8 and the next of lane t, it gets
// those that the lane has loaded at once. If the sums are gated, eight of the rows are gates and the others the values
// that they gate. Two thread blocks per multiprocessor, of 512 threads, keep memory busy while one of them adds up.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM, BLOCK_DIM < 64 ? 16 : 1024 / BLOCK_DIM)
	matvec(C *c, long long cRow, const bf16 *a, long long aRow, const bf16 *b, long long bRow, const bf16 *bias,
		const bf16 *norm, float eps, int m, int n, int depth, int add, const bf16 *next, int lines) {
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, first = blockIdx.x * (GATED ? 8 : OUTPUTS);
	const int lowRow = first + g, highRow = GATED ? n + lowRow : lowRow + 8;
	const bool lowThere = lowRow < n, highThere = GATED ? lowThere : highRow < n;
	const bf16 *const lowFrom = b + lowRow * bRow + lane % 4 * 8, *const highFrom = b + highRow * bRow + lane % 4 * 8;
	float sums[4] = {};
	Eight low[AHEAD], high[AHEAD]; // rows g and g + 8 of the thread block's
	auto read = [&](int k) {
#pragma unroll
		for (int i = 0; i < AHEAD; i++) {
			const bool inside = k + 32 * i + lane % 4 * 8 < depth;
			low[i] = inside && lowThere ? loadStreamingOf<8>(lowFrom + k + 32 * i, 0) : Eight();
			high[i] = inside && highThere ? loadStreamingOf<8>(highFrom + k + 32 * i, 0) : Eight();
		}
	};
	const int begin = warp * AHEAD * 32;
	read(begin); // weights, which no kernel of a graph writes
	// the weights of the next layer, while memory is idle
	for (long long i = thread(); i < lines; i += gridDim.x * BLOCK_DIM) prefetchLine(next + 64 * i);
	launchDependents();
	waitForPrerequisites();
#if NORMED
	normalize(a, norm, depth, eps); // while the weights are on their way
#endif
	for (int k = begin; k < depth; k += WARPS * AHEAD * 32) {
		if (k > begin) read(k);
		Eight x[AHEAD]; // of row g of a
#pragma unroll
		for (int i = 0; i < AHEAD; i++) {
			if (k + 32 * i + lane % 4 * 8 >= depth || g >= m) continue;
#if NORMED
			x[i].words[0] = row[k / 8 + 4 * i + lane % 4];
#else
			x[i] = loadCachedOf<8>(a + g * aRow + lane % 4 * 8 + k + 32 * i, 0);
#endif
		}
#pragma unroll
		for (int i = 0; i < AHEAD; i++) {
			const uint4 u = low[i].words[0], v = high[i].words[0], w = x[i].words[0];
			mma(sums, {u.x, v.x, u.y, v.y}, {w.x, w.y});
			mma(sums, {u.z, v.z, u.w, v.w}, {w.z, w.w});
		}
	}
	__shared__ float parts[WARPS][MAX_ROWS][OUTPUTS];
#pragma unroll
	for (int i = 0; i < 4; i++) parts[warp][lane % 4 * 2 + i % 2][g + i / 2 * 8] = sums[i];
	__syncthreads();
	auto total = [&](int r, int i) {
		float sum = 0;
		for (int j = 0; j < WARPS; j++) sum += parts[j][r][i];
		return sum;
	};
	if constexpr (GATED) {
		const int s = first + threadIdx.x;
		if (threadIdx.x >= 8 || s >= n) return;
		const float gate = total(0, threadIdx.x) + (bias ? value(bias[s]) : 0);
		const float up = total(0, threadIdx.x + 8) + (bias ? value(bias[n + s]) : 0);
		put(c + s, gate * __fdividef(1, 1 + expf(-gate)) * up, (const bf16 *)nullptr, 0, add);
	} else {
		for (int i = threadIdx.x; i < m * OUTPUTS; i += BLOCK_DIM) {
			const int r = i / OUTPUTS, s = first + i % OUTPUTS;
			if (s < n) put(c + r * cRow + s, total(r, i % OUTPUTS), bias, s, add);
		}
	}
}
