// A few rows times quantized weights, as in decoding: c = a·bᵀ + bias, or added to c, for up to eight rows of a. It is
// matvec with other weights. Codes become BF16, which is exact, and the sum of a group's products is multiplied by its
// scale. NF4's become values, rounded to BF16.
//
// product_one_row_fine.cu has weights with fine groups.
//
//   NORMED  1: a is one row, and its RMSNorm is multiplied
//   GATED   1: a is one row, and c is SwiGLU of the sums of b's first n rows and of the n rows after them
#include "mma.cuh"
#include "matvec.cuh"
#include "quantized.cuh"
#if NORMED
#include "normed_row.cuh"
#endif

constexpr int STEP = BITS == 8 ? 64 : 128; // weights in 64 bytes of a row, which four lanes load at once
constexpr int AHEAD = 4;                   // such steps that are in flight
// Thread blocks of a multiprocessor, at least. With fewer registers, less of a turn is loaded before it is multiplied.
constexpr int RESIDENT = BLOCK_DIM < 64 ? 8 : 512 / BLOCK_DIM;

// A Part is what a thread has of a row of b: codes, and the scales and zero points of their groups.
struct Part {
	uint4 codes[AHEAD];
	uint2 scales;
	uint4 floats[2]; // the scales of NF4: two per step
	unsigned zeros;
};

// A word of codes yields pairs that are two bytes apart: even and odd return such pairs of four elements of a.
inline unsigned even(unsigned x, unsigned y) { return permute(x, y, 0x5410); }
inline unsigned odd(unsigned x, unsigned y) { return permute(x, y, 0x7632); }

inline f16 scale(uint2 four, int i) { return {(unsigned short)((i < 2 ? four.x : four.y) >> i % 2 * 16)}; }
inline unsigned word(const uint4 &v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }
inline float nf4Scale(const Part &of, int i) { return __uint_as_float(word(of.floats[i / 4], i % 4)); }

