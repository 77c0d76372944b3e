// A few rows times quantized weights, as in decoding: c = a·bᵀ + bias, or added to c, for up to eight rows of a. It is
// matvec with other weights. Codes become BF16, which is exact, and the sum of a group's products is multiplied by its
// scale.
//
//   ONE     1: a is one row, which is in shared memory
//   NORMED  1: so, and its RMSNorm is multiplied
//   GATED   1: so, and c is SwiGLU of the sums of b's first n rows and of the n rows after them
//   GROUPED if it is defined: along y, a thread block has a row of a and c, and the n rows of b of that row's expert,
//           which has the rows of a from offsets[expert] to offsets[expert + 1]
//   RESIDENT  thread blocks of a multiprocessor, at least
#include "mma.cuh"
constexpr int PARITIES = 2;
#include "matvec.cuh"
#include "quantized.cuh"
#include "normed_row.cuh"

constexpr int STEP = BITS == 4 ? 128 : 64; // weights in 64 bytes of a row, which four lanes load at once
constexpr int AHEAD = 2;                   // such steps that a warp loads and multiplies at once: a turn
constexpr int STAGES = 2;                  // turns that are in flight or being multiplied
constexpr int EACH = GATED ? 8 : OUTPUTS;  // columns of c in a tile

// A Stage is what a warp has of two rows of b for a turn: codes, scales and zero points. Each lane reads what it has
// copied itself. In INT4 a scale is an F16 for each step, in INT8 an F32 for the row; zero points are bytes.
struct Stage {
	uint4 codes[AHEAD][2][32];
	unsigned scales[2][32];
#if ZEROS
	unsigned zeros[2][32];
#endif
};

// A word of codes yields pairs that are two bytes apart: even and odd return such pairs of four elements of a.
inline unsigned even(unsigned x, unsigned y) { return permute(x, y, 0x5410); }
inline unsigned odd(unsigned x, unsigned y) { return permute(x, y, 0x7632); }

// A Right has the operands of a word's products, two in INT4 and one in INT8: pairs of elements of a row of a.
struct __align__(BITS == 4 ? 16 : 8) Right {
	unsigned at[BITS == 4 ? 4 : 2];
};

// rightOf sorts the elements of a that belong to a word: four, and in INT4 the four that are 64 further.
inline Right rightOf(unsigned x, unsigned y, unsigned p, unsigned q) {
	constexpr bool FOUR = BITS == 4;
	Right r;
	r.at[0] = even(x, y), r.at[FOUR ? 2 : 1] = odd(x, y);
	if constexpr (FOUR) r.at[1] = even(p, q), r.at[3] = odd(p, q);
	return r;
}

#if ONE
// In shared memory, a has a Right for each step, word and lane of four, and in INT4 the sum of each group after them.
inline Right &rightAt(int step, int j, int t) { return ((Right *)row)[(step * 4 + j) * 4 + t]; }
inline float &sumOf(int step, int steps) { return ((float *)(row + steps * 16))[step]; }
inline int heldBytes(int steps) { return padded(steps * (2 * STEP + (BITS == 4 ? 4 : 0))); }

// place puts eight elements of a from k on to where they are needed.
inline void place(int k, uint4 eight) {
	const int step = k / STEP, within = k % 64;
	const bool far = k % STEP >= 64;
#pragma unroll
	for (int h = 0; h < 2; h++) {
		const unsigned x = h ? eight.z : eight.x, y = h ? eight.w : eight.y;
		Right &to = rightAt(step, within % 16 / 4 + h, within / 16);
		to.at[far] = even(x, y);
		to.at[BITS == 4 ? 2 + far : 1] = odd(x, y);
	}
}

