// A few rows times weights with fine groups, as in decoding: c = a·bᵀ + bias, or added to c, for up to eight rows of a.
// With the scale s, the offset o and the zero point z of a group, whose elements of a row of a are x,
//
//	c = Σ (s·Σ(code - z)·x + o·Σx) = Σ (s·(Σ(base + code)·x - (base + z)·Σx) + o·Σx)
//
// If base is 2^BITS, BF16 of base + code are the bits of base with the code at the upper end of the mantissa: nothing
// has to be subtracted from each code. Σx is the same for all rows of b, so it is computed once. Codes of 8 bits become
// BF16 themselves.
//
// A warp multiplies turns: two steps of 16 rows of b. A lane has two words of the codes of step t / 2, so mma's four
// lanes have several groups, whose sums must stay apart. So mma's eight rows of a are one or two, once for each of
// these groups, with zeros where the other groups are. Then each lane gets the sums of a few groups of two rows of b,
// and only it needs their scales:
//
//   groups of 32   lane t gets the groups 2t and 2t + 1 of the eight of a turn; of 8-bit codes, even lanes get the
//                  groups t and t + 1 of four
//   groups of 16   lane t gets the groups 8·(t / 2) + t % 2 + (0, 2, 4, 6)
//
// A thread block computes a tile of 16 columns of c after the other, so that it prepares a once, and the weights of the
// next tile are on their way while this one is multiplied and added up. The order of k is not mma's, but the same for
// both operands, and for every grid.
//
//   DEPTH   elements of a row, so that its parts are at constant distances
//   ROWS    rows of a that are multiplied at once: 1, or of groups of 32, 2 if there are more. The others take more
//           passes over the weights
//   NORMED  1: a is one row, and its RMSNorm is multiplied
//   GATED   1: a is one row, and c is SwiGLU of the sums of b's first n rows and of the n rows after them
#include "mma.cuh"
#include "matvec.cuh"
#include "quantized.cuh"
#include "normed_row.cuh"

constexpr int RESIDENT = BLOCK_DIM < 64 ? 8 : 512 / BLOCK_DIM; // thread blocks of a multiprocessor, at least
constexpr int AHEAD = 2;                                       // turns that are in registers
constexpr int STEP = BITS == 8 ? 64 : 128, TURN = 2 * STEP; // weights in 64 and in 128 bytes of a row
constexpr int LANE_GROUPS = GROUP == 16 ? 4 : 2;             // whose sums a lane gets
constexpr int BASE = BITS == 8 ? 0 : (1 << BITS) + ZERO;     // what is subtracted from codes as BF16
constexpr int TURN_SUMS = TURN / GROUP;
constexpr int STEPS = (DEPTH + STEP - 1) / STEP, TURNS = (STEPS + 1) / 2;
constexpr int SLOTS = TURNS > WARPS && ROWS == 1 ? AHEAD : 1; // registers for turns
constexpr unsigned HALF = 0x3F80 + (BITS << 7);              // 2^BITS as BF16

// A Part is what a lane has of a turn of a row of b. With groups of 16, scales are a whole step's.
struct Part {
	uint4 codes[2], high;
	int scales[LANE_GROUPS / 2], offsets;
	unsigned short units, offsetUnits;
};
template <int BYTES> struct Pair { typedef int type; };
template <> struct Pair<2> { typedef short type; };
typedef Pair<2 * SCALE_BYTES>::type Two; // numbers

inline unsigned word(const uint4 &v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }
inline float valueOf(unsigned bits) { return value(f16{(unsigned short)bits}); }
inline unsigned even(unsigned x, unsigned y) { return permute(x, y, 0x5410); }
inline unsigned odd(unsigned x, unsigned y) { return permute(x, y, 0x7632); }

// numberAt returns a scale or an offset, of group i of a lane.
inline float numberAt(int numbers, int i) {
	if (!UNIT) return valueOf(numbers >> 16 * i);
	return GROUP == 16 || i == 0 ? (signed char)(numbers >> 16 * i) : numbers >> 8;
}

// select returns a & mask | b, as one instruction.
inline unsigned select(unsigned a, unsigned mask, unsigned b) {
#ifdef EMULATED
	return a & mask | b;
#else
	unsigned y;
	asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(y) : "r"(a), "r"(mask), "r"(b));
	return y;
#endif
}

