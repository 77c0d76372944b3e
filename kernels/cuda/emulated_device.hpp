// What CUDA C++ means on the emulated GPU: included before a kernel's source, which a C++ compiler then takes as it is. Threads of
// a block are fibers, which the driver (emulated_driver.hpp) runs one after the other.
#pragma once

struct uint3 { unsigned x, y, z; };

// emulated_lanes is what the lanes of a warp gave when they met: up to 8 words each, of those that are here.
struct emulated_lanes {
	unsigned here;
	unsigned given[32][8];
};

// emulated_runtime is what the driver gives to a module when it loads it.
struct emulated_runtime {
	uint3 threadIdx, blockIdx, blockDim, gridDim; // of the thread that runs
	void (*sync_block)();
	const emulated_lanes *(*meet)(unsigned mask, const unsigned *given, int words); // waits for the lanes of the mask
	void (*copy_async)(void *shared, const void *global, bool there);
	void (*copy_commit)();
	void (*copy_wait)(int groups);
	void (*fault)(const char *what); // ends the thread
};

// emulated_module is what a module gives to the driver: its static shared memory, and the pointers to set to the dynamic one.
struct emulated_module {
	char *shared, *shared_end;
	void **dynamic, **dynamic_end;
};

// The bits of numbers, which the driver's own products use too.
inline unsigned __float_as_uint(float x) {
	unsigned bits;
	__builtin_memcpy(&bits, &x, 4);
	return bits;
}
inline float __uint_as_float(unsigned bits) {
	float x;
	__builtin_memcpy(&x, &bits, 4);
	return x;
}
inline int __float_as_int(float x) { return (int)__float_as_uint(x); }
inline float __int_as_float(int bits) { return __uint_as_float((unsigned)bits); }

// emulated_bf16 is cvt.rn.bf16.f32: the nearest, ties to even, a NaN to a NaN.
inline unsigned short emulated_bf16(float x) {
	const unsigned bits = __float_as_uint(x);
	if (x != x) return 0x7FFF;
	return (unsigned short)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

#ifndef EMULATED_VERSION // the rest is not for the driver
#define EMULATED 1
#define __global__
#define __device__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// One for all blocks, which never run at the same time. The linker names the ends of a section.
#define __shared__ static __attribute__((section("emulated_shared")))
#define EMULATED_DYNAMIC static __attribute__((section("emulated_dynamic"))) // what extern __shared__ becomes

typedef decltype(sizeof 0) size_t;
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };

extern "C" {
extern char __start_emulated_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_emulated_shared[] __attribute__((weak, visibility("hidden")));
extern void *__start_emulated_dynamic[] __attribute__((weak, visibility("hidden")));
extern void *__stop_emulated_dynamic[] __attribute__((weak, visibility("hidden")));
inline emulated_runtime *emulated;
__attribute__((visibility("default"), used)) inline void emulated_load(emulated_runtime *r, emulated_module *m) {
	emulated = r;
	*m = {__start_emulated_shared, __stop_emulated_shared, __start_emulated_dynamic, __stop_emulated_dynamic};
}
}

#define threadIdx (emulated->threadIdx)
#define blockIdx (emulated->blockIdx)
#define blockDim (emulated->blockDim)
#define gridDim (emulated->gridDim)

inline void __syncthreads() { emulated->sync_block(); }
inline void __threadfence() {}

// The lanes of a warp.

inline int emulated_lane() { return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32); }

inline void __syncwarp(unsigned mask = ~0u) { emulated->meet(mask, 0, 0); }

