// Drawing tokens. The formula is in op_draw.go.
#include "common.cuh"
#include "block.cuh"
#include "topk_rank.cuh"

struct Draw {
	double topP, minP, uniform;
	float temperature;
	int topK;
};

// A Mass is a weight or a sum of weights as a multiple of 2^-44, or a number of candidates.
typedef unsigned long long Mass;
constexpr double ONE = 1ll << 44;
constexpr int MAX_ROW = 1 << 19; // longer ones could overflow
constexpr int BINS = 1024, ROOM = 1024, ROUNDS = 6;
constexpr Rank UNKNOWN = ~0ull;
constexpr float MOST = 0x1.fffffep127f; // the largest finite number

struct Work {
	Mass sums[BLOCK_DIM], bins[BINS], masses[ROOM], above;
	Rank ranks[ROOM], last;
	int bin, count, unsure, id;
};

// scoreOf is the inverse of rank, but for the sign of 0.
inline float scoreOf(Rank r) {
	const unsigned order = r >> 32;
	return __uint_as_float(order >> 31 ? order ^ 0x80000000 : ~order);
}

// allOf returns the lowest rank that an element of a value can have.
inline Rank allOf(float x) { return rank(x, 0) >> 32 << 32; }

// add adds to a sum in shared memory word by word, because no instruction adds 64 bits there.
inline void add(Mass *to, Mass x) {
	unsigned *words = (unsigned *)to, low = (unsigned)x;
	const unsigned carry = atomicAdd(words, low) + low < low, high = (unsigned)(x >> 32) + carry;
	if (high > 0) atomicAdd(words + 1, high);
}

// before returns the sum of x of the threads before this one, and leaves the sums up to each in work.sums.
inline Mass before(Work &work, Mass x) {
	__syncthreads(); // some threads may still read the sums of the previous call
	work.sums[threadIdx.x] = x;
	__syncthreads();
	for (int step = 1; step < BLOCK_DIM; step *= 2) {
		const Mass more = threadIdx.x >= step ? work.sums[threadIdx.x - step] : 0;
		__syncthreads();
		work.sums[threadIdx.x] += more;
		__syncthreads();
	}
	return work.sums[threadIdx.x] - x;
}

// A Row is a row of scores: logits divided by the temperature.
struct Row {
	const float *logits;
	int n;
	float temperature, highest; // highest of all scores

	float score(float logit) const { return __fdiv_rn(logit, temperature); }

	// weight returns exp(score - highest) times ONE, by the formula of infer/sampling.go, or 0 if that is less than 1.
	double weight(float score) const {
		const double x = (double)score - (double)highest;
		if (x < -30.5) return 0;
		const int k = (int)(x * 1.44269504088896340736 - 0.5); // truncates towards zero: rounds to nearest
		const double y = x - k * 0.693147180559945309417, y2 = y * y;
		const double series = 1 + y +
			y2 * (1. / 2 + y * (1. / 6) +
				y2 * (1. / 24 + y * (1. / 120) + y2 * (1. / 720 + y * (1. / 5040) + y2 * (1. / 40320))));
		return series * (double)(1ll << (44 + k));
	}

	// each calls f with the score of each of the thread's elements that is from low to high, and its index.
	template <typename F> void each(float low, float high, F f) const {
		for (int k = threadIdx.x; k < n / WIDTH; k += BLOCK_DIM) {
			const Vector v = loadCached(logits, k);
#pragma unroll
			for (int i = 0; i < WIDTH; i++) {
				const float s = score(v[i]);
				if (low <= s && s <= high) f(s, k * WIDTH + i);
			}
		}
	}

	// tolerance returns how far apart two sums may be, of multiples of 2^-44 and of a host's float64.
	Mass tolerance(Mass whole) const { return 2 * n + ((whole >> 20) * n >> 31); }
};