// addGroups adds up the elements of each group of a, eight threads a group.
inline void addGroups(int steps) {
	for (int i = threadIdx.x; i < (steps * 8 + 31) / 32 * 32; i += BLOCK_DIM) {
		const int step = min(i / 8, steps - 1);
		float sum = 0;
#pragma unroll
		for (int h = 0; h < 2; h++) {
			const Vec<bf16, 8> x = loadCachedOf<8>((const bf16 *)row, step * 16 + i % 8 * 2 + h);
#pragma unroll
			for (int e = 0; e < 8; e++) sum += x[e];
		}
#pragma unroll
		for (int lanes = 1; lanes < 8; lanes *= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
		if (i % 8 == 0 && i / 8 < steps) sumOf(step, steps) = sum;
	}
}
#else
inline int heldBytes(int) { return 0; }
#endif

inline unsigned word(const uint4 &v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// A thread block has tiles of 16 rows of b, and its warps take turns along them. Each product has 16 by 8 sums. The
// order of k is not mma's, but the same for both operands: each lane gets the columns that it has loaded. While a warp
// multiplies one turn, the next ones are on their way to shared memory, also those of the next tile.
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

	// what is requested next: a turn from step on, of two rows of a tile
	int step = warp * AHEAD, tile = blockIdx.x;
	const unsigned char *from[2];
	auto rows = [&]() { // rows that do not exist are the last one again: nothing reads their sums
		const int low = min(tile * EACH + g, n - 1), high = GATED ? n + low : min(low + 8, n - 1);
		from[0] = b + low * rowOf(depth), from[1] = b + high * rowOf(depth);
	};
	auto request = [&](Stage &to) {
		const bool more = tile < tiles && step < steps;
#pragma unroll
		for (int h = 0; h < 2; h++) {
#pragma unroll
			for (int i = 0; i < AHEAD; i++) {
				const bool there = more && (step + i) * STEP + (BITS == 8 ? 16 * t : 0) < depth;
				copyAsync(&to.codes[i][h][lane], from[h] + head + (step + i) * 64 + 16 * t, there);
			}
			copyWord(&to.scales[h][lane], from[h] + (BITS == 8 ? 0 : 2 * step), more);
#if ZEROS
			copyWord(&to.zeros[h][lane], from[h] + padded(2 * groupsOf(depth)) + step / 4 * 4, more);
#endif
		}
		copyCommit();
		step += WARPS * AHEAD;
		if (step < steps) return;
		step = warp * AHEAD;
		tile += gridDim.x;
		rows();
	};
	Stage *const stages = (Stage *)((char *)row + heldBytes(steps)) + warp * STAGES;
	rows();
	for (int i = 0; i < STAGES; i++) request(stages[i]); // weights, which no kernel of a graph writes
	// the weights of the next layer, while memory is idle
	for (long long i = thread(); i < lines; i += gridDim.x * BLOCK_DIM) prefetchLine(next + 64 * i);
	launchDependents();
	waitForPrerequisites();
#if ONE // while the weights are on their way
	for (int k = 8 * (depth / 8 + threadIdx.x); k < steps * STEP; k += 8 * BLOCK_DIM) place(k, uint4());
#if NORMED
	normalize(a, norm, depth, eps, [](int k, uint4 eight) { place(k, eight); });
#else
	for (int k = 8 * threadIdx.x; k < depth; k += 8 * BLOCK_DIM) place(k, loadCachedOf<8>(a + k, 0).words[0]);
#endif
	__syncthreads();
	if constexpr (BITS == 4) {
		addGroups(steps);
		__syncthreads();
	}
#else
	auto eight = [&](int k) { // elements of row g of a from k on
		return k < depth && g < m ? loadCachedOf<8>(a + g * aRow + k, 0).words[0] : uint4();
	};
#endif
	int stage = 0;
	for (int now = blockIdx.x, parity = 0; now < tiles; now += gridDim.x, parity ^= 1) {
		float sums[4] = {};
		unsigned lowScale = 0, highScale = 0; // of INT8
		int k = warp * AHEAD;
		do {
			copyWait<STAGES - 1>();
			Stage &mine = stages[stage];
			const unsigned lowScales = mine.scales[0][lane], highScales = mine.scales[1][lane];
#if ZEROS
			const int aside = k % 4 * 8; // four zero points are copied
			const unsigned lowZeros = mine.zeros[0][lane] >> aside, highZeros = mine.zeros[1][lane] >> aside;
#endif
#pragma unroll
			for (int i = 0; i < AHEAD; i++) {
				if (k + i >= steps) break;
				const uint4 lowCodes = mine.codes[i][0][lane], highCodes = mine.codes[i][1][lane];
#if ONE
				auto right = [&](int j) { return rightAt(k + i, j, t); };
#else
				const int at = (k + i) * STEP + 16 * t;
				const uint4 near[2] = {eight(at), eight(at + 8)};
				const uint4 far[2] = {BITS == 4 ? eight(at + 64) : uint4(), BITS == 4 ? eight(at + 72) : uint4()};
				auto right = [&](int j) {
					const uint4 x = near[j / 2], y = far[j / 2];
					return j % 2 ? rightOf(x.z, x.w, y.z, y.w) : rightOf(x.x, x.y, y.x, y.y);
				};
#endif
				if constexpr (BITS == 8) {
#pragma unroll
					for (int j = 0; j < 4; j++) {
						const unsigned u = word(lowCodes, j), v = word(highCodes, j);
						const Right x = right(j);
						mma(sums, {pair8(u), pair8(v), pair8(u >> 8), pair8(v >> 8)}, {x.at[0], x.at[1]});
					}
					continue;
				}
#if ZEROS
				const unsigned lowZero = lowZeros >> 8 * i & 15, highZero = highZeros >> 8 * i & 15;
#else
				constexpr unsigned lowZero = 8, highZero = 8;
#endif
				// One row's codes are multiplied as 128 + code, and what is too much is subtracted from the sum.
				auto pair = [&](unsigned codes, unsigned zero) { return ONE ? pairAbove(codes) : pair4(codes, minusZero(zero)); };
				float group[4] = {}, other[4] = {};
#pragma unroll
				for (int j = 0; j < 4; j++) {
					const unsigned u = word(lowCodes, j), v = word(highCodes, j);
					const Right x = right(j);
					mma(group, {pair(u, lowZero), pair(v, highZero), pair(u >> 4, lowZero), pair(v >> 4, highZero)},
						{x.at[0], x.at[1]});
					mma(other, {pair(u >> 8, lowZero), pair(v >> 8, highZero), pair(u >> 12, lowZero), pair(v >> 12, highZero)},
						{x.at[2], x.at[3]});
				}
				const float s = f16Value(lowScales >> 16 * i & 0xFFFF), r = f16Value(highScales >> 16 * i & 0xFFFF);
#if ONE
				const float sum = sumOf(k + i, steps);
				group[0] -= (128 + lowZero) * sum, group[1] -= (128 + lowZero) * sum;
				group[2] -= (128 + highZero) * sum, group[3] -= (128 + highZero) * sum;
#endif
				sums[0] += s * (group[0] + other[0]);
				sums[1] += s * (group[1] + other[1]);
				sums[2] += r * (group[2] + other[2]);
				sums[3] += r * (group[3] + other[3]);
			}
			if constexpr (BITS == 8) lowScale = lowScales, highScale = highScales;
			request(mine);
			stage = stage + 1 < STAGES ? stage + 1 : 0;
			k += WARPS * AHEAD;
		} while (k < steps);
		if constexpr (BITS == 8) {
			const float s = __uint_as_float(lowScale), r = __uint_as_float(highScale);
			sums[0] *= s, sums[1] *= s, sums[2] *= r, sums[3] *= r;
		}
		finish(c, cRow, bias, sums, now * EACH, m, n, add, parity);
	}
}