// fourBytes returns four codes as the lower halves of 2^BITS + code: the codes of the low four bits of low's bytes or,
// if far is set, of the high ones. high has the other bits, after shift of them. An instruction has room for one
// constant, so mask, FOUR_BITS, is in a register.
constexpr int AT = BITS == 8 ? 0 : 7 - BITS; // the lowest bit of a code
constexpr unsigned FOUR_BITS = 0x0F0F0F0Fu << AT;
inline unsigned fourBytes(unsigned low, unsigned high, int far, int shift, unsigned mask) {
	const unsigned bits = select(far ? low >> (4 - AT) : low << AT, mask, (HALF & 0xFF) * 0x01010101u);
	if constexpr (HIGH == 0) return bits;
	const int up = 4 + AT - shift;
	return select(up > 0 ? high << up : high >> -up, HIGH == 1 ? 0x40404040 : 0x60606060, bits);
}

// pairAt returns the first two of them as BF16, or the last.
inline unsigned pairAt(unsigned four, int last) {
	return permute(four, HALF >> 8, last ? 0x4342 : 0x4140);
}

// A Row is what a lane prepares of a row of a: 16 bytes of each of its warp's turns.
struct Row { Vec<bf16, 8> of[(TURNS + WARPS - 1) / WARPS]; };

// forTurns calls f for each of the warp's turns, and the lane's place in them: the i'th, and vector k of a row.
template <typename F> inline void forTurns(F f) {
#pragma unroll
	for (int i = 0; i < sizeof(Row) / 16; i++) {
		const int turn = threadIdx.x / 32 + i * WARPS;
		if (turn < TURNS) f(i, turn, turn * (TURN / 8) + threadIdx.x % 32);
	}
}
inline bool within(int k) { return threadIdx.x % 32 < TURN / 8 && 8 * k < DEPTH; }

inline Row loadRow(const bf16 *a) {
	Row r;
	forTurns([&](int i, int, int k) {
		if (within(k)) r.of[i] = loadCachedOf<8>(a, k);
	});
	return r;
}

