// Cross-entropy, whole and in the steps that it is made of. The formulas are in crossentropy.go.
#include "common.cuh"
#include "block.cuh"

inline float exponential(float x) { return exp2Rough(x * 1.442695041f); }

// Sums are those of some logits: Σ e^(x − most), where most is the largest. While there are but −∞, whose difference is no number,
// 0 takes its place.
struct Sums {
	float most, sum;
	float base() const { return most == -__uint_as_float(0x7F800000) ? 0 : most; }
};

inline Sums none() { return {-__uint_as_float(0x7F800000), 0}; }

// join has both threads that join come to the same bits: no product is joined with the sum.
inline Sums join(Sums a, Sums b) {
	Sums s = {fmaxf(a.most, b.most), 0};
	s.sum = __fadd_rn(__fmul_rn(a.sum, exponential(a.most - s.base())), __fmul_rn(b.sum, exponential(b.most - s.base())));
	return s;
}

constexpr int AT_ONCE = 32 / WIDTH; // vectors that a thread has under way

// read loads every BLOCKth vector of a row from first on. Those from end on are −∞.
inline void read(Vector (&v)[AT_ONCE], const T *row, int first, int end, bool again) {
#pragma unroll
	for (int k = 0; k < AT_ONCE; k++) {
		const int at = first + k * BLOCK;
		v[k] = at >= end ? each([](int) { return none().most; }) : again ? fetch(row, at) : load(row, at);
	}
}

inline Sums sumsOf(const Vector (&v)[AT_ONCE]) {
	Sums s = none();
#pragma unroll
	for (int k = 0; k < AT_ONCE; k++) {
#pragma unroll
		for (int i = 0; i < WIDTH; i++) s.most = fmaxf(s.most, v[k][i]);
	}
#pragma unroll
	for (int k = 0; k < AT_ONCE; k++) {
#pragma unroll
		for (int i = 0; i < WIDTH; i++) s.sum += exponential(v[k][i] - s.base());
	}
	return s;
}

// sumsOfRow gives all threads of a block the same.
inline Sums sumsOfRow(const T *row, int vocab) {
	Sums s = none();
	for (int first = threadIdx.x; first < vocab / WIDTH; first += AT_ONCE * BLOCK) {
		Vector v[AT_ONCE];
		read(v, row, first, vocab / WIDTH, true);
		s = join(s, sumsOf(v));
	}
	return fold(s, join);
}

// put stores what f says of a row's elements, from the last to the first: what was read last is the nearest.
template <typename E, typename F> inline void put(E *row, int vocab, F f) {
	for (int at = vocab / WIDTH - 1 - (int)threadIdx.x; at >= 0; at -= BLOCK) store(row, at, f(at));
}

// read is what another block wrote, not what a cache has of it.
inline Sums read(const Sums *s) {
	const volatile float *f = (const volatile float *)s;
	return {f[0], f[1]};
}

// begin_rows clears counters.
extern "C" __global__ void __launch_bounds__(BLOCK) begin_rows(int *counters, int n) {
	const long long at = thread();
	if (at < n) counters[at] = 0;
}

