// A step of AdamW, over all blocks of a list of tensors. The formulas are in adamw.go. A warp has a block of QUANTIZE_BLOCK
// elements; the largest of its moments is found among the lanes' registers, so that everything is read once.
//
//   WEIGHT          what the step does with the weight: one of the numbers below
//   CODES           1: moments are codes of 8 bits, 0: they are F32
//   G_F32 or G_BF16 the type of gradients
#include "codes.cuh"

enum { WEIGHT_F32, WEIGHT_BF16, WEIGHT_MASTER, WEIGHT_SPLIT8, WEIGHT_STOCHASTIC, WEIGHT_BNB_F32, WEIGHT_BNB_BF16 }; // as on the CPU

constexpr bool BNB = WEIGHT >= WEIGHT_BNB_F32;

#ifdef G_BF16
typedef bf16 Gradient;
#else
typedef float Gradient;
#endif
#if CODES
typedef byte Moment;
#else
typedef float Moment;
#endif
typedef Words<WEIGHT == 3 ? 1 : 4>::type Behind; // a residual or, as its bits, a master

// A Range is a tensor of the list, or a part of one.
struct Range {
	T *w;
	const Gradient *g;
	Moment *m, *v;
	float *mScale, *vScale;
	Behind *behind;
	long long n, first;  // elements, and which of the tensor's the first of them is
	long long begin;     // blocks of the ranges before it in the list
	long long whole;     // elements that are moved in vectors, in whole blocks
	int number, decays;  // of the tensor; whether weights decay
};
static_assert(sizeof(Range) == 96, "adamw.go says how much memory a list takes");

// adamw_range puts a range into a list.
extern "C" __global__ void __launch_bounds__(BLOCK)
	adamw_range(Range *list, int i, T *w, const Gradient *g, Moment *m, Moment *v, float *mScale, float *vScale, Behind *behind,
		long long n, long long first, long long begin, int number, int decays) {
	if (threadIdx.x > 0) return;
	typedef unsigned long long Bits;
	const Bits all = (Bits)w | (Bits)g | (Bits)m | (Bits)v | (Bits)behind;
	list[i] = {w, g, m, v, mScale, vScale, behind, n, first, begin, all % 16 ? 0 : n / QUANTIZE_BLOCK * QUANTIZE_BLOCK, number, decays};
}

// Factors are the same for all elements: cpu.AdamWFactors has them too.
struct Factors {
	float gradScale, keep, beta1, rest1, beta2, rest2, rate, root, eps, gainM, gainRoot, keepRoot;
	unsigned seed[2];
};

#if CODES
__shared__ Map<true> mMap;
__shared__ Map<false> vMap;
#endif

// Moments are those of a lane's elements, as numbers, and what the weights are to lose; for bitsandbytes a multiple of what they
// gain, or no number where they stay.
struct Moments {
	float m[EACH], v[EACH], u[EACH]; // v: its root where that is coded
};

template <bool WHOLE> inline Moments state(const Range &r, const Factors &f, long long at, int count) {
	const Elements<Gradient> g = read<WHOLE>(r.g + at, count);
	Elements<Moment> m = read<WHOLE>(r.m + at, count, Moment(CODES ? BNB ? 128 : 127 : 0)), v = read<WHOLE>(r.v + at, count);
	Moments x;
#if CODES
	const float mScale = r.mScale[at / QUANTIZE_BLOCK], vScale = r.vScale[at / QUANTIZE_BLOCK], root = f.keepRoot * vScale;
#endif
#pragma unroll
	for (int i = 0; i < EACH; i++) {
#if CODES
		const float m0 = mMap.number[m.at(i)], v0 = vMap.number[v.at(i)];
		if constexpr (!BNB) {
			const float h = g[i] * f.gainRoot;
			x.m[i] = fmaf(g[i], f.gainM, m0 * (f.beta1 * mScale));
			x.v[i] = sqrtf(fmaf(h, h, v0 * v0 * (root * root)));
			x.u[i] = f.rate * (x.m[i] / fmaf(x.v[i], f.root, f.eps));
		} else {
			const float s = g[i] * f.gradScale;
			const bool finite = s - s == 0;
			const float m1 = m0 * mScale, v1 = v0 * vScale;
			x.m[i] = finite ? fmaf(s, f.rest1, m1 * f.beta1) : 0;
			x.v[i] = !finite ? 0 : WEIGHT == WEIGHT_BNB_BF16 ? fmaf(v1, f.beta2, f.rest2 * s * s) : fmaf(s, f.rest2 * s, v1 * f.beta2);
			x.u[i] = finite ? x.m[i] * (1 / fmaf(f.root, f.eps, sqrtf(x.v[i]))) : __uint_as_float(0x7FC00000);
		}
#else
		const float s = g[i] * f.gradScale;
		x.m[i] = fmaf(m[i], f.beta1, f.rest1 * s);
		x.v[i] = fmaf(v[i], f.beta2, f.rest2 * (s * s));
		m.at(i) = x.m[i];
		v.at(i) = x.v[i];
		x.u[i] = BNB ? x.m[i] * (1 / fmaf(f.root, f.eps, sqrtf(x.v[i]))) : f.rate * (x.m[i] / fmaf(sqrtf(x.v[i]), f.root, f.eps));
#endif
	}
#if !CODES
	write<WHOLE>(r.m + at, count, m);
	write<WHOLE>(r.v + at, count, v);
#endif
	return x;
}