// stage copies a row of a to shared memory, and adds up its groups.
inline void stage(uint4 *x, float *totals, const Row &r) {
	const int lane = threadIdx.x % 32;
	forTurns([&](int i, int turn, int k) {
		const Vec<bf16, 8> v = r.of[i];
		uint4 w = v.words[0];
		if (BITS == 8) w = {even(w.x, w.y), odd(w.x, w.y), even(w.z, w.w), odd(w.z, w.w)}; // as pair8 returns codes
		if (lane < TURN / 8) x[k] = w;
		if (BITS == 8) return;
		float sum = 0;
#pragma unroll
		for (int j = 0; j < 8; j++) sum += v[j];
#pragma unroll
		for (int j = 1; j < GROUP / 8; j *= 2) sum += __shfl_xor_sync(~0u, sum, j);
		const int group = lane / (GROUP / 8), in = group % 8; // of 16, a lane's are neighbors
		const int at = GROUP == 16 ? group - in + in % 2 * 4 + in / 4 * 2 + in % 4 / 2 : group;
		if (lane % (GROUP / 8) == 0) totals[turn * TURN_SUMS + at] = sum;
	});
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM, RESIDENT)
	matvec_fine(C *c, long long cRow, const bf16 *a, long long aRow, const unsigned char *b, const bf16 *bias,
		const bf16 *norm, float eps, int m, int n, int add, const bf16 *next, int lines,
		const int *offsets, int experts, const bf16 *a2, long long a2Row, const bf16 *b2, long long b2Row, int depth2) {
#ifdef GROUPED
	waitForPrerequisites();
	a += blockIdx.y * aRow, c += blockIdx.y * cRow;
	b += (long long)expertOf(blockIdx.y, offsets, experts) * n * rowOf(DEPTH);
#endif
	constexpr int HERE = GATED ? 8 : OUTPUTS; // columns of c that a thread block computes at once
	const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
	const int tiles = (n + HERE - 1) / HERE;

	// Rows of a and b that do not exist are read as the last ones that do: nobody needs their sums.
	auto lowRow = [&](int tile) { return min(tile * HERE + g, n - 1); };
	auto highRow = [&](int tile) { return GATED ? n + lowRow(tile) : min(tile * HERE + g + 8, n - 1); };
	const int start = 2 * warp + t / 2; // the lane's step of the warp's first turn
	auto readRow = [&](Part &to, const unsigned char *row, int turn) { // the warp's first turn is 0
		const int step = 2 * turn - (STEPS % 2 && start + 2 * turn >= STEPS); // one that is not there: the one before
		const unsigned char *const codes = row + (64 * start + t % 2 * 16);
#pragma unroll
		for (int i = 0; i < 2; i++) {
			if (BITS < 8 || 64 * (start + step) + 32 * i + t % 2 * 16 < DEPTH) {
				to.codes[i] = __ldcs((const uint4 *)(codes + headOf(DEPTH) + 64 * step + 32 * i));
			} else {
				to.codes[i] = uint4();
			}
		}
		if (HIGH) {
			const unsigned char *const high = row + (start * HIGH_BYTES + (HIGH == 2 ? t % 2 * 16 : 0));
			to.high = __ldcs((const uint4 *)(high + headOf(DEPTH) + lowBytes(DEPTH) + step * HIGH_BYTES));
		}
		// Other warps read the rest of a sector with scales, so these stay in the cache.
		if constexpr (GROUP == 16) {
			const uint2 both = ((const uint2 *)row + start)[step];
			to.scales[0] = both.x >> t % 2 * 8, to.scales[1] = both.y >> t % 2 * 8;
		} else {
			constexpr int EACH = BITS == 8 ? 1 : 2; // of a step
			const Two *const scales = (const Two *)row + (EACH * start + (BITS == 8 ? 0 : t % 2)) + EACH * step;
			to.scales[0] = *scales;
			if (OFFSETS) to.offsets = scales[offsetsAt(DEPTH) / sizeof(Two)];
		}
		if (UNIT) {
			const unsigned short *const units = (const unsigned short *)row + warp + turn;
			to.units = units[unitsAt(DEPTH) / 2];
			if (OFFSETS) to.offsetUnits = units[offsetUnitsAt(DEPTH) / 2];
		}
	};
	Part low[SLOTS], high[SLOTS]; // rows g and g + 8 of the tile
	auto read = [&](int i, int tile, int turn) {
#if __CUDA_ARCH__ >= 1000 // the compiler would compute all turns' addresses at once, and lack registers
		asm volatile("" : "+r"(tile));
#endif
		readRow(low[i], b + lowRow(tile) * rowOf(DEPTH), turn);
		readRow(high[i], b + highRow(tile) * rowOf(DEPTH), turn);
	};
	auto begin = [&] {
#pragma unroll
		for (int i = 0; i < SLOTS; i++) {
			if (warp + i * WARPS < TURNS) read(i, blockIdx.x, i * WARPS);
		}
	};
	begin(); // with weights, which no kernel of a graph writes
	// the weights of the next layer, while memory is idle
	for (long long i = thread(); i < lines; i += gridDim.x * BLOCK_DIM) prefetchLine(next + 64 * i);
	Row weights; // of the norm
	if (NORMED) weights = loadRow(norm);
	launchDependents();
	waitForPrerequisites();

	constexpr int WORDS = TURNS * (TURN / 8); // of a row
	float *const totals = (float *)(row + ROWS * WORDS);
	// The column of a that the lane passes to mma: of the near codes of its group, of the far ones, or of neither.
	const bool near = GROUP == 16 ? g == 2 * t : g / 4 == t / 2 && g / 2 % 2 == 0;
	const bool far = GROUP == 16 ? g == 2 * t + 1 : g / 4 == t / 2 && g / 2 % 2 == 1;
	const uint4 *const x = row + g % ROWS * WORDS + 8 * STEP / 64 * (t / 2) + 2 * (t % 2);
	float sums[2][ROWS]; // of rows g and g + 8 of b
	uint4 nears = {}, fars = {};
	const unsigned mask = FOUR_BITS + (warp >> 31); // the compiler does not know that warp is never negative
	auto multiply = [&](const Part &low, const Part &high, int turn) {
		float totalsOf[ROWS][LANE_GROUPS], scaled[2][ROWS] = {}, ofOffsets[2][ROWS] = {};
#pragma unroll
		for (int r = 0; r < ROWS && BITS < 8; r++) {
			const auto all = ((const Vec<float, LANE_GROUPS> *)(totals + r * TURNS * TURN_SUMS))[4 * turn + t];
#pragma unroll
			for (int i = 0; i < LANE_GROUPS; i++) totalsOf[r][i] = all[i];
		}
#pragma unroll
		for (int i = 0; i < 2; i++) {
			const uint4 *const from = x + turn * (TURN / 8) + 4 * i;
			float products[2][4] = {};
#pragma unroll
			for (int j = 0; j < 4; j++) {
				if (near && j % 2 == 0) nears = from[j / 2];
				if (far && j % 2 == 0 && BITS < 8) fars = from[8 + j / 2];
				const unsigned u = word(low.codes[i], j), v = word(high.codes[i], j);
				const unsigned x0 = word(nears, j % 2 * 2), x1 = word(nears, j % 2 * 2 + 1);
				if constexpr (BITS == 8) {
					const Masks is(m);
					mma(products[j % 2], {pair8(u, is), pair8(v, is), pair8(u >> 8, is), pair8(v >> 8, is)}, {x0, x1});
					continue;
				}
				const unsigned y0 = word(fars, j % 2 * 2), y1 = word(fars, j % 2 * 2 + 1);
				const unsigned uHigh = word(low.high, j) >> (HIGH == 1 ? t % 2 : 0);
				const unsigned vHigh = word(high.high, j) >> (HIGH == 1 ? t % 2 : 0);
#pragma unroll
				for (int k = 0; k < 2; k++) {
					const int shift = 2 * i + 4 * k;
					const unsigned p = fourBytes(u, uHigh, k, shift, mask), q = fourBytes(v, vHigh, k, shift, mask);
					mma(products[k], {pairAt(p, 0), pairAt(q, 0), pairAt(p, 1), pairAt(q, 1)},
						{k ? y0 : x0, k ? y1 : x1});
				}
			}
#pragma unroll
			for (int half = 0; half < 2; half++) {
				const Part &of = half ? high : low;
#pragma unroll
				for (int r = 0; r < ROWS; r++) {
					const int e = 2 * half + r;
					if constexpr (GROUP == 16) {
#pragma unroll
						for (int k = 0; k < 2; k++) {
							const float product = products[k][2 * half + k] - BASE * totalsOf[r][2 * k + i];
							scaled[half][r] += numberAt(of.scales[k], i) * product;
						}
						continue;
					}
					const float product = products[0][e] + products[1][e];
					scaled[half][r] += numberAt(of.scales[0], i) * (BITS == 8 ? product : product - BASE * totalsOf[r][i]);
					if (OFFSETS) ofOffsets[half][r] += numberAt(of.offsets, i) * totalsOf[r][i];
				}
			}
		}
#pragma unroll
		for (int half = 0; half < 2; half++) {
			const Part &of = half ? high : low;
#pragma unroll
			for (int r = 0; r < ROWS; r++) {
				sums[half][r] += UNIT ? valueOf(of.units) * scaled[half][r] : scaled[half][r];
				if (OFFSETS) sums[half][r] += UNIT ? valueOf(of.offsetUnits) * ofOffsets[half][r] : ofOffsets[half][r];
			}
		}
	};

	unsigned call = 0;
	const int rows = NORMED || GATED || GROUP == 32 && ROWS == 1 ? 1 : m;
#pragma unroll 1
	for (int from = 0; from < rows; from += ROWS) { // the rows of a of a pass
		if (from > 0) begin();
#pragma unroll
		for (int r = 0; r < ROWS; r++) {
			Row x = loadRow(a + min(from + r, m - 1) * aRow);
			if (NORMED) {
				float squares = 0;
				forTurns([&](int i, int, int) { squares += squaresOf(x.of[i]); });
				const float scale = normScale(squares, DEPTH, eps);
				forTurns([&](int i, int, int) { x.of[i] = normed(x.of[i], weights.of[i], scale); });
			}
			stage(row + r * WORDS, totals + r * TURNS * TURN_SUMS, x);
		}
		__syncwarp();
#pragma unroll 1
		for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
			const int after = tile + gridDim.x;
#pragma unroll
			for (int i = 0; i < 2 * ROWS; i++) sums[i / ROWS][i % ROWS] = 0;
#pragma unroll 1
			for (int first = 0; warp + first < TURNS; first += SLOTS * WARPS) {
#pragma unroll
				for (int i = 0; i < SLOTS; i++) {
					const int turn = first + i * WARPS, ahead = turn + SLOTS * WARPS;
					if (TURNS % (SLOTS * WARPS) && warp + turn >= TURNS) continue;
					multiply(low[i], high[i], warp + turn);
					const bool here = TURNS > SLOTS * WARPS && warp + ahead < TURNS;
					if (here || after < tiles) read(i, here ? tile : after, here ? ahead : i * WARPS);
				}
			}
			float all[4]; // each lane has the sums of other groups
#pragma unroll
			for (int i = 0; i < 4; i++) {
				float sum = sums[i / 2][i % ROWS];
				sum += __shfl_xor_sync(~0u, sum, 1);
				all[i] = sum + __shfl_xor_sync(~0u, sum, 2);
			}
			const int r = from + g % ROWS;
			const bf16 *const pair = r < m ? a2 + r * a2Row : nullptr;
			if (PAIR) addPair(all, pair, b2, b2Row, lowRow(tile), highRow(tile), true, true, depth2);
			finish<ROWS, 2>(c + from * cRow, cRow, bias, all, tile * HERE, min(m - from, ROWS), n, add, call++);
		}
		__syncwarp(); // before the next rows of a replace these
	}
}