// cross_entropy cuts every row into so many parts, and has a task for each, and, if there is dlogits, another for its gradient. To
// read a row twice costs little while it is in the level 2 cache, so the gradient follows lag rows behind. Blocks draw numbers of
// tasks, by the first counter, until there are no more. What a task waits for has a smaller number: whoever drew that is at it, or
// at one with a smaller number yet.
//
// The block that is the last of its row by the row's counter joins what all have found: sums is [rows, 1 + parts], the joined sums
// and those of the parts. Then it counts once more, which is what the gradient waits for.
extern "C" __global__ void __launch_bounds__(BLOCK, BLOCK <= 1024 / 4 ? 4 : 1)
	cross_entropy(float *losses, To *dlogits, const T *logits, const int *targets, Sums *sums, int *counters, int rows, int vocab,
		int parts, int lag, float scale) {
	const int tasks = dlogits ? 2 * parts : parts, vectors = vocab / WIDTH, each = (vectors + parts - 1) / parts;
	__shared__ int number, before;
	int drawn;
	if (threadIdx.x == 0) drawn = atomicAdd(&counters[0], 1);
	for (;;) {
		__syncthreads();
		if (threadIdx.x == 0) number = drawn;
		__syncthreads();
		if (number >= (rows + lag) * tasks) return;
		const int part = number % tasks % parts;
		const bool backward = number % tasks >= parts;
		const int row = number / tasks - (backward ? lag : 0);
		if (threadIdx.x == 0) drawn = atomicAdd(&counters[0], 1); // comes while this task is done
		if (row < 0 || row >= rows) continue;

		const T *x = logits + (long long)row * vocab;
		Sums *rowSums = sums + (long long)row * (1 + parts);
		int *counter = &counters[1 + row];
		const int first = part * each + threadIdx.x, end = min((part + 1) * each, vectors);
		Vector v[AT_ONCE];
		if (backward) {
			if (threadIdx.x == 0) {
				while (*(volatile int *)counter <= parts) {}
				__threadfence();
			}
			__syncthreads();
		}
		read(v, x, first, end, !backward);
		const int target = targets[row];
		if (backward) {
			const Sums s = read(rowSums);
			const float base = s.base(), share = scale / s.sum, ofTarget = scale * expm1f(-*(volatile float *)&losses[row]);
			To *to = dlogits + (long long)row * vocab;
#pragma unroll
			for (int k = 0; k < AT_ONCE; k++) {
				const int at = first + k * BLOCK;
				if (at >= end) break;
				store(to, at, ::each<To>([&](int i) {
					return at * WIDTH + i == target ? ofTarget : share * exponential(v[k][i] - base);
				}));
			}
			continue;
		}

		Sums s = fold(sumsOf(v), join);
		if (threadIdx.x == 0) {
			rowSums[1 + part] = s;
			__threadfence();
			before = atomicAdd(counter, 1);
		}
		__syncthreads();
		if (before < parts - 1) continue;
		__threadfence();
		s = none();
		for (int i = threadIdx.x; i < parts; i += BLOCK) s = join(s, read(&rowSums[1 + i]));
		s = fold(s, join);
		if (threadIdx.x == 0) {
			losses[row] = logf(s.sum) - (value(x[target]) - s.base());
			rowSums[0] = s;
			__threadfence();
			atomicAdd(counter, 1);
		}
	}
}

extern "C" __global__ void __launch_bounds__(BLOCK) log_softmax(float *y, const T *logits, int vocab) {
	const long long at = (long long)blockIdx.x * vocab;
	const Sums s = sumsOfRow(logits + at, vocab);
	const float base = s.base(), log = logf(s.sum);
	put(y + at, vocab, [&](int k) {
		const Vector v = load(logits + at, k);
		return each<float>([&](int i) { return v[i] - base - log; });
	});
}

// nll has a thread for each row.
extern "C" __global__ void __launch_bounds__(BLOCK) nll(float *losses, const float *logp, const int *targets, int vocab, int rows) {
	const long long row = thread();
	if (row < rows) losses[row] = -logp[row * vocab + targets[row]];
}

extern "C" __global__ void __launch_bounds__(BLOCK)
	nll_backward(To *dlogits, const float *logp, const int *targets, int vocab, float scale) {
	const long long at = (long long)blockIdx.x * vocab;
	const int target = targets[blockIdx.x];
	const float ofTarget = scale * expm1f(logp[at + target]);
	put(dlogits + at, vocab, [&](int k) {
		const Vec<float, WIDTH> v = load(logp + at, k);
		return each<To>([&](int i) { return k * WIDTH + i == target ? ofTarget : scale * exponential(v[i]); });
	});
}
