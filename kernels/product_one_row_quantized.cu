// A few rows times quantized weights, as in decoding: c = a·bᵀ + bias, or added to c, for up to eight rows of a. It is
// matvec with other weights. Codes become BF16, which is exact, and the sum of a group's products is multiplied by its
// scale. NF4's become values, rounded to BF16.
//
// What the four lanes of a row have loaded is of several fine groups, whose sums must stay apart. So mma's eight rows
// of a are fewer rows, once for each of these groups, with zeros where the other groups are. The sums that a lane then
// gets are those of the group that it has codes of, and which its scale multiplies. Further rows of a take another pass
// over the weights, from the cache. Offsets multiply sums of a, which are those of products with ones.
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
constexpr bool ROOM = !OFFSETS && !HIGH; // in registers, for the activations of several steps

// lanes of a row that have codes of the same group, and rows of a that are multiplied at once
constexpr int LANES = FINE ? GROUP / 16 : 4, ROWS = 2 * LANES;

// A Part is what a thread has of a row of b: codes, and the scales and zero points of their groups. Of fine groups, a
// lane has the scales and offsets of one of the steps, and some of the high bits of codes, which it passes to others.
struct Part {
	uint4 codes[AHEAD];
	uint2 scales, offsets;
	uint4 floats[2]; // the scales of NF4: two per step
	unsigned zeros, units, offsetUnits;
	uint4 high[HIGH ? HIGH : 1];
};

// A word of codes yields pairs that are two bytes apart: even and odd return such pairs of four elements of a.
inline unsigned even(unsigned x, unsigned y) { return permute(x, y, 0x5410); }
inline unsigned odd(unsigned x, unsigned y) { return permute(x, y, 0x7632); }

inline f16 scale(uint2 four, int i) { return {(unsigned short)((i < 2 ? four.x : four.y) >> i % 2 * 16)}; }
inline unsigned word(const uint4 &v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }
inline float nf4Scale(const Part &of, int i) { return __uint_as_float(word(of.floats[i / 4], i % 4)); }

#if FINE
constexpr int STEP_BYTES = STEP / GROUP * SCALE_BYTES; // of the scales of a step, 4 or 8

// readStep reads the scales or the offsets of a step.
inline uint2 readStep(const unsigned char *numbers, int step) {
	if constexpr (STEP_BYTES == 8) return __ldcs((const uint2 *)numbers + step);
	return {__ldcs((const unsigned *)numbers + step), 0};
}

// readFine reads what a Part has of fine groups for steps from step on, a multiple of AHEAD, of so many.
inline void readFine(Part &to, const unsigned char *from, int step, int steps, int depth) {
	const int t = threadIdx.x % 4;
	to.scales = to.offsets = uint2();
	if (step + t < steps) {
		to.scales = readStep(from, step + t);
		if (OFFSETS) to.offsets = readStep(from + offsetsAt(depth), step + t);
	}
	if (UNIT) { // two steps share one
		to.units = __ldcs((const unsigned *)(from + unitsAt(depth) + step));
		if (OFFSETS) to.offsetUnits = __ldcs((const unsigned *)(from + offsetUnitsAt(depth) + step));
	}
#pragma unroll
	for (int i = 0; i < HIGH; i++) {
		const int word = step * HIGH + 4 * i + t;
		to.high[i] = uint4();
		if (word < steps * HIGH) to.high[i] = __ldcs((const uint4 *)(from + headOf(depth) + lowBytes(depth)) + word);
	}
}

// fineHigh returns the high bits of the codes in word j of a lane's codes of step i.
inline unsigned fineHigh(const Part &of, int i, int j) {
	if constexpr (HIGH == 0) return 0;
	const int at = 16 * (threadIdx.x % 4); // first of the near codes
	const unsigned words = word(of.high[i * HIGH / 4], j);
	return __shfl_sync(~0u, words, i * HIGH % 4 + highByte(at) / 16, 4) >> highShift(at);
}

// finePair returns two of four codes minus that of zero, as BF16: the first ones, or the last.
inline unsigned finePair(unsigned four, int last) {
	return addPairs(permute(four, 0x43434343, last ? 0x4342 : 0x4140), 0x3F803F80, minusZero(ZERO));
}

// fineNumbers returns the scales or the offsets of a lane's codes of step i: of the near ones, the low four bits of
// bytes, and of the far ones.
struct Numbers { float at[2]; };
inline Numbers fineNumbers(uint2 steps, unsigned units, int i) {
	const int shift = threadIdx.x % 4 / LANES * SCALE_BYTES * 8;
	const unsigned near = __shfl_sync(~0u, steps.x, i, 4);
	const unsigned far = STEP_BYTES == 8 ? __shfl_sync(~0u, steps.y, i, 4) : near >> 16;
	auto number = [&](unsigned bits) {
		if (!UNIT) return value(f16{(unsigned short)bits});
		return (signed char)bits * value(f16{(unsigned short)(units >> i / 2 * 16)});
	};
	return {number(near >> shift), BITS == 8 ? 0 : number(far >> shift)};
}

