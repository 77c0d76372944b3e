// What the sources share. It includes nothing of CUDA's toolkit: a machine may have the compiler but not the headers.
//
// A source is compiled once for each set of macros that it is launched with. These mean the same in all sources:
//
//   BLOCK_DIM     threads per block, defined for every source
//   BF16, F16 or F32  the type T of activations and weights
//   TO_BF16, TO_F16   the type To of what is written, if it may differ; without either it is F32
//   WIDTH         elements that a thread loads and stores at once, a Vector
//   C_BF16, C_F16, C_F32  the type C of a product's result
//   DIM           elements of a row, so that loops over a row have a constant length and the row stays in registers
#pragma once

#define INFINITY __uint_as_float(0x7F800000)

// An exponent is a score times a scale, minus the largest such product of the row. With an fma, which subtracts a
// rounded product from an exact one, even the exponent of the largest score is off by up to half an ulp of the product.
// All exponents of the row share that, and dividing by their sum removes it, unless it is so large that powers of it
// overflow. From HUGE_SCORE on, the exponents are computed without an fma.
constexpr float HUGE_SCORE = 1 << 24;

// exp2Rough returns 2^x, off by 2^-22, tanhRough tanh x, off by 2^-11 of it, reciprocal 1/x and rootRough √x, both off
// by an ulp: one instruction each.
// Subnormal numbers count as 0.
#ifdef EMULATED
inline float exp2Rough(float x) { return exp2f(x); }
inline float tanhRough(float x) { return __uint_as_float((__float_as_uint(tanhf(x)) + 0x800) & ~0xFFFu); }
inline float reciprocal(float x) { return 1 / x; }
inline float rootRough(float x) { return sqrtf(x); }
#else
inline float exp2Rough(float x) {
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
inline float tanhRough(float x) {
	float y;
	asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
inline float reciprocal(float x) {
	float y;
	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
inline float rootRough(float x) {
	float y;
	asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
#endif

// largestOfWarp returns the largest x of the warp's lanes.
inline unsigned largestOfWarp(unsigned x) {
#if defined EMULATED || __CUDA_ARCH__ < 800
	for (int i = 1; i < 32; i *= 2) x = max(x, __shfl_xor_sync(~0u, x, i));
	return x;
#else
	unsigned largest;
	asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(largest) : "r"(x));
	return largest;
#endif
}

// permute combines four bytes of a and b into a word: each digit of the selector, lowest first, selects one, 0 to 3
// from a and 4 to 7 from b; 8 more replicates its sign over the whole byte.
inline unsigned permute(unsigned a, unsigned b, unsigned selector) {
	unsigned y = 0;
#ifdef EMULATED
	const unsigned long long both = (unsigned long long)b << 32 | a;
	for (int i = 0; i < 4; i++) {
		const unsigned digit = selector >> 4 * i & 15, byte = both >> 8 * (digit & 7) & 0xFF;
		y |= (digit < 8 ? byte : byte >> 7 ? 0xFF : 0) << 8 * i;
	}
#else
	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(selector));
#endif
	return y;
}

// A Shared is an address in shared memory, for instructions that can address only that; loadShared reads a word from
// it. From a generic address, the compiler would compute it again for each index.
#ifdef EMULATED
typedef const char *Shared;
inline Shared shared(const void *p) { return (Shared)p; }
inline unsigned loadShared(Shared p) { return *(const unsigned *)p; }
#else
typedef unsigned Shared;
inline Shared shared(const void *p) { return (Shared)__cvta_generic_to_shared(p); }
inline unsigned loadShared(Shared p) {
	unsigned x;
	asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(p) : "memory");
	return x;
}
#endif

// Programmatic dependent launch: a kernel may start as soon as all thread blocks of the previous kernel have called
// launchDependents or ended. So each thread of every kernel calls waitForPrerequisites before it reads what an earlier
// kernel writes, before it writes what an earlier kernel reads or writes, and in any case before it ends. A kernel that
// waits for this one has then waited for all earlier ones. Before sm_90, and where the driver does not support it, the
// previous kernel has ended, and waitForPrerequisites returns at once.
inline void launchDependents() {
#if !defined EMULATED && __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
inline void waitForPrerequisites() {
#ifdef EMULATED
	emulated.wait_prerequisites();
#elif __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// isLastBlock tells all threads of a thread block whether it is the last of n blocks to reach the counter. The last
// block may read what the others wrote before their calls. The counter is 0 before the first call and after the last.
inline bool isLastBlock(unsigned *counter, int n) {
	__shared__ bool last;
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0) {
		last = atomicInc(counter, n - 1) == n - 1;
		__threadfence();
	}
	__syncthreads();
	return last;
}

// thread returns the number of this thread in a one-dimensional grid.
inline long long thread() { return (long long)blockIdx.x * BLOCK_DIM + threadIdx.x; }

struct bf16 {
	unsigned short bits;
};
struct f16 {
	unsigned short bits;
};
inline float value(bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
inline float value(float x) { return x; }
inline float value(f16 x) {
#ifdef EMULATED
	return emulated_of_f16(x.bits);
#else
	float y;
	asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
	return y;
#endif
}

// rounded returns the bits of the nearest value of the type, ties to even, and pairRounded the bits of two such values,
// lo in the lower half.
template <typename E> constexpr bool IsBF16 = false;
template <> constexpr bool IsBF16<bf16> = true;
#ifdef EMULATED
inline unsigned short rounded(bf16, float x) { return emulated_bf16(x); }
inline unsigned short rounded(f16, float x) { return emulated_f16(x); }
template <typename E> inline unsigned pairRounded(E type, float lo, float hi) {
	return rounded(type, lo) | (unsigned)rounded(type, hi) << 16;
}
#else
template <typename E> inline unsigned short rounded(E, float x) {
	unsigned short y;
	if constexpr (IsBF16<E>) asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
	else asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
	return y;
}
template <typename E> inline unsigned pairRounded(E type, float lo, float hi) {
	unsigned pair;
	if constexpr (IsBF16<E>) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
#if __CUDA_ARCH__ >= 800
	else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
#else
	else pair = rounded(type, lo) | (unsigned)rounded(type, hi) << 16;
#endif
	return pair;
}
#endif

// narrow rounds n floats to the nearest value of the type, ties to even.
template <int N> inline void narrow(float (&to)[N], const float (&from)[N]) {
#pragma unroll
	for (int i = 0; i < N; i++) to[i] = from[i];
}
template <typename E, int N> inline void narrow(E (&to)[N], const float (&from)[N]) {
	if constexpr (N == 1) {
		to[0].bits = rounded(E(), from[0]);
	} else {
#pragma unroll
		for (int i = 0; i < N; i += 2) {
			const unsigned pair = pairRounded(E(), from[i], from[i + 1]);
			to[i].bits = pair;
			to[i + 1].bits = pair >> 16;
		}
	}
}

template <int BYTES> struct Words { typedef uint4 type; };
template <> struct Words<8> { typedef uint2 type; };
template <> struct Words<4> { typedef unsigned type; };
template <> struct Words<2> { typedef unsigned short type; };
template <> struct Words<1> { typedef unsigned char type; };

// A Vec is N adjacent elements as they are in memory, moved in words of up to 16 bytes.
template <typename E, int N> union Vec {
	typedef typename Words<N * sizeof(E)>::type Word;
	static constexpr int WORDS = N * sizeof(E) / sizeof(Word);
	Word words[WORDS] = {};
	E at[N];
	float operator[](int i) const { return value(at[i]); }
};

// loadCachedOf reads vector i of N elements, which many thread blocks will read. loadStreamingOf and store are for data
// that is read or written once: marked so, it leaves the caches first. Marking one but not the other costs a tenth of
// the bandwidth on an H200.
template <int N, typename E> inline Vec<E, N> loadCachedOf(const E *from, long long i) {
	Vec<E, N> v;
#pragma unroll
	for (int k = 0; k < v.WORDS; k++) v.words[k] = ((const typename Vec<E, N>::Word *)from)[i * v.WORDS + k];
	return v;
}
template <int N, typename E> inline Vec<E, N> loadStreamingOf(const E *from, long long i) {
	Vec<E, N> v;
#pragma unroll
	for (int k = 0; k < v.WORDS; k++) v.words[k] = __ldcs((const typename Vec<E, N>::Word *)from + i * v.WORDS + k);
	return v;
}
template <int N, typename E> inline void store(E *to, long long i, Vec<E, N> v) {
#pragma unroll
	for (int k = 0; k < v.WORDS; k++) __stcs((typename Vec<E, N>::Word *)to + i * v.WORDS + k, v.words[k]);
}

// prefetchLine prefetches the line at an address into the L2 cache.
inline void prefetchLine(const void *line) {
#ifndef EMULATED
	asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
#endif
}

#ifdef BF16
typedef bf16 T;
#elif defined F16
typedef f16 T;
#elif defined F32
typedef float T;
#endif
#ifdef C_BF16
typedef bf16 C;
#elif defined C_F16
typedef f16 C;
#elif defined C_F32
typedef float C;
#endif

// Half is the type of 16 bits of sources that tensor cores multiply in.
#ifdef F16
typedef f16 Half;
#else
typedef bf16 Half;
#endif

#if defined C_BF16 || defined C_F16 || defined C_F32
// put stores an element of a result, plus element i of the bias, plus the old value if add is set.
template <typename E> inline void put(C *at, float sum, const E *bias, long long i, int add) {
	const float out[1] = {sum + (bias ? value(bias[i]) : 0) + (add ? value(*at) : 0)};
	C rounded[1];
	narrow(rounded, out);
	*at = rounded[0];
}
#endif

#ifdef TO_BF16
typedef bf16 To;
#elif defined TO_F16
typedef f16 To;
#else
typedef float To;
#endif

#ifdef WIDTH
#ifdef DIM
constexpr int VECTORS = DIM / WIDTH; // per row
#endif

typedef Vec<T, WIDTH> Vector;
template <typename E> inline Vec<E, WIDTH> loadCached(const E *from, long long i) {
	return loadCachedOf<WIDTH>(from, i);
}
template <typename E> inline Vec<E, WIDTH> loadStreaming(const E *from, long long i) {
	return loadStreamingOf<WIDTH>(from, i);
}

// prefetch prefetches a vector.
inline void prefetch(const T *rows, long long i) { prefetchLine((const Vector::Word *)rows + i); }

// each returns a vector of f(i) for each of its elements, rounded.
template <typename E = T, typename F> inline Vec<E, WIDTH> each(F f) {
	float out[WIDTH];
#pragma unroll
	for (int i = 0; i < WIDTH; i++) out[i] = f(i);
	Vec<E, WIDTH> v;
	narrow(v.at, out);
	return v;
}
#endif
