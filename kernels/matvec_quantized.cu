// A few rows times quantized weights, as in decoding: c = a·bᵀ + bias, or added to c, for up to eight rows of a. It is
// matvec with other weights. Codes become BF16, which is exact, and the sum of a group's products is multiplied by its
// scale.
//
//   NORMED  1: a is one row, and its RMSNorm is multiplied
//   GATED   1: a is one row, and c is SwiGLU of the sums of b's first n rows and of the n rows after them
//   GROUPED if it is defined: along y, a thread block has a row of a and c, and the n rows of b of that row's expert,
//           which has the rows of a from offsets[expert] to offsets[expert + 1]
//   RESIDENT  thread blocks of a multiprocessor, at least
#include "mma.cuh"
constexpr int PARITIES = 2;
#include "matvec.cuh"
#include "quantized.cuh"
#if NORMED
#include "normed_row.cuh"
#endif

constexpr int STEP = BITS == 4 ? 128 : 64; // weights in 64 bytes of a row, which four lanes load at once
constexpr int AHEAD = 4;                   // such steps that are in flight
constexpr int EACH = GATED ? 8 : OUTPUTS;  // columns of c in a tile

// A Part is what a thread has of a row of b: codes, and the scales and zero points of their groups. In INT8 a row has
// one scale, an F32.
struct Scales {
	uint2 four;
	unsigned zeros;
};
struct Part {
	uint4 codes[AHEAD];
	Scales scales;
};

// A word of codes yields pairs that are two bytes apart: even and odd return such pairs of four elements of a.
inline unsigned even(unsigned x, unsigned y) { return permute(x, y, 0x5410); }
inline unsigned odd(unsigned x, unsigned y) { return permute(x, y, 0x7632); }

inline unsigned scale(uint2 four, int i) { return (i < 2 ? four.x : four.y) >> i % 2 * 16 & 0xFFFF; }
inline unsigned word(const uint4 &v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// A thread block has tiles of 16 rows of b, and its warps take turns along them. Each product has 16 by 8 sums. The
// order of k is not mma's, but the same for both operands: each lane gets the columns that it has loaded. As soon as it
// has multiplied a word of codes, it loads the one that comes AHEAD steps later, or that of its next tile.
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
	const int tiles = (n + EACH - 1) / EACH, head = headOf(depth), steps = (depth + STEP - 1) / STEP;

	// what is loaded: steps from step on, of two rows
	int step = warp * AHEAD, tile = blockIdx.x;
	const unsigned char *lowFrom, *highFrom;
	auto turn = [&]() { // rows that do not exist are the last one again: nothing reads their sums
		const int lowRow = min(tile * EACH + g, n - 1), highRow = GATED ? n + lowRow : min(lowRow + 8, n - 1);
		lowFrom = b + lowRow * rowOf(depth), highFrom = b + highRow * rowOf(depth);
	};
	auto readCodes = [&](uint4 &to, const unsigned char *from, int i) {
		const bool inside = tile < tiles && (step + i) * STEP + (BITS == 8 ? 16 * t : 0) < depth;
		to = inside ? __ldcs((const uint4 *)(from + head + (step + i) * 64 + 16 * t)) : uint4();
	};
	auto readScales = [&](Scales &to, const unsigned char *from) {
		const bool inside = tile < tiles && step * STEP < depth;
		if constexpr (BITS == 8) {
			to.four.x = inside ? *(const unsigned *)from : 0;
		} else {
			to.four = inside ? __ldcs((const uint2 *)(from + 2 * step)) : uint2();
			if constexpr (ZEROS) {
				to.zeros = inside ? __ldcs((const unsigned *)(from + padded(2 * groupsOf(depth)) + step)) : 0;
			}
		}
	};
	Part low, high; // rows g and g + 8 of the tile
	turn();
#pragma unroll
	for (int i = 0; i < AHEAD; i++) { // weights, which no kernel of a graph writes
		readCodes(low.codes[i], lowFrom, i);
		readCodes(high.codes[i], highFrom, i);
	}
	readScales(low.scales, lowFrom);
	readScales(high.scales, highFrom);
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
	for (int parity = 0; tile < tiles; parity ^= 1) {
		const int first = tile * EACH;
		float sums[4] = {};
		for (bool more = true; more;) {
			const int from = step;
			const Scales lowScales = low.scales, highScales = high.scales;
			step += WARPS * AHEAD;
			more = step < steps;
			if (!more) {
				step = warp * AHEAD;
				tile += gridDim.x;
				turn();
			}
			readScales(low.scales, lowFrom);
			readScales(high.scales, highFrom);
#pragma unroll
			for (int i = 0; i < AHEAD; i++) {
				const uint4 lowCodes = low.codes[i], highCodes = high.codes[i];
				readCodes(low.codes[i], lowFrom, i);
				readCodes(high.codes[i], highFrom, i);
				const int k = (from + i) * STEP + 16 * t;
				const uint4 xs[2] = {eight(k), eight(k + 8)};
				if constexpr (BITS == 8) {
#pragma unroll
					for (int j = 0; j < 4; j++) {
						const unsigned u = word(lowCodes, j), v = word(highCodes, j);
						const unsigned x = word(xs[j / 2], j % 2 * 2), y = word(xs[j / 2], j % 2 * 2 + 1);
						mma(sums, {pair8(u), pair8(v), pair8(u >> 8), pair8(v >> 8)}, {even(x, y), odd(x, y)});
					}
					continue;
				}
				const uint4 far[2] = {eight(k + 64), eight(k + 72)};
				const unsigned lowMinus = minusZero(ZEROS ? lowScales.zeros >> 8 * i & 15 : 8);
				const unsigned highMinus = minusZero(ZEROS ? highScales.zeros >> 8 * i & 15 : 8);
				float group[4] = {};
#pragma unroll
				for (int j = 0; j < 4; j++) {
					const unsigned u = word(lowCodes, j), v = word(highCodes, j);
					const unsigned x = word(xs[j / 2], j % 2 * 2), y = word(xs[j / 2], j % 2 * 2 + 1);
					const unsigned p = word(far[j / 2], j % 2 * 2), q = word(far[j / 2], j % 2 * 2 + 1);
					mma(group, {pair4(u, lowMinus), pair4(v, highMinus), pair4(u >> 4, lowMinus), pair4(v >> 4, highMinus)},
						{even(x, y), even(p, q)});
					mma(group,
						{pair4(u >> 8, lowMinus), pair4(v >> 8, highMinus), pair4(u >> 12, lowMinus),
							pair4(v >> 12, highMinus)},
						{odd(x, y), odd(p, q)});
				}
				const float s = f16Value(scale(lowScales.four, i)), r = f16Value(scale(highScales.four, i));
				sums[0] += s * group[0];
				sums[1] += s * group[1];
				sums[2] += r * group[2];
				sums[3] += r * group[3];
			}
			if constexpr (BITS == 8) {
				if (more) continue;
				const float s = __uint_as_float(lowScales.four.x), r = __uint_as_float(highScales.four.x);
				sums[0] *= s, sums[1] *= s, sums[2] *= r, sums[3] *= r;
			}
		}
		finish(c, cRow, bias, sums, first, m, n, add, parity);
	}
}