// multiplyFine adds up the products of the weights of step i of two rows.
inline void multiplyFine(float (&sums)[4], const Part &low, const Part &high, int i, const uint4 *xs, Masks is) {
	constexpr unsigned ONES = 0x3F803F80;
	float products[2][4] = {}, ofOnes[2][4] = {};
#pragma unroll
	for (int j = 0; j < 4; j++) {
		const unsigned u = word(low.codes[i], j), v = word(high.codes[i], j);
		const unsigned uHigh = fineHigh(low, i, j), vHigh = fineHigh(high, i, j);
#pragma unroll
		for (int far = 0; far < (BITS == 8 ? 1 : 2); far++) {
			const unsigned x = word(xs[2 * far + j / 2], j % 2 * 2), y = word(xs[2 * far + j / 2], j % 2 * 2 + 1);
			if constexpr (BITS == 8) {
				mma(products[j % 2], {pair8(u, is), pair8(v, is), pair8(u >> 8, is), pair8(v >> 8, is)},
					{even(x, y), odd(x, y)});
			} else {
				const unsigned p = fourCodes(u, uHigh, far), q = fourCodes(v, vHigh, far);
				mma(products[far], {finePair(p, 0), finePair(q, 0), finePair(p, 1), finePair(q, 1)}, {x, y});
			}
			if (OFFSETS) mma(ofOnes[far], {ONES, ONES, ONES, ONES}, {x, y});
		}
	}
#pragma unroll
	for (int e = 0; e < 4; e += 2) {
		const Part &of = e < 2 ? low : high;
		const Numbers scales = fineNumbers(of.scales, of.units, i);
		Numbers offsets;
		if (OFFSETS) offsets = fineNumbers(of.offsets, of.offsetUnits, i);
#pragma unroll
		for (int k = 0; k < 4; k++) {
			const int far = k / 2, c = e + k % 2;
			sums[c] += scales.at[BITS == 8 ? 0 : far] * products[far][c];
			if (OFFSETS) sums[c] += offsets.at[far] * ofOnes[far][c];
		}
	}
}
#endif

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
	const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
	int warp = threadIdx.x / 32;
	if (FINE) warp = __shfl_sync(~0u, warp, 0); // the compiler must see that all lanes pass each other what they have
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
#if FINE
		if (step * STEP < depth) readFine(to, from, step, (depth + STEP - 1) / STEP, depth);
		return;
#endif
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
	constexpr bool ONE_SCALE = BITS == 8 && !FINE; // of a row
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
#elif !FINE
	a += min(g, m - 1) * aRow;
#endif
	int pass = 0; // which ROWS of a are multiplied
	constexpr int XS = BITS == 8 ? 2 : 4; // words of a that a lane's codes of a step are multiplied by
	struct Xs { uint4 at[XS]; };
	auto load = [&](int step, bool whole) {
		Xs xs;
#pragma unroll
		for (int j = 0; j < XS; j++) {
			const int k = step * STEP + 16 * t + j / 2 * 64 + j % 2 * 8;
			xs.at[j] = uint4();
			if (!whole && k >= depth || FINE && g / ROWS != t / LANES) continue;
#if NORMED
			xs.at[j] = row[k / 8];
#elif FINE
			xs.at[j] = loadCachedOf<8>(a + min(pass * ROWS + g % ROWS, m - 1) * aRow + k, 0).words[0];
#else
			xs.at[j] = loadCachedOf<8>(a + k, 0).words[0];
#endif
		}
		return xs;
	};
	const Masks is(depth);
	// multiply adds up the products of a step's weights, in two sums, of which one need not wait for the other.
	float sums[4] = {};
	auto multiply = [&](const uint4 &lows, const uint4 &highs, const Xs &xs, int i) {
#if FINE
		multiplyFine(sums, low, high, i, xs.at, is);
		return;
#endif
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
	float all[4] = {};
#pragma unroll 1
	do {
		for (int step = begin; step < steps; step += WARPS * AHEAD) {
			if (step > begin || pass > 0) read(step);
			if (ROOM && (step + AHEAD) * STEP <= depth) { // nothing to check, so all loads can start early
#pragma unroll
				for (int i = 0; i < AHEAD; i++) multiply(low.codes[i], high.codes[i], load(step + i, true), i);
				continue;
			}
#pragma unroll
			for (int i = 0; i < AHEAD; i++) {
				if ((step + i) * STEP < depth) multiply(low.codes[i], high.codes[i], load(step + i, false), i);
			}
		}
		// The lanes that have other groups of the same rows of a add up their sums. Each keeps those of one pass.
#pragma unroll
		for (int e = 0; e < 4; e++) {
#pragma unroll
			for (int i = LANES; i < 4; i *= 2) sums[e] += __shfl_xor_sync(~0u, sums[e], i);
			if (t / LANES == pass) all[e] = sums[e];
			sums[e] = 0;
		}
	} while (FINE && ++pass * ROWS < m);
	if constexpr (ONE_SCALE) all[0] *= lowScale, all[1] *= lowScale, all[2] *= highScale, all[3] *= highScale;
	if (PAIR) addPair(all, a2, a2Row, b2, b2Row, m, lowRow, highRow, true, true, depth2);
	finish(c, cRow, bias, all, first, m, n, add);
}