// A thread block has 16 rows of b, and its warps take turns along them. Each product has 16 by 8 sums. The order of k
// is not mma's, but the same for both operands: each lane gets the columns that it has loaded.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM, RESIDENT)
	matvec_quantized(C *c, long long cRow, const bf16 *a, long long aRow, const unsigned char *b, const bf16 *bias,
		const bf16 *norm, float eps, int m, int n, int depth, int add, const bf16 *next, int lines,
		const int *offsets, int experts, const bf16 *a2, long long a2Row, const bf16 *b2, long long b2Row, int depth2) {
#ifdef GROUPED
	waitForPrerequisites();
	a += blockIdx.y * aRow, c += blockIdx.y * cRow;
	b += (long long)expertOf(blockIdx.y, offsets, experts) * n * rowOf(depth);
#endif
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
	const int first = blockIdx.x * (GATED ? 8 : OUTPUTS), head = headOf(depth);
	// Rows of a and b that do not exist are read as the last ones that do: nobody needs their sums.
	const int lowRow = min(first + g, n - 1), highRow = GATED ? n + lowRow : min(first + g + 8, n - 1);
	const unsigned char *const lowFrom = b + lowRow * rowOf(depth), *const highFrom = b + highRow * rowOf(depth);
	Part low, high; // rows g and g + 8 of the thread block's
	auto readRow = [&](Part &to, const unsigned char *from, int step) {
#pragma unroll
		for (int i = 0; i < AHEAD; i++) {
			const bool inside = (step + i) * STEP + (BITS == 8 ? 16 * t : 0) < depth;
			if (inside) to.codes[i] = __ldcs((const uint4 *)(from + head + (step + i) * 64 + 16 * t));
			else if (BITS == 8) to.codes[i] = uint4();
		}
		if constexpr (BITS == 4) {
			if (step * STEP >= depth) return;
#if TABLE
			for (int i = 0; i < 2; i++) to.floats[i] = __ldcs((const uint4 *)(from + 8 * step) + i);
			return;
#endif
			to.scales = __ldcs((const uint2 *)(from + 2 * step));
			if constexpr (ZEROS) to.zeros = __ldcs((const unsigned *)(from + zerosAt(depth) + step));
		}
	};
	auto read = [&](int step) {
		readRow(low, lowFrom, step);
		readRow(high, highFrom, step);
	};
	const int begin = warp * AHEAD, steps = (depth + STEP - 1) / STEP;
	read(begin); // weights, which no kernel of a graph writes
	constexpr bool ONE_SCALE = BITS == 8; // of a row
	const float lowScale = ONE_SCALE ? *(const float *)lowFrom : 0, highScale = ONE_SCALE ? *(const float *)highFrom : 0;
	// the weights of the next layer, while memory is idle
	for (long long i = thread(); i < lines; i += gridDim.x * BLOCK_DIM) prefetchLine(next + 64 * i);
	launchDependents();
#if TABLE
	copyTable();
#endif
	waitForPrerequisites();
#if NORMED
	normalize(a, norm, depth, eps); // while the weights are on their way
#else
	a += min(g, m - 1) * aRow;
#endif
	constexpr int XS = BITS == 8 ? 2 : 4; // words of a that a lane's codes of a step are multiplied by
	struct Xs { uint4 at[XS]; };
	auto load = [&](int step, bool whole) {
		Xs xs;
#pragma unroll
		for (int j = 0; j < XS; j++) {
			const int k = step * STEP + 16 * t + j / 2 * 64 + j % 2 * 8;
			xs.at[j] = uint4();
			if (!whole && k >= depth) continue;
#if NORMED
			xs.at[j] = row[k / 8];
#else
			xs.at[j] = loadCachedOf<8>(a + k, 0).words[0];
#endif
		}
		return xs;
	};
	const Masks is(depth);
	// multiply adds up the products of a step's weights, in two sums, one of which need not wait for the other.
	float sums[4] = {};
	auto multiply = [&](const uint4 &lows, const uint4 &highs, const Xs &xs, int i) {
		float half[2][4] = {};
		const unsigned lowMinus = minusZero(ZEROS ? low.zeros >> 8 * i & 15 : 8);
		const unsigned highMinus = minusZero(ZEROS ? high.zeros >> 8 * i & 15 : 8);
#pragma unroll
		for (int j = 0; j < 4; j++) {
			const unsigned u = word(lows, j), v = word(highs, j);
			const unsigned x = word(xs.at[j / 2], j % 2 * 2), y = word(xs.at[j / 2], j % 2 * 2 + 1);
			if constexpr (BITS == 8) {
				mma(half[j % 2], {pair8(u, is), pair8(v, is), pair8(u >> 8, is), pair8(v >> 8, is)}, {even(x, y), odd(x, y)});
				continue;
			}
			const uint4 &far = xs.at[XS / 2 + j / 2];
			const unsigned p = word(far, j % 2 * 2), q = word(far, j % 2 * 2 + 1);
#if TABLE
			const float a = nf4Scale(low, 2 * i), b = nf4Scale(high, 2 * i);
			const float c = nf4Scale(low, 2 * i + 1), d = nf4Scale(high, 2 * i + 1);
			mma(half[0], {pairOf(u, a), pairOf(v, b), pairOf(u >> 4, c), pairOf(v >> 4, d)}, {even(x, y), even(p, q)});
			mma(half[1], {pairOf(u >> 8, a), pairOf(v >> 8, b), pairOf(u >> 12, c), pairOf(v >> 12, d)},
				{odd(x, y), odd(p, q)});
			continue;
#endif
			mma(half[0], {pair4(u, lowMinus, is), pair4(v, highMinus, is), pair4(u >> 4, lowMinus, is),
				pair4(v >> 4, highMinus, is)}, {even(x, y), even(p, q)});
			mma(half[1], {pair4(u >> 8, lowMinus, is), pair4(v >> 8, highMinus, is), pair4(u >> 12, lowMinus, is),
				pair4(v >> 12, highMinus, is)}, {odd(x, y), odd(p, q)});
		}
		constexpr bool SCALED = BITS == 4 && !TABLE;
		const float s = SCALED ? value(scale(low.scales, i)) : 1, r = SCALED ? value(scale(high.scales, i)) : 1;
#pragma unroll
		for (int e = 0; e < 4; e++) sums[e] += (e < 2 ? s : r) * (half[0][e] + half[1][e]);
	};
	for (int step = begin; step < steps; step += WARPS * AHEAD) {
		if (step > begin) read(step);
		if ((step + AHEAD) * STEP <= depth) { // nothing to check, so all loads can start early
#pragma unroll
			for (int i = 0; i < AHEAD; i++) multiply(low.codes[i], high.codes[i], load(step + i, true), i);
			continue;
		}
#pragma unroll
		for (int i = 0; i < AHEAD; i++) {
			if ((step + i) * STEP < depth) multiply(low.codes[i], high.codes[i], load(step + i, false), i);
		}
	}
	if constexpr (ONE_SCALE) sums[0] *= lowScale, sums[1] *= lowScale, sums[2] *= highScale, sums[3] *= highScale;
	if (PAIR) addPair(sums, g < m ? a2 + g * a2Row : nullptr, b2, b2Row, lowRow, highRow, true, true, depth2);
	finish(c, cRow, bias, sums, first, m, n, add);
}
