// Cross-entropy, fused and in steps. The formulas are in op_crossentropy.go.
#include "common.cuh"
#include "block.cuh"

inline float exponential(float x) { return exp2Rough(x * 1.442695041f); }

// Sums are the sums of some logits: Σ e^(x − max), where max is the largest. As long as all are −∞, whose difference is
// NaN, 0 takes its place.
struct Sums {
	float max, sum;
	float base() const { return max == -INFINITY ? 0 : max; }
};

inline Sums none() { return {-INFINITY, 0}; }

// join gives both threads that join the same bits: no product is fused with the sum.
inline Sums join(Sums a, Sums b) {
	Sums s = {fmaxf(a.max, b.max), 0};
	s.sum = __fadd_rn(__fmul_rn(a.sum, exponential(a.max - s.base())), __fmul_rn(b.sum, exponential(b.max - s.base())));
	return s;
}

constexpr int AT_ONCE = 32 / WIDTH; // vectors in flight per thread

// sumsOfRow returns the same to all threads of a block.
inline Sums sumsOfRow(const T *row, int vocab) {
	Sums s = none();
	for (int first = threadIdx.x; first < vocab / WIDTH; first += AT_ONCE * BLOCK_DIM) {
		Vector v[AT_ONCE];
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) { // vectors beyond the end are −∞
			const int at = first + k * BLOCK_DIM;
			v[k] = at < vocab / WIDTH ? loadCached(row, at) : each([](int) { return none().max; });
		}
		Sums of = none();
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
#pragma unroll
			for (int i = 0; i < WIDTH; i++) of.max = fmaxf(of.max, v[k][i]);
		}
		of.max = fmaxf(of.max, s.max); // one base for all: only the sum so far is multiplied
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
#pragma unroll
			for (int i = 0; i < WIDTH; i++) of.sum += exponential(v[k][i] - of.base());
		}
		of.sum += s.sum * exponential(s.max - of.base());
		s = of;
	}
	return fold(s, join);
}

// put stores f of the vectors of row from, [vocab], in row to, from the last vector to the first: what was read last is
// still cached. It reads several vectors before it stores the first, because to may be from: no load passes a store.
template <typename E, typename S, typename F> inline void put(E *to, const S *from, int vocab, F f) {
	constexpr int AGAIN = 16 / WIDTH;
	for (int first = vocab / WIDTH - 1 - (int)threadIdx.x; first >= 0; first -= AGAIN * BLOCK_DIM) {
		Vec<S, WIDTH> v[AGAIN];
#pragma unroll
		for (int k = 0; k < AGAIN; k++) {
			const int at = first - k * BLOCK_DIM;
			v[k] = at >= 0 ? loadStreaming(from, at) : Vec<S, WIDTH>();
		}
#pragma unroll
		for (int k = 0; k < AGAIN; k++) {
			const int at = first - k * BLOCK_DIM;
			if (at >= 0) store(to, at, f(at, v[k]));
		}
	}
}

// cross_entropy has a thread block per row, which reads it twice: for the sums, and for the gradient.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	cross_entropy(float *losses, To *dlogits, const T *logits, const int *targets, int vocab, float scale) {
	waitForPrerequisites();
	const T *row = logits + (long long)blockIdx.x * vocab;
	const int target = targets[blockIdx.x];
	const float own = value(row[target]); // dlogits may overwrite it
	const Sums s = sumsOfRow(row, vocab);
	const float base = s.base(), loss = logf(s.sum) - (own - base);
	if (threadIdx.x == 0) losses[blockIdx.x] = loss;
	if (!dlogits) return;
	const float share = scale / s.sum, ofTarget = scale * expm1f(-loss);
	put(dlogits + (long long)blockIdx.x * vocab, row, vocab, [&](int at, const Vector &v) {
		return ::each<To>([&](int i) { return at * WIDTH + i == target ? ofTarget : share * exponential(v[i] - base); });
	});
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM) log_softmax(float *y, const T *logits, int vocab) {
	waitForPrerequisites();
	const long long at = (long long)blockIdx.x * vocab;
	const Sums s = sumsOfRow(logits + at, vocab);
	const float base = s.base(), log = logf(s.sum);
	put(y + at, logits + at, vocab, [&](int, const Vector &v) {
		return each<float>([&](int i) { return v[i] - base - log; });
	});
}

// nll has a thread per row.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	nll(float *losses, const float *logp, const int *targets, int vocab, int rows) {
	waitForPrerequisites();
	const long long row = thread();
	if (row < rows) losses[row] = -logp[row * vocab + targets[row]];
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	nll_backward(To *dlogits, const float *logp, const int *targets, int vocab, float scale) {
	waitForPrerequisites();
	const long long at = (long long)blockIdx.x * vocab;
	const int target = targets[blockIdx.x];
	const float ofTarget = scale * expm1f(logp[at + target]);
	put(dlogits + at, logp + at, vocab, [&](int k, const Vec<float, WIDTH> &v) {
		return each<To>([&](int i) { return k * WIDTH + i == target ? ofTarget : scale * exponential(v[i]); });
	});
}
