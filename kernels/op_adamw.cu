// A step of AdamW over all quantization blocks of a list of tensors. The formulas are in op_adamw.go. Each warp has one
// quantization block; it finds the largest moment among its lanes' registers, so that everything is read once.
//
//   WEIGHT          what the step does with the weight: one of the numbers below
//   CODES           1: moments are 8-bit codes, 0: they are F32
//   G_F32, G_BF16 or G_F16  the type of gradients
#include "quant8.cuh"
#include "block.cuh"
#include "random.cuh"

// as on the CPU
enum { WEIGHT_ROUNDED, WEIGHT_MASTER, WEIGHT_SPLIT8, WEIGHT_STOCHASTIC, WEIGHT_BNB };

constexpr bool BNB = WEIGHT == WEIGHT_BNB, HAS_MASTER = WEIGHT == WEIGHT_MASTER || WEIGHT == WEIGHT_SPLIT8;

#ifdef G_BF16
typedef bf16 Gradient;
#elif defined G_F16
typedef f16 Gradient;
#else
typedef float Gradient;
#endif
#if CODES
typedef byte Moment;
__shared__ Map<true> mMap;
__shared__ Map<false> vMap;
#else
typedef float Moment;
#endif
typedef Words<WEIGHT == WEIGHT_SPLIT8 ? 1 : 4>::type Master; // a residual or, as its bits, a master

// A Range is a tensor of the list, or part of one.
struct Range {
	T *w;
	const Gradient *g;
	Moment *m, *v;
	float *mScale, *vScale;
	Master *master;
	double *sums;         // of its gradient's squares, one per unit
	long long first;      // index of its first element within the tensor
	unsigned begin, end;  // its quantization blocks among the list's
	unsigned whole, last; // number of quantization blocks updated in vectors, and elements of the last one
	unsigned unit, firstUnit, lastUnit; // elements of a unit, and its units among the list's
	int number, decays;   // the tensor's number; whether its weights decay
};
static_assert(sizeof(Range) == 112, "adamw.go says how much memory a list takes");

// adamw_range puts a range into a list.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	adamw_range(Range *list, int i, T *w, const Gradient *g, Moment *m, Moment *v, float *mScale, float *vScale,
		Master *master, double *sums, long long n, long long first, int begin, int unit, int firstUnit, int number,
		int decays) {
	waitForPrerequisites();
	if (threadIdx.x > 0) return;
	typedef unsigned long long Bits;
	const Bits aligned = ((Bits)w | (Bits)g | (Bits)m | (Bits)v | (Bits)master) % 16 == 0;
	const unsigned blocks = (n + QUANT_BLOCK - 1) / QUANT_BLOCK;
	list[i] = {w, g, m, v, mScale, vScale, master, sums, first, (unsigned)begin, begin + blocks,
		aligned ? (unsigned)(n / QUANT_BLOCK) : 0, (unsigned)(n - (long long)(blocks - 1) * QUANT_BLOCK),
		(unsigned)unit, (unsigned)firstUnit, (unsigned)(firstUnit + (n + unit - 1) / unit), number, decays};
}

// Factors are the same for all elements; they are the ones in cpu.AdamWFactors.
struct Factors {
	float gradScale, decayFactor, beta1, oneMinusBeta1, beta2, oneMinusBeta2, stepSize, root, eps, gainM, gainRoot,
		sqrtBeta2;
	unsigned seed[2];
};

// A Part is a lane's part of a quantization block: the moments as numbers, and what to subtract from the weights; for
// bitsandbytes a multiple of what to add to them, or NaN where they stay as they are.
struct Part {
	float m[EACH], v[EACH], u[EACH]; // v: √v if it is coded
};

// mine returns where a lane's part of a quantization block starts.
template <typename E> inline E *mine(E *x, unsigned block) {
	return x + (unsigned long long)block * QUANT_BLOCK + 4 * lane();
}

// count returns how many of a quantization block's elements exist from the lane's first on.
inline int count(const Range &r, unsigned block) {
	return (int)(r.begin + block + 1 < r.end ? QUANT_BLOCK : r.last) - 4 * lane();
}

