// A few rows times a matrix, as in decoding: c = a·bᵀ + bias, or added to c, for up to eight rows of a. Each
// weight is read once; nothing else takes time.
//
//   F16     if it is defined, operands are F16, otherwise BF16
//   NORMED  1: a is one row, and its RMSNorm is multiplied
//   GATED   1: a is one row, and c is SwiGLU of the sums of b's first n rows and of the n rows after them
#include "mma.cuh"
#include "matvec.cuh"
#if NORMED
#include "normed_row.cuh"
#endif

constexpr int AHEAD = 4; // 16-byte words in flight per thread, for each of its two rows of b

typedef Vec<Half, 8> Eight;

// A thread block has 16 rows of b, and its warps take turns along them. Each product has 16 by 8 sums. The order of k
// is not mma's, but the same for both operands: where mma needs columns 2t and 2t+8 and the next of lane t, it gets
// those that the lane has loaded at once. If the sums are gated, eight of the rows are gates and the others the values
// that they gate. Two thread blocks per multiprocessor, of 512 threads, keep memory busy while one of them adds up.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM, BLOCK_DIM < 64 ? 16 : 1024 / BLOCK_DIM)
	matvec(C *c, long long cRow, const Half *a, long long aRow, const Half *b, long long bRow, const Half *bias,
		const Half *norm, float eps, int m, int n, int depth, int add, const Half *next, int lines,
		const int *offsets, int experts, const Half *a2, long long a2Row, const Half *b2, long long b2Row, int depth2) {
#ifdef GROUPED
	waitForPrerequisites();
	a += blockIdx.y * aRow, c += blockIdx.y * cRow;
	b += (long long)expertOf(blockIdx.y, offsets, experts) * n * bRow;
#endif
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, first = blockIdx.x * (GATED ? 8 : OUTPUTS);
	const int lowRow = first + g, highRow = GATED ? n + lowRow : lowRow + 8;
	const bool lowThere = lowRow < n, highThere = GATED ? lowThere : highRow < n;
	const Half *const lowFrom = b + lowRow * bRow + lane % 4 * 8, *const highFrom = b + highRow * bRow + lane % 4 * 8;
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
	if (PAIR) addPair(sums, g < m ? a2 + g * a2Row : nullptr, b2, b2Row, lowRow, highRow, lowThere, highThere, depth2);
	finish(c, cRow, bias, sums, first, m, n, add);
}