// emulated_shuffle gives x and returns what lane from gave, or x if that is in no segment of mine.
template <typename T> inline T emulated_shuffle(unsigned mask, T x, int from, bool mine) {
	static_assert(sizeof(T) == 4 || sizeof(T) == 8);
	const int words = sizeof(T) / 4;
	unsigned given[words];
	__builtin_memcpy(given, &x, sizeof x);
	const emulated_lanes *lanes = emulated->meet(mask, given, words);
	if (!mine) return x;
	if (!(lanes->here >> from & 1)) emulated->fault("a shuffle reads a lane that is not there");
	__builtin_memcpy(&x, lanes->given[from], sizeof x);
	return x;
}
template <typename T> inline T __shfl_sync(unsigned mask, T x, int from, int width = 32) {
	return emulated_shuffle(mask, x, (emulated_lane() & -width) | (from & (width - 1)), true);
}
template <typename T> inline T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32) {
	const int from = emulated_lane() - (int)by;
	return emulated_shuffle(mask, x, from & 31, from >= (emulated_lane() & -width));
}
template <typename T> inline T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32) {
	const int from = emulated_lane() + (int)by;
	return emulated_shuffle(mask, x, from & 31, from < (emulated_lane() & -width) + width);
}
template <typename T> inline T __shfl_xor_sync(unsigned mask, T x, int lanes, int width = 32) {
	const int from = emulated_lane() ^ lanes;
	return emulated_shuffle(mask, x, from & 31, from < (emulated_lane() & -width) + width);
}
inline unsigned __ballot_sync(unsigned mask, int x) {
	const unsigned given = x != 0;
	const emulated_lanes *lanes = emulated->meet(mask, &given, 1);
	unsigned all = 0;
	for (int i = 0; i < 32; i++) {
		if (mask & lanes->here & 1u << i) all |= lanes->given[i][0] << i;
	}
	return all;
}
inline int __any_sync(unsigned mask, int x) { return __ballot_sync(mask, x) != 0; }
inline int __all_sync(unsigned mask, int x) { return __ballot_sync(mask, !x) == 0; }

// Blocks and threads run one after the other.
inline int atomicAdd(int *p, int x) { return *p += x, *p - x; }
inline unsigned atomicAdd(unsigned *p, unsigned x) { return *p += x, *p - x; }

// Numbers. Nothing is included: a header of the C++ library takes longer to compile than a kernel.
extern "C" {
float expf(float), exp2f(float), expm1f(float), logf(float), log2f(float), log1pf(float), powf(float, float), sqrtf(float);
double sqrt(double);
float tanhf(float), erff(float), sinf(float), cosf(float), fabsf(float), fminf(float, float), fmaxf(float, float);
float fmaf(float, float, float), floorf(float), ceilf(float), truncf(float), rintf(float), ldexpf(float, int), copysignf(float, float);
}
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fadd_rn(float a, float b) { return a + b; } // no sum is joined with a product here, as these ask
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline bool isnan(float x) { return x != x; }
inline bool isinf(float x) { return x - x != x - x && x == x; }
inline bool isfinite(float x) { return x - x == 0; }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline long long min(long long a, long long b) { return a < b ? a : b; }
inline long long max(long long a, long long b) { return a > b ? a : b; }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }

// Ways to memory differ in speed only.
template <typename T> inline T __ldg(const T *p) { return *p; }
template <typename T> inline T __ldcs(const T *p) { return *p; }
template <typename T> inline T __ldcg(const T *p) { return *p; }
template <typename T> inline void __stcs(T *p, T x) { *p = x; }
template <typename T> inline void __stcg(T *p, T x) { *p = x; }

// A launch hands a kernel its parameters where they lie.
template <int... I> struct emulated_indices {};
template <int N, int... I> struct emulated_up_to : emulated_up_to<N - 1, N - 1, I...> {};
template <int... I> struct emulated_up_to<0, I...> { typedef emulated_indices<I...> type; };
template <typename... A, int... I>
inline void emulated_call(void (*kernel)(A...), void **parameters, emulated_indices<I...>) {
	kernel(*(A *)parameters[I]...);
}
template <typename... A> inline void emulated_launch(void (*kernel)(A...), void **parameters) {
	emulated_call(kernel, parameters, typename emulated_up_to<sizeof...(A)>::type());
}
#define EMULATED_KERNEL(name) \
	extern "C" __attribute__((visibility("default"))) void emulated_##name(void **parameters) { emulated_launch(name, parameters); }
#endif