template <bool WHOLE> inline Part state(const Range &r, const Factors &f, unsigned block, int count) {
	const Elements<Gradient> g = read<WHOLE>(mine(r.g, block), count);
	Elements<Moment> m = read<WHOLE>(mine(r.m, block), count, Moment(CODES ? BNB ? 128 : 127 : 0)),
					 v = read<WHOLE>(mine(r.v, block), count);
	Part x;
#if CODES
	const float mScale = r.mScale[block], vScale = r.vScale[block], root = f.sqrtBeta2 * vScale;
	mMap.decode(x.m, m);
	vMap.decode(x.v, v);
#endif
#pragma unroll
	for (int i = 0; i < EACH; i++) {
#if CODES
		if constexpr (!BNB) {
			const float h = g[i] * f.gainRoot;
			x.m[i] = fmaf(g[i], f.gainM, x.m[i] * (f.beta1 * mScale));
			x.v[i] = rootRough(fmaf(h, h, x.v[i] * (root * root)));
			x.u[i] = f.stepSize * (x.m[i] * reciprocal(fmaf(x.v[i], f.root, f.eps)));
		} else {
			const float s = g[i] * f.gradScale, m1 = x.m[i] * mScale, v1 = x.v[i] * vScale;
			const bool finite = s - s == 0;
			x.m[i] = finite ? fmaf(s, f.oneMinusBeta1, m1 * f.beta1) : 0;
			x.v[i] = !finite ? 0
				: IsBF16<T> ? fmaf(v1, f.beta2, f.oneMinusBeta2 * s * s)
							: fmaf(s, f.oneMinusBeta2 * s, v1 * f.beta2);
			x.u[i] = finite ? x.m[i] * (1 / fmaf(f.root, f.eps, sqrtf(x.v[i]))) : __uint_as_float(0x7FC00000);
		}
#else
		const float s = g[i] * f.gradScale;
		x.m[i] = m.at(i) = fmaf(m[i], f.beta1, f.oneMinusBeta1 * s);
		x.v[i] = v.at(i) = fmaf(v[i], f.beta2, f.oneMinusBeta2 * (s * s));
		x.u[i] = BNB ? x.m[i] * (1 / fmaf(f.root, f.eps, sqrtf(x.v[i])))
					 : f.stepSize * (x.m[i] / fmaf(sqrtf(x.v[i]), f.root, f.eps));
#endif
	}
#if !CODES
	write<WHOLE>(mine(r.m, block), count, m);
	write<WHOLE>(mine(r.v, block), count, v);
#endif
	return x;
}

// keep codes and stores the moments.
template <bool WHOLE> inline void keep(const Range &r, const Part &x, unsigned block, int count) {
#if CODES
	const float mScale = largest(x.m), vScale = largest<false>(x.v);
	Codes m = mMap.encode(x.m, mScale);
	if constexpr (BNB) {
#pragma unroll
		for (int i = 0; i < EACH; i++) {
			// The result of its search for 0/0; and a code whose sign is not m's is replaced by its neighbor, the next higher
			// one if m is positive.
			if (mScale == 0) m.at(i) = 0;
			if ((m.at(i) < 127) != (__float_as_uint(x.m[i]) >> 31)) m.at(i) += x.m[i] > 0 ? 1 : -1;
		}
	}
	write<WHOLE>(mine(r.m, block), count, m);
	write<WHOLE>(mine(r.v, block), count, vMap.encode(x.v, vScale));
	__syncwarp(); // all lanes have read the scales
	if (lane() == 0) {
		r.mScale[block] = mScale;
		r.vScale[block] = vScale;
	}
#endif
}

// mix64 is Mix64 of op_adamw.go: SplitMix64's step.
inline unsigned long long mix64(unsigned long long x) {
	x += 0x9E3779B97F4A7C15;
	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
	x = (x ^ x >> 27) * 0x94D049BB133111EB;
	return x ^ x >> 31;
}

inline float stored(float x) {
	const float in[1] = {x};
	T out[1];
	narrow(out, in);
	return value(out[0]);
}

// aligned returns bits of x whose upper 16 are T's bits, cut off, and joined the float that has such bits. The CPU's
// functions of these names say how.
inline unsigned aligned(float x) {
#ifdef F16
	const unsigned magnitude = __float_as_uint(fabsf(x) * 0x1p-112f), sign = __float_as_uint(x) >> 31;
	return x != x ? 0x7E000000 : min(magnitude, 0x0F800000u) << 3 | sign << 31;
#else
	return __float_as_uint(x);
#endif
}
inline float joined(unsigned bits) {
#ifdef F16
	const unsigned magnitude = (bits & 0x7FFFFFFF) >> 3, scaled = __float_as_uint(__uint_as_float(magnitude) * 0x1p112f);
	return __uint_as_float((magnitude < 0x0F800000 ? scaled : magnitude | 0x7F800000) | (bits & 0x80000000));
#else
	return __uint_as_float(bits);
#endif
}

// upper returns four weights made of the upper halves of words.
template <typename E = T> inline Vec<E, 4> upper(const unsigned *x) {
	Vec<E, 4> v;
	v.words[0] = {permute(x[0], x[1], 0x7632), permute(x[2], x[3], 0x7632)};
	return v;
}