// keep codes the moments.
template <bool WHOLE> inline void keep(const Range &r, const Moments &x, long long at, int count) {
#if CODES
	const float mScale = largest(x.m), vScale = largest(x.v), byM = inverse(mScale), byV = inverse(vScale);
	Elements<byte> m, v;
#pragma unroll
	for (int i = 0; i < EACH; i++) {
		m.at(i) = mMap.code(x.m[i] * byM);
		v.at(i) = vMap.code(x.v[i] * byV);
		if constexpr (!BNB) continue;
		// What its search makes of 0/0; and a code whose sign is not m's gives way to its neighbour, upwards where m is more than zero.
		if (mScale == 0) m.at(i) = 0;
		if ((m.at(i) < 127) != (__float_as_uint(x.m[i]) >> 31)) m.at(i) += x.m[i] > 0 ? 1 : -1;
	}
	write<WHOLE>(r.m + at, count, m);
	write<WHOLE>(r.v + at, count, v);
	if (threadIdx.x % 32 == 0) {
		r.mScale[at / QUANTIZE_BLOCK] = mScale;
		r.vScale[at / QUANTIZE_BLOCK] = vScale;
	}
#endif
}

// mixed is 32 bits that look random, of a number i: two rounds of a multiplicative hash, each with a key of its own. Counters
// need no state, and no order.
inline unsigned mixed(unsigned i, const unsigned (&seed)[2]) {
#pragma unroll
	for (int k = 0; k < 2; k++) {
		i ^= seed[k];
		i = (i ^ i >> 16) * 0x7FEB352Du;
		i = (i ^ i >> 15) * 0x846CA68Bu;
		i ^= i >> 16;
	}
	return i;
}

// mix64 is SplitMix64's step, as in adamw.go.
inline unsigned long long mix64(unsigned long long x) {
	x += 0x9E3779B97F4A7C15;
	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
	x = (x ^ x >> 27) * 0x94D049BB133111EB;
	return x ^ x >> 31;
}

inline void setBits(bf16 &x, unsigned bits) { x.bits = bits; }
inline void setBits(float &x, unsigned bits) { x = __uint_as_float(bits); }

inline float rounded(float x) {
	if constexpr (WEIGHT != WEIGHT_BNB_BF16) return x;
	const float in[1] = {x};
	bf16 out[1];
	narrow(out, in);
	return value(out[0]);
}

