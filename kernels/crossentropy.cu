// Cross-entropy, whole and in the steps that it is made of. The formulas are in crossentropy.go. A block has a row.
#include "common.cuh"
#include "block.cuh"

inline float exponential(float x) { return exp2Rough(x * 1.442695041f); }

// Sums are those of some logits: Σ e^(x − most), where most is the largest. While there are but −∞, whose difference is no number,
// 0 takes its place.
struct Sums {
	float most, sum;
	float base() const { return most == -__uint_as_float(0x7F800000) ? 0 : most; }
};

// join has both threads that join come to the same bits: no product is joined with the sum.
inline Sums join(Sums a, Sums b) {
	Sums s = {fmaxf(a.most, b.most), 0};
	s.sum = __fadd_rn(__fmul_rn(a.sum, exponential(a.most - s.base())), __fmul_rn(b.sum, exponential(b.most - s.base())));
	return s;
}

// sumsOf reads a row of logits. All threads get the same.
inline Sums sumsOf(const T *row, int vocab) {
	const int vectors = vocab / WIDTH;
	constexpr int AT_ONCE = 32 / WIDTH; // vectors: the largest is looked for once for all of them
	Sums s = {-__uint_as_float(0x7F800000), 0};
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

extern "C" __global__ void __launch_bounds__(BLOCK)
	cross_entropy(float *losses, To *dlogits, const T *logits, const int *targets, int vocab, float scale) {
	const long long at = (long long)blockIdx.x * vocab;
	const int target = targets[blockIdx.x];
	const float own = value(logits[at + target]); // dlogits may take its place
	const Sums s = sumsOf(logits + at, vocab);
	const float base = s.base(), loss = logf(s.sum) - (own - base);
	if (threadIdx.x == 0) losses[blockIdx.x] = loss;
	if (!dlogits) return;
	const float each = scale / s.sum, ofTarget = scale * expm1f(-loss);
	put(dlogits + at, vocab, [&](int k) {
		const Vector v = load(logits + at, k);
		return ::each<To>([&](int i) { return k * WIDTH + i == target ? ofTarget : each * exponential(v[i] - base); });
	});
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