// search finds the bin of scores from high to low in which the masses of candidates, from the highest score down, add
// up to the limit, which limitOf returns for the sum of all. It collects the members of the bin, if there is room, and
// sets high and low to their range.
template <typename M, typename L>
inline void search(Work &work, const Row &row, float &high, float &low, bool first, Mass &limit, M mass, L limitOf) {
	const float from = high, to = low;
	const double scale = to < from ? (BINS - 1) / ((double)from - to) : 0;
	auto binOf = [&](float s) { return (int)(((double)from - s) * scale); };
	__syncthreads(); // some threads may still read the results of the previous call
	for (int i = threadIdx.x; i < BINS; i += BLOCK_DIM) work.bins[i] = 0;
	if (threadIdx.x == 0) work.bin = -1, work.count = 0;
	__syncthreads();
	int last = 0;
	Mass run = 0; // what bin last will get: equal scores would wait for each other
	row.each(to, from, [&](float s, int) {
		const int bin = binOf(s);
		if (bin != last && run > 0) add(&work.bins[last], run), run = 0;
		last = bin;
		run += mass(s);
	});
	if (run > 0) add(&work.bins[last], run);
	__syncthreads();
	constexpr int EACH = BINS / BLOCK_DIM;
	Mass own = 0;
	for (int i = 0; i < EACH; i++) own += work.bins[threadIdx.x * EACH + i];
	Mass above = before(work, own);
	if (first) limit = limitOf(work.sums[BLOCK_DIM - 1]);
	above += work.above;
	__syncthreads();
	if (above < limit && limit <= above + own) {
		int bin = threadIdx.x * EACH;
		for (; above + work.bins[bin] < limit; bin++) above += work.bins[bin];
		work.bin = bin, work.above = above;
	}
	__syncthreads();
	float most = -INFINITY, least = INFINITY;
	row.each(to, from, [&](float s, int i) {
		if (binOf(s) != work.bin) return;
		most = max(most, s), least = min(least, s);
		const int at = atomicAdd(&work.count, 1);
		if (at < ROOM) work.ranks[at] = rank(s, i), work.masses[at] = mass(s);
	});
	high = fold(most, [](float a, float b) { return max(a, b); });
	low = fold(least, [](float a, float b) { return min(a, b); });
	__syncthreads();
}

// cut returns the rank of the candidate at which the masses of those with scores of at least low, in their order, add
// up to the limit, or UNKNOWN if that is not certain within the tolerance that toleranceOf returns for the limit.
template <typename M, typename L, typename N>
inline Rank cut(Work &work, const Row &row, float low, M mass, L limitOf, N toleranceOf) {
	float high = row.highest;
	Mass limit = 0;
	if (threadIdx.x == 0) work.above = 0, work.last = UNKNOWN;
	__syncthreads();
	for (int round = 0;; round++) {
		search(work, row, high, low, round == 0, limit, mass, limitOf);
		if (work.bin < 0) return UNKNOWN;
		if (work.count <= ROOM) break;
		if (high == low && toleranceOf(limit) == 0) return allOf(low); // a number of candidates: all equals count
		if (high == low || round == ROUNDS) return UNKNOWN;
	}
	const Mass off = toleranceOf(limit);
	for (int at = threadIdx.x; at < work.count; at += BLOCK_DIM) {
		const Rank mine = work.ranks[at];
		Mass sum = work.above;
		for (int i = 0; i < work.count; i++) sum += work.ranks[i] > mine ? work.masses[i] : 0;
		const Mass end = sum + work.masses[at];
		if (sum < limit && limit <= end && (sum == 0 || sum + off < limit) && limit + off <= end) work.last = mine;
	}
	__syncthreads();
	const Rank last = work.last;
	__syncthreads();
	return last;
}

