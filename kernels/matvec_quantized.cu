// A few rows times quantized weights, as in decoding: c = a·bᵀ + bias, or added to c, for up to eight rows of a. It is
// matvec with other weights. Codes become BF16, which is exact, and the sum of a group's products is multiplied by its
// scale.
//
//   NORMED  1: a is one row, and its RMSNorm is multiplied
//   GATED   1: a is one row, and c is SwiGLU of the sums of b's first n rows and of the n rows after them
//   GROUPED if it is defined: along y, a thread block has a row of a and c, and the n rows of b of that row's expert,
//           which has the rows of a from offsets[expert] to offsets[expert + 1]
#include "mma.cuh"
#include "matvec.cuh"
#include "quantized.cuh"
#if NORMED
#include "normed_row.cuh"
#endif

constexpr int STEP = BITS == 4 ? 128 : 64; // weights in 64 bytes of a row, which four lanes load at once
constexpr int AHEAD = 4;                   // such steps that are in flight
#if ZEROS || defined(GROUPED)
constexpr int RESIDENT = 1; // thread blocks of a multiprocessor, at least: with more, registers would spill
#else
constexpr int RESIDENT = BLOCK_DIM < 64 ? 8 : 768 / BLOCK_DIM;
#endif

// A Part is what a thread has of a row of b: codes, and the scales and zero points of their groups.
struct Part {
	uint4 codes[AHEAD];
	uint2 scales;
	unsigned zeros;
};

// A word of codes yields pairs that are two bytes apart: even and odd return such pairs of four elements of a.
inline unsigned even(unsigned x, unsigned y) { return permute(x, y, 0x5410); }
inline unsigned odd(unsigned x, unsigned y) { return permute(x, y, 0x7632); }

inline unsigned scale(uint2 four, int i) { return (i < 2 ? four.x : four.y) >> i % 2 * 16 & 0xFFFF; }
inline unsigned word(const uint4 &v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// A thread block has 16 rows of b, and its warps take turns along them. Each product has 16 by 8 sums. The order of k
// is not mma's, but the same for both operands: each lane gets the columns that it has loaded.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM, RESIDENT)
	matvec_quantized(C *c, long long cRow, const bf16 *a, long long aRow, const unsigned char *b, const bf16 *bias,
		const bf16 *norm, float eps, int m, int n, int depth, int add, const bf16 *next, int lines,
		const int *offsets, int experts) {
#ifdef GROUPED
	waitForPrerequisites();
	int expert = 0, end = experts; // the pair's expert is one of these
	while (end - expert > 1) {
		const int middle = (expert + end) / 2;
		if (offsets[middle] <= (int)blockIdx.y) expert = middle;
		else end = middle;
	}
	a += blockIdx.y * aRow, c += blockIdx.y * cRow, b += (long long)expert * n * rowOf(depth);
#endif
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
	const int first = blockIdx.x * (GATED ? 8 : OUTPUTS), head = headOf(depth);
	const int lowRow = first + g, highRow = GATED ? n + lowRow : lowRow + 8;
	const bool lowThere = lowRow < n, highThere = GATED ? lowThere : highRow < n;
	const unsigned char *const lowFrom = b + lowRow * rowOf(depth), *const highFrom = b + highRow * rowOf(depth);
	float sums[4] = {};
	Part low, high; // rows g and g + 8 of the thread block's
	auto readRow = [&](Part &to, const unsigned char *from, bool there, int step) {
#pragma unroll
		for (int i = 0; i < AHEAD; i++) {
			const bool inside = (step + i) * STEP + (BITS == 8 ? 16 * t : 0) < depth;
			to.codes[i] = inside && there ? __ldcs((const uint4 *)(from + head + (step + i) * 64 + 16 * t)) : uint4();
		}
		if constexpr (BITS == 4) {
			const bool inside = step * STEP < depth && there;
			to.scales = inside ? __ldcs((const uint2 *)(from + 2 * step)) : uint2();
			if constexpr (ZEROS) {
				const unsigned char *zeros = from + padded(2 * groupsOf(depth));
				to.zeros = inside ? __ldcs((const unsigned *)(zeros + step)) : 0;
			}
		}
	};
	auto read = [&](int step) {
		readRow(low, lowFrom, lowThere, step);
		readRow(high, highFrom, highThere, step);
	};
	const int begin = warp * AHEAD, steps = (depth + STEP - 1) / STEP;
	read(begin); // weights, which no kernel of a graph writes
	const float lowScale = BITS == 8 && lowThere ? *(const float *)lowFrom : 0;
	const float highScale = BITS == 8 && highThere ? *(const float *)highFrom : 0;
	// the weights of the next layer, while memory is idle
	for (long long i = thread(); i < lines; i += gridDim.x * BLOCK_DIM) prefetchLine(next + 64 * i);
	launchDependents();
	waitForPrerequisites();
#if NORMED
	normalize(a, norm, depth, eps); // while the weights are on their way
#endif
	auto eight = [&](int k) { // elements of row g of a from k on
		if (k >= depth || g >= m) return uint4();
#if NORMED
		return row[k / 8];
#else
		return loadCachedOf<8>(a + g * aRow + k, 0).words[0];
#endif
	};
	for (int step = begin; step < steps; step += WARPS * AHEAD) {
		if (step > begin) read(step);
#pragma unroll
		for (int i = 0; i < AHEAD; i++) {
			const int k = (step + i) * STEP + 16 * t;
			const uint4 xs[2] = {eight(k), eight(k + 8)};
			if constexpr (BITS == 8) {
#pragma unroll
				for (int j = 0; j < 4; j++) {
					const unsigned u = word(low.codes[i], j), v = word(high.codes[i], j);
					const unsigned x = word(xs[j / 2], j % 2 * 2), y = word(xs[j / 2], j % 2 * 2 + 1);
					mma(sums, {pair8(u), pair8(v), pair8(u >> 8), pair8(v >> 8)}, {even(x, y), odd(x, y)});
				}
				continue;
			}
			const uint4 far[2] = {eight(k + 64), eight(k + 72)};
			const unsigned lowMinus = minusZero(ZEROS ? low.zeros >> 8 * i & 15 : 8);
			const unsigned highMinus = minusZero(ZEROS ? high.zeros >> 8 * i & 15 : 8);
			float group[4] = {};
#pragma unroll
			for (int j = 0; j < 4; j++) {
				const unsigned u = word(low.codes[i], j), v = word(high.codes[i], j);
				const unsigned x = word(xs[j / 2], j % 2 * 2), y = word(xs[j / 2], j % 2 * 2 + 1);
				const unsigned p = word(far[j / 2], j % 2 * 2), q = word(far[j / 2], j % 2 * 2 + 1);
				mma(group, {pair4(u, lowMinus), pair4(v, highMinus), pair4(u >> 4, lowMinus), pair4(v >> 4, highMinus)},
					{even(x, y), even(p, q)});
				mma(group,
					{pair4(u >> 8, lowMinus), pair4(v >> 8, highMinus), pair4(u >> 12, lowMinus), pair4(v >> 12, highMinus)},
					{odd(x, y), odd(p, q)});
			}
			const float s = f16Value(scale(low.scales, i)), r = f16Value(scale(high.scales, i));
			sums[0] += s * group[0];
			sums[1] += s * group[1];
			sums[2] += r * group[2];
			sums[3] += r * group[3];
		}
	}
	if constexpr (BITS == 8) sums[0] *= lowScale, sums[1] *= lowScale, sums[2] *= highScale, sums[3] *= highScale;
	finish(c, cRow, bias, sums, first, m, n, add);
}