// weights takes u from the weights, in each form as the CPU does, where more is said.
template <bool WHOLE> inline void weights(const Range &r, const Factors &f, const Moments &x, long long at, int count) {
	Elements<T> w;
	Elements<Behind> behind;
	if constexpr (WEIGHT != WEIGHT_MASTER) w = read<WHOLE>(r.w + at, count);
	if constexpr (WEIGHT == WEIGHT_MASTER || WEIGHT == WEIGHT_SPLIT8) behind = read<WHOLE>(r.behind + at, count);
	float to[EACH];
	unsigned random[4];
	if constexpr (WEIGHT == WEIGHT_STOCHASTIC) { // a number of 32 bits is enough for two: one of either half
		const long long first = r.first + at;
		const unsigned seed[2] = {f.seed[0], f.seed[1] + (unsigned)(first >> 32)};
#pragma unroll
		for (int i = 0; i < 4; i++) random[i] = mixed((unsigned)first + element(i), seed);
	}
#pragma unroll
	for (int i = 0; i < EACH; i++) {
		if constexpr (BNB) {
			to[i] = rounded(rounded(fmaf(f.rate, x.u[i], w[i])) * f.keep);
			if (CODES && x.u[i] != x.u[i]) to[i] = w[i];
			continue;
		}
		float from;
		if constexpr (WEIGHT == WEIGHT_MASTER) from = __uint_as_float(behind.at(i));
		else if constexpr (WEIGHT == WEIGHT_SPLIT8) from = __uint_as_float(__float_as_uint(w[i]) + (int)(signed char)behind.at(i) * 256);
		else from = w[i];
		to[i] = fmaf(from, f.keep, -x.u[i]);
		if constexpr (WEIGHT == WEIGHT_MASTER) behind.at(i) = __float_as_uint(to[i]);
		if constexpr (WEIGHT == WEIGHT_SPLIT8) { // 24 bits, ties to even, and then 16, ties away from zero
			const unsigned bits = to[i] != to[i] ? 0x7FC00000 : __float_as_uint(to[i]), most = (bits + 0x7F + (bits >> 8 & 1)) >> 8;
			behind.at(i) = most;
			setBits(w.at(i), (most + 0x80) >> 8);
		}
		if constexpr (WEIGHT == WEIGHT_STOCHASTIC) { // random bits are added to those that are cut off; no carry may make a NaN another
			const unsigned bits = __float_as_uint(to[i]), more = random[i % 4] >> i / 4 * 16 & 0xFFFF;
			setBits(w.at(i), to[i] != to[i] ? bits >> 16 | 0x40 : (bits + more) >> 16);
		}
	}
	if constexpr (WEIGHT != WEIGHT_SPLIT8 && WEIGHT != WEIGHT_STOCHASTIC) {
#pragma unroll
		for (int h = 0; h < 2; h++) {
			const float four[4] = {to[4 * h], to[4 * h + 1], to[4 * h + 2], to[4 * h + 3]};
			narrow(w.half[h].at, four);
		}
	}
	write<WHOLE>(r.w + at, count, w);
	if constexpr (WEIGHT == WEIGHT_MASTER || WEIGHT == WEIGHT_SPLIT8) write<WHOLE>(r.behind + at, count, behind);
}

template <bool WHOLE> inline void step(const Range &r, const Factors &f, long long at, int count) {
	const Moments x = state<WHOLE>(r, f, at, count);
	weights<WHOLE>(r, f, x, at, count);
	keep<WHOLE>(r, x, at, count);
}

// adamw takes the step, unless control says that there is none, for all blocks of the ranges of a list.
// Warps go through them in strides of the grid. Seed is that of the step: tensors have their own of it.
extern "C" __global__ void __launch_bounds__(BLOCK)
	adamw(const Range *list, long long blocks, const double *control, double gradScale, double rest1, double rootRest2, float keep,
		float beta1, float beta2, float rest1f, float rest2, float keepRoot, float rate, float root, float eps, long long seed) {
	if (control && control[3] != 1) return;
#if CODES
	mMap.fill(false);
	vMap.fill(!BNB);
#endif
	const double scale = control ? gradScale * control[2] : gradScale;
	Factors f = {(float)scale, keep, beta1, rest1f, beta2, rest2, rate, root, eps, (float)(rest1 * scale), (float)(rootRest2 * scale), keepRoot};
	long long end = 0;
	Range r;
	for (long long block = thread() / 32; block < blocks; block += gridDim.x * (BLOCK / 32)) {
		while (block >= end) {
			r = *list++;
			end = r.begin + (r.n + QUANTIZE_BLOCK - 1) / QUANTIZE_BLOCK;
			f.keep = r.decays ? keep : 1;
			const unsigned long long own = mix64(seed + r.number);
			f.seed[0] = own;
			f.seed[1] = own >> 32;
		}
		const long long at = (block - r.begin) * QUANTIZE_BLOCK;
		if (at < r.whole) step<true>(r, f, at, QUANTIZE_BLOCK);
		else step<false>(r, f, at, min(r.n - at, (long long)QUANTIZE_BLOCK));
	}
}