// pick returns the index of the element at which the weights of the kept ones, in the order of their indices, add up to
// more than uniform of their sum, or -1 if that is not certain. Each warp adds up a part of the row. Then the threads
// share the part in which the element is.
inline int pick(Work &work, const Row &row, const Draw &how, Rank floor) {
	const float last = scoreOf(floor);
	const double least = how.minP * ONE;
	if (threadIdx.x == 0) work.unsure = 0, work.id = -1;
	__syncthreads();
	auto mass = [&](int i) -> Mass {
		const float s = row.score(row.logits[i]);
		if (s < last || s == last && rank(s, i) < floor) return 0;
		const double w = row.weight(s), off = w - least;
		const double near = how.minP > 0 && s != row.highest ? least * 0x1p-40 : -1;
		if (off <= near && off >= -near) atomicAdd(&work.unsure, 1);
		return off >= 0 ? (Mass)w : 0;
	};
	constexpr int WARPS = BLOCK_DIM / 32;
	const int part = (row.n + WARPS - 1) / WARPS, warp = threadIdx.x / 32;
	Mass own = 0;
#pragma unroll 4
	for (int i = warp * part + threadIdx.x % 32; i < min(row.n, (warp + 1) * part); i += 32) own += mass(i);
	before(work, own);
	const Mass whole = work.sums[BLOCK_DIM - 1], off = row.tolerance(whole);
	const Mass target = (Mass)(how.uniform * (double)whole);
	int chosen = 0;
	while (chosen < WARPS - 1 && work.sums[32 * chosen + 31] <= target) chosen++;
	const Mass start = chosen > 0 ? work.sums[32 * chosen - 1] : 0;
	const int each = (part + BLOCK_DIM - 1) / BLOCK_DIM, first = chosen * part + threadIdx.x * each;
	const int end = min(min(row.n, (chosen + 1) * part), first + each);
	own = 0;
	for (int i = first; i < end; i++) own += mass(i);
	Mass sum = start + before(work, own);
	if (sum <= target && target < sum + own) {
		for (int i = first; i < end; i++) {
			const Mass m = mass(i);
			if (sum + off <= target && target + off < sum + m) work.id = i;
			sum += m;
		}
	}
	__syncthreads();
	return work.unsure ? -1 : work.id;
}

// drawn returns the token that is drawn from a row, or -1.
inline int drawn(Work &work, Row row, const Draw &how) {
	Rank best = 0;
	float least = INFINITY;
	for (int k = threadIdx.x; k < row.n / WIDTH; k += BLOCK_DIM) {
		const Vector v = loadCached(row.logits, k);
#pragma unroll
		for (int i = 0; i < WIDTH; i++) {
			best = larger(best, rank(v[i], k * WIDTH + i));
			if (v[i] - v[i] == 0) least = min(least, v[i]);
		}
	}
	best = fold(best, larger);
	const float highest = row.logits[indexOf(best)];
	if (highest - highest != 0) return -1; // a NaN or an infinity comes first
	row.highest = row.score(highest);
	if (row.temperature == 0 || row.highest - row.highest != 0) return indexOf(best);
	if (row.n > MAX_ROW) return -1;
	float lowest = max(row.score(fold(least, [](float a, float b) { return min(a, b); })), -MOST);
	Rank floor = allOf(lowest);
	if (how.topK > 0 && how.topK < row.n) {
		auto one = [](float) -> Mass { return 1; };
		auto limit = [&](Mass whole) { return whole < how.topK ? whole : (Mass)how.topK; };
		const Rank last = cut(work, row, lowest, one, limit, [](Mass) -> Mass { return 0; });
		if (last == UNKNOWN) return -1;
		lowest = scoreOf(last);
		floor = allOf(lowest); // with all equals
	}
	if (how.topP > 0 && how.topP < 1) {
		auto weight = [&](float s) { return (Mass)row.weight(s); };
		auto limit = [&](Mass whole) { return (Mass)(how.topP * (double)whole); };
		floor = cut(work, row, lowest, weight, limit, [&](Mass limit) { return row.tolerance((Mass)(limit / how.topP)); });
		if (floor == UNKNOWN) return -1;
	}
	return pick(work, row, how, floor);
}

// draw has a thread block per row.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) draw(int *ids, const float *logits, const Draw *draws, int n) {
	waitForPrerequisites();
	__shared__ Work work;
	const Draw how = draws[blockIdx.x];
	const int id = drawn(work, Row{logits + (long long)blockIdx.x * n, n, how.temperature}, how);
	if (threadIdx.x == 0) ids[blockIdx.x] = id;
}