// weights updates the weights by u, in each form as on the CPU, where comments explain more. W and B let the compiler
// omit code for other types.
template <bool WHOLE, typename W = T, typename B = Master>
inline void weights(const Range &r, const Factors &f, const Part &x, unsigned block, int count) {
	Elements<W> w;
	Elements<B> master;
	if constexpr (WEIGHT != WEIGHT_MASTER) w = read<WHOLE>(mine(r.w, block), count);
	if constexpr (HAS_MASTER) master = read<WHOLE>(mine(r.master, block), count);
	float to[EACH], sum = 0;
#pragma unroll
	for (int i = 0; i < EACH; i++) {
		float from = WEIGHT == WEIGHT_MASTER ? __uint_as_float(master.at(i)) : w[i];
		if constexpr (BNB) {
			to[i] = stored(stored(fmaf(f.stepSize, x.u[i], from)) * f.decayFactor);
			if (CODES && x.u[i] != x.u[i]) to[i] = from;
			continue;
		}
		if constexpr (WEIGHT == WEIGHT_SPLIT8) // residual plus 128 is not negative
			from = joined(((unsigned)w.at(i).bits << 16 | (master.at(i) ^ 0x80) << 8) - 0x8000);
		to[i] = fmaf(from, f.decayFactor, -x.u[i]);
		sum += to[i];
	}
	if constexpr (WEIGHT == WEIGHT_SPLIT8 || WEIGHT == WEIGHT_STOCHASTIC) {
		if (sum != sum) { // one of them may be NaN: no carry may turn it into another number
#pragma unroll
			for (int i = 0; i < EACH; i++) to[i] = to[i] != to[i] ? __uint_as_float(0x7FC00000) : to[i];
		}
		unsigned bits[EACH];
		const unsigned long long first = r.first + (unsigned long long)block * QUANT_BLOCK;
		const unsigned seed[2] = {f.seed[0], f.seed[1] + (unsigned)(first >> 32)};
#pragma unroll
		for (int i = 0; i < EACH / 2; i++) {
			const int j = i + EACH / 2;
			bits[i] = aligned(to[i]);
			bits[j] = aligned(to[j]);
			if constexpr (WEIGHT == WEIGHT_STOCHASTIC) { // a 32-bit number serves two elements, one of either half
				const unsigned random = mixed((unsigned)first + 4 * lane() + element(i), seed);
				bits[i] += random & 0xFFFF;
				bits[j] += random >> 16;
			} else { // to 24 bits, ties to even, plus half of the weight's last bit: that flips the residual's high bit
				bits[i] += 0x807F + (bits[i] >> 8 & 1);
				bits[j] += 0x807F + (bits[j] >> 8 & 1);
			}
		}
#pragma unroll
		for (int h = 0; h < 2; h++) {
			const unsigned *four = bits + 4 * h;
			w.half[h] = upper(four);
			if constexpr (WEIGHT == WEIGHT_SPLIT8)
				master.half[h].words[0] =
					permute(permute(four[0], four[1], 0x51), permute(four[2], four[3], 0x51), 0x5410) ^ 0x80808080;
		}
	} else {
#pragma unroll
		for (int h = 0; h < 2; h++) {
			const float four[4] = {to[4 * h], to[4 * h + 1], to[4 * h + 2], to[4 * h + 3]};
			narrow(w.half[h].at, four);
		}
#pragma unroll
		for (int i = 0; i < EACH; i++) {
			if constexpr (WEIGHT == WEIGHT_MASTER) master.at(i) = __float_as_uint(to[i]);
		}
	}
	write<WHOLE>(mine(r.w, block), count, w);
	if constexpr (HAS_MASTER) write<WHOLE>(mine(r.master, block), count, master);
}

template <bool WHOLE> inline void step(const Range &r, const Factors &f, unsigned block, int count) {
	const Part x = state<WHOLE>(r, f, block, count);
	weights<WHOLE>(r, f, x, block, count);
	keep<WHOLE>(r, x, block, count);
}

// An Ahead prefetches what a warp will read of its next quantization block into the L2 cache, while the warp still
// computes the current one: each lane has a line of one of the range's arrays.
struct Ahead {
	const char *line;
	unsigned size; // of a quantization block in that array

