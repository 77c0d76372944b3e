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

// sumsOf reads a row of logits. All threads get the same.
inline Sums sumsOf(const T *row, int vocab) {
	const int vectors = vocab / WIDTH;
	Sums s = none();
	for (int first = threadIdx.x; first < vectors; first += AT_ONCE * BLOCK) {
		Vector v[AT_ONCE];
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
			if (first + k * BLOCK < vectors) v[k] = fetch(row, first + k * BLOCK);
		}
		Sums next = s;
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
			if (first + k * BLOCK >= vectors) continue;
#pragma unroll
			for (int i = 0; i < WIDTH; i++) next.most = fmaxf(next.most, v[k][i]);
		}
		next.sum *= exponential(s.most - next.base());
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
			if (first + k * BLOCK >= vectors) continue;
#pragma unroll
			for (int i = 0; i < WIDTH; i++) next.sum += exponential(v[k][i] - next.base());
		}
		s = next;
	}
	return fold(s, join);
}

// put stores what f says of a row's elements, from the last to the first: what was read last is the nearest.
template <typename E, typename F> inline void put(E *row, int vocab, F f) {
	for (int at = vocab / WIDTH - 1 - (int)threadIdx.x; at >= 0; at -= BLOCK) store(row, at, f(at));
}


inline Sums read(const Sums *s) { // what another block wrote, not what a cache has of it
	const volatile float *f = (const volatile float *)s;
	return {f[0], f[1]};
}

// begin_rows clears counters.
extern "C" __global__ void __launch_bounds__(BLOCK) begin_rows(int *counters, int n) {
	const long long at = thread();
	if (at < n) counters[at] = 0;
}

// cross_entropy has blocks for so many parts of every row, and as many again for its gradient, if there is dlogits. To read a row
// twice costs little as long as it is in the level 2 cache, so the gradient follows lag rows behind. Blocks draw numbers, the first
// counter, for what they do: what a block waits for was begun before it, in whatever order blocks are started.
//
// The block that is the last of its row by the row's counter joins what all have found: sums is [rows, 1 + parts], the joined sums
// and those of the parts. Then it counts once more, which is what the gradient waits for.
extern "C" __global__ void __launch_bounds__(BLOCK, BLOCK <= 1024 / 4 ? 4 : 1)
	cross_entropy(float *losses, To *dlogits, const T *logits, const int *targets, Sums *sums, int *counters, int rows, int vocab,
		int parts, int lag, float scale) {
	__shared__ int shared;
	if (threadIdx.x == 0) shared = atomicAdd(&counters[0], 1);
	__syncthreads();
	const int turn = shared % (dlogits ? 2 * parts : parts), part = turn % parts;
	const bool backward = turn >= parts;
	const int row = shared / (dlogits ? 2 * parts : parts) - (backward ? lag : 0);
	if (row < 0 || row >= rows) return;

	const int vectors = vocab / WIDTH, each = (vectors + parts - 1) / parts, target = targets[row];
	const T *x = logits + (long long)row * vocab;
	auto at = [&](int k) { return part * each + k * BLOCK + (int)threadIdx.x; };
	auto inside = [&](int k) { return k * BLOCK + (int)threadIdx.x < each && at(k) < vectors; };
	Vector v[AT_ONCE];
#pragma unroll
	for (int k = 0; k < AT_ONCE; k++) {
		if (inside(k)) v[k] = backward ? load(x, at(k)) : fetch(x, at(k));
	}
	sums += (long long)row * (1 + parts);
	int *counter = &counters[1 + row];

	if (backward) {
		if (threadIdx.x == 0) {
			while (*(volatile int *)counter <= parts) {}
			__threadfence();
		}
		__syncthreads();
		const Sums s = read(sums);
		const float base = s.base(), each = scale / s.sum, ofTarget = scale * expm1f(-*(volatile float *)&losses[row]);
		To *to = dlogits + (long long)row * vocab;
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
			if (!inside(k)) continue;
			store(to, at(k), ::each<To>([&](int i) {
				return at(k) * WIDTH + i == target ? ofTarget : each * exponential(v[k][i] - base);
			}));
		}
		return;
	}

	Sums s = none();
#pragma unroll
	for (int k = 0; k < AT_ONCE; k++) {
		if (!inside(k)) continue;
#pragma unroll
		for (int i = 0; i < WIDTH; i++) s.most = fmaxf(s.most, v[k][i]);
	}
#pragma unroll
	for (int k = 0; k < AT_ONCE; k++) {
		if (!inside(k)) continue;
#pragma unroll
		for (int i = 0; i < WIDTH; i++) s.sum += exponential(v[k][i] - s.base());
	}
	s = fold(s, join);
	if (threadIdx.x == 0) {
		sums[1 + part] = s;
		__threadfence();
		shared = atomicAdd(counter, 1);
	}
	__syncthreads();
	if (shared < parts - 1) return;
	__threadfence();
	s = none();
	for (int i = threadIdx.x; i < parts; i += BLOCK) s = join(s, read(&sums[1 + i]));
	s = fold(s, join);
	if (threadIdx.x == 0) {
		losses[row] = logf(s.sum) - (value(x[target]) - s.base());
		sums[0] = s;
		__threadfence();
		atomicAdd(counter, 1);
	}
}

extern "C" __global__ void __launch_bounds__(BLOCK) log_softmax(float *y, const T *logits, int vocab) {
	const long long at = (long long)blockIdx.x * vocab;
	const Sums s = sumsOf(logits + at, vocab);
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