	Ahead(const Range &r) {
		int i = lane();
		line = nullptr;
		auto of = [&](const void *x, unsigned bytes) {
			const int lines = max(bytes / 128, 1u);
			if (i >= 0 && i < lines) line = (const char *)x + i * 128, size = bytes;
			i -= lines;
		};
		of(r.g, QUANT_BLOCK * sizeof(Gradient));
		if (WEIGHT != WEIGHT_MASTER) of(r.w, QUANT_BLOCK * sizeof(T));
		if (HAS_MASTER) of(r.master, QUANT_BLOCK * sizeof(Master));
		of(r.m, QUANT_BLOCK * sizeof(Moment));
		of(r.v, QUANT_BLOCK * sizeof(Moment));
		if (CODES) of(r.mScale, sizeof(float)), of(r.vScale, sizeof(float));
	}
	void prefetch(unsigned block) const {
		if (line) prefetchLine(line + (unsigned long long)block * size);
	}
};

// adamw takes the step, unless control says not to, for all quantization blocks of the ranges of a list. Warps process
// them in strides of the grid. seed is the step's; tensors derive their own from it.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM, 3) adamw(const Range *list, int blocks, const double *control,
	double gradScale, double oneMinusBeta1, double sqrtOneMinusBeta2, float decayFactor, float beta1, float beta2,
	float oneMinusBeta1f, float oneMinusBeta2, float sqrtBeta2, float stepSize, float root, float eps, long long seed) {
	waitForPrerequisites();
	if (control && control[3] != 1) return;
#if CODES
	mMap.fill(false);
	vMap.fill(!BNB);
#endif
	const double scale = control ? gradScale * control[2] : gradScale;
	Factors f = {(float)scale, decayFactor, beta1, oneMinusBeta1f, beta2, oneMinusBeta2, stepSize, root, eps,
		(float)(oneMinusBeta1 * scale), (float)(sqrtOneMinusBeta2 * scale), sqrtBeta2};
	Range r = {};
	Ahead ahead(r);
	const unsigned stride = gridDim.x * (BLOCK_DIM / 32);
	for (unsigned at = thread() / 32; at < blocks; at += stride) {
		while (at >= r.end) {
			r = *list++;
			ahead = Ahead(r);
			f.decayFactor = r.decays ? decayFactor : 1;
			const unsigned long long own = mix64(seed + r.number);
			f.seed[0] = own;
			f.seed[1] = own >> 32;
		}
		const unsigned block = at - r.begin;
		if (at + stride < r.end) ahead.prefetch(block + stride);
		if (block < r.whole) step<true>(r, f, block, 0);
		else step<false>(r, f, block, count(r, block));
	}
}

// squaresOf returns the calling thread's share of the sum of the squares of n gradients. WHOLE promises that they are
// whole vectors, at an address that is a multiple of theirs. Without it, the same threads add the same elements in the
// same order.
template <bool WHOLE> inline double squaresOf(const Gradient *g, unsigned n) {
	constexpr unsigned WIDE = 16 / sizeof(Gradient), VECTORS = 8, STRIDE = BLOCK_DIM * WIDE; // VECTORS are in flight
	double sum[2] = {};
	for (unsigned from = threadIdx.x * WIDE; from < n; from += VECTORS * STRIDE) {
		Vec<Gradient, WIDE> v[VECTORS];
#pragma unroll
		for (int k = 0; k < VECTORS; k++) {
			const unsigned at = from + k * STRIDE;
			if constexpr (WHOLE) {
				if (at < n) v[k] = loadStreamingOf<WIDE>(g + at, 0);
			} else {
#pragma unroll
				for (int i = 0; i < WIDE; i++) {
					if (at + i < n) v[k].at[i] = g[at + i];
				}
			}
		}
#pragma unroll
		for (int k = 0; k < VECTORS; k++) {
			if (from + k * STRIDE >= n) break;
#pragma unroll
			for (int i = 0; i < WIDE; i++) sum[i % 2] += (double)v[k][i] * v[k][i];
		}
	}
	return sum[0] + sum[1];
}

// adamw_squares stores the sum of the squares of each unit of a list's gradients. A thread block adds up a unit.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) adamw_squares(const Range *list, int units) {
	waitForPrerequisites();
	constexpr unsigned WIDE = 16 / sizeof(Gradient);
	Range r = {};
	for (unsigned at = blockIdx.x; at < units; at += gridDim.x) {
		while (at >= r.lastUnit) r = *list++;
		const long long from = (long long)(at - r.firstUnit) * r.unit,
						all = (long long)(r.end - r.begin - 1) * QUANT_BLOCK + r.last;
		const unsigned n = min((long long)r.unit, all - from);
		const Gradient *g = r.g + from;
		const bool whole = (unsigned long long)g % 16 == 0 && n % WIDE == 0;
		const double total = blockSum(whole ? squaresOf<true>(g, n) : squaresOf<false>(g, n));
		if (threadIdx.x == 0) r.sums[at - r.firstUnit] = total;
	}
}
