// What CUDA C++ means on the emulated GPU: included before a kernel's source, which a C++ compiler then takes
// unchanged. The threads of a block are fibers (threads.cpp), which run one after the other. The compiler makes each of
// their memory accesses call __tsan_read or __tsan_write, and each at an address that is not aligned for its type call
// __ubsan_handle_type_mismatch. These functions, defined below, pass it to memory.cpp; no sanitizer library is linked.
#pragma once

struct uint3 { unsigned x, y, z; };

// emulated_lanes holds what the lanes of a warp passed when they met: up to 8 words each, for the lanes in here.
struct emulated_lanes {
	unsigned here;
	unsigned given[32][8];
};

// emulated_runtime is what the driver passes to a module.
struct emulated_runtime {
	uint3 threadIdx, blockIdx, blockDim, gridDim; // of the running thread
	unsigned long stacks, stacks_bytes;           // where the threads have their own memory
	void *dynamic;                                // shared memory
	void (*access)(const void *p, unsigned long bytes, int kind);
	void (*misaligned)(const void *p, unsigned long multiple, const char *file, unsigned line);
	void (*sync_block)(int line);
	void (*sync_warp)(unsigned mask);
	const emulated_lanes *(*meet)(unsigned mask, const unsigned *given, int words); // waits for the lanes of the mask
	void (*mma)(float *d, const unsigned *a, const unsigned *b, bool f16);
	void (*mma_tf32)(float *d, const unsigned *a, const unsigned *b);
	void (*mma_bytes)(int *d, const unsigned *a, const unsigned *b);
	void (*ldmatrix)(unsigned *r, const void *row, bool transposed);
	void (*copy_async)(void *shared, const void *global, bool there);
	void (*copy_commit)();
	void (*copy_wait)(int groups);
	void (*fence)();
	// what tiles.cpp has: see wgmma.cuh
	void (*barrier_init)(void *b, int arrivals);
	void (*barrier_arrive)(void *b, int bytes);
	void (*barrier_wait)(void *b, int parity);
	void (*tile_load)(void *to, const void *map, int row, int column, void *b);
	void (*tile_store)(const void *map, int row, int column, const void *from);
	void (*tile_read)(unsigned *to, const void *from);
	void (*tile_matrices)(unsigned *r, const void *row);
	void (*tile_write)(void *to, const unsigned *from);
	void (*tile_fence)();
	void (*tile_commit)();
	void (*tile_wait)(int groups);
	void (*sync_some)(int barrier, int threads);
	void (*arrive_some)(int barrier, int threads);
	void (*stmatrix)(void *row, const unsigned *r);
	void (*group_multiply)(void *d, int columns, const void *a, const void *b, int how); // how: see group_product
	void (*group_commit)();
	void (*group_wait)(int groups);
	void (*wait_prerequisites)(); // for the earlier kernels, if this one was launched early
	void (*fault)(const char *what); // ends the thread
};
enum { EMULATED_READ, EMULATED_WRITE, EMULATED_ATOMIC };

// emulated_module is what a module passes to the driver: its static shared memory, and the pointers to its dynamic
// shared memory, which the driver sets.
struct emulated_module {
	emulated_runtime *runtime;
	char *shared, *shared_end;
	void **dynamic, **dynamic_end;
};

// Bit casts, which the driver's own products use too. EMULATED_UNSEEN code does not report its accesses.
#ifdef __clang__
#define EMULATED_UNSEEN __attribute__((no_sanitize("thread", "alignment"), disable_sanitizer_instrumentation))
#else
#define EMULATED_UNSEEN __attribute__((no_sanitize("thread"), no_sanitize("alignment")))
#endif
EMULATED_UNSEEN inline unsigned __float_as_uint(float x) {
	unsigned bits;
	__builtin_memcpy(&bits, &x, 4);
	return bits;
}
EMULATED_UNSEEN inline float __uint_as_float(unsigned bits) {
	float x;
	__builtin_memcpy(&x, &bits, 4);
	return x;
}
EMULATED_UNSEEN inline int __float_as_int(float x) { return (int)__float_as_uint(x); }
EMULATED_UNSEEN inline float __int_as_float(int bits) { return __uint_as_float((unsigned)bits); }

// emulated_bf16 is cvt.rn.bf16.f32: it returns the nearest BF16, ties to even, and a NaN for a NaN.
EMULATED_UNSEEN inline unsigned short emulated_bf16(float x) {
	const unsigned bits = __float_as_uint(x);
	if (x != x) return 0x7FFF;
	return (unsigned short)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// emulated_f16 is cvt.rn.f16.f32 in the same way, and emulated_of_f16 is cvt.f32.f16.
EMULATED_UNSEEN inline unsigned short emulated_f16(float x) {
	const unsigned bits = __float_as_uint(x), magnitude = bits & 0x7FFFFFFF, sign = bits >> 16 & 0x8000;
	if (x != x) return 0x7FFF;
	if (magnitude >= 0x477FF000) return (unsigned short)(sign | 0x7C00); // from 65,520 on
	if (magnitude < 0x38800000) // below 2⁻¹⁴, the last place is 0.5's
		return (unsigned short)(sign | (__float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3F000000));
	return (unsigned short)(sign | (magnitude - (112 << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13);
}
EMULATED_UNSEEN inline float emulated_of_f16(unsigned short h) {
	const unsigned magnitude = (h & 0x7FFFu) << 13, sign = (h & 0x8000u) << 16;
	if (magnitude >= 0x0F800000) return __uint_as_float(magnitude | 0x7F800000 | sign);
	return __uint_as_float(__float_as_uint(__uint_as_float(magnitude) * 0x1p112f) | sign);
}

#ifndef EMULATED_VERSION // the rest is not for the driver
#define EMULATED 1
#define __global__
#define __device__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
// There is one for all thread blocks, which never run at the same time. Uninitialized static data is in the section
// .bss, and nothing else is: the linker tells where that starts and ends.
#define __shared__ static
// extern __shared__ becomes one of these: outside of functions a pointer in a section of its own, inside of them a
// thread's pointer.
#define EMULATED_DYNAMIC static __attribute__((section("emulated_dynamic")))

typedef decltype(sizeof 0) size_t;
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };

extern "C" {
extern char __bss_start[] __attribute__((visibility("hidden")));
extern char _end[] __attribute__((visibility("hidden")));
extern void *__start_emulated_dynamic[] __attribute__((weak, visibility("hidden")));
extern void *__stop_emulated_dynamic[] __attribute__((weak, visibility("hidden")));
inline emulated_runtime emulated = {{1}}; // not in .bss
__attribute__((visibility("default"), used)) inline EMULATED_UNSEEN void emulated_load(emulated_module *m) {
	*m = {&emulated, __bss_start, _end, __start_emulated_dynamic, __stop_emulated_dynamic};
}

#define EMULATED_SEEN __attribute__((used)) inline EMULATED_UNSEEN void
EMULATED_SEEN emulated_seen(const void *p, size_t bytes, int kind) {
	if ((size_t)p - emulated.stacks >= emulated.stacks_bytes) emulated.access(p, bytes, kind);
}
#define EMULATED_SIZE(n) \
	EMULATED_SEEN __tsan_read##n(void *p) { emulated_seen(p, n, EMULATED_READ); } \
	EMULATED_SEEN __tsan_write##n(void *p) { emulated_seen(p, n, EMULATED_WRITE); } \
	EMULATED_SEEN __tsan_unaligned_read##n(void *p) { emulated_seen(p, n, EMULATED_READ); } \
	EMULATED_SEEN __tsan_unaligned_write##n(void *p) { emulated_seen(p, n, EMULATED_WRITE); }
EMULATED_SIZE(1)
EMULATED_SIZE(2)
EMULATED_SIZE(4)
EMULATED_SIZE(8)
EMULATED_SIZE(16)
EMULATED_SEEN __tsan_read_range(void *p, size_t bytes) { emulated_seen(p, bytes, EMULATED_READ); }
EMULATED_SEEN __tsan_write_range(void *p, size_t bytes) { emulated_seen(p, bytes, EMULATED_WRITE); }
#ifdef __clang__ // which uses these to copy structs
__attribute__((used)) inline EMULATED_UNSEEN void *memmove(void *to, const void *from, size_t bytes) {
	emulated_seen(from, bytes, EMULATED_READ), emulated_seen(to, bytes, EMULATED_WRITE);
	volatile char *t = (volatile char *)to;
	const volatile char *f = (const volatile char *)from;
	for (size_t i = 0; i < bytes; i++) {
		const size_t at = to < from ? i : bytes - 1 - i;
		t[at] = f[at];
	}
	return to;
}
__attribute__((used)) inline EMULATED_UNSEEN void *memcpy(void *to, const void *from, size_t bytes) {
	return memmove(to, from, bytes);
}
__attribute__((used)) inline EMULATED_UNSEEN void *memset(void *to, int value, size_t bytes) {
	emulated_seen(to, bytes, EMULATED_WRITE);
	for (size_t i = 0; i < bytes; i++) ((volatile char *)to)[i] = (char)value;
	return to;
}
__attribute__((used)) inline EMULATED_UNSEEN void *__tsan_memmove(void *to, const void *from, size_t bytes) {
	return memmove(to, from, bytes);
}
__attribute__((used)) inline EMULATED_UNSEEN void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
	return memmove(to, from, bytes);
}
__attribute__((used)) inline EMULATED_UNSEEN void *__tsan_memset(void *to, int value, size_t bytes) {
	return memset(to, value, bytes);
}
#endif
EMULATED_SEEN __tsan_init() {}
EMULATED_SEEN __tsan_func_entry(void *) {}
EMULATED_SEEN __tsan_func_exit() {}

struct emulated_mismatch { // the compiler's own, version 1
	const char *file;
	unsigned line, column;
	const void *type;
	unsigned char log_alignment, kind;
};
EMULATED_SEEN __ubsan_handle_type_mismatch_v1(emulated_mismatch *m, size_t p) {
	emulated.misaligned((const void *)p, 1ul << m->log_alignment, m->file, m->line);
}
}

// These are constant while a kernel runs in a thread.
#define EMULATED_PLACE(name) __attribute__((const, noinline)) inline EMULATED_UNSEEN uint3 emulated_##name() { \
	return emulated.name; \
}
EMULATED_PLACE(threadIdx)
EMULATED_PLACE(blockIdx)
EMULATED_PLACE(blockDim)
EMULATED_PLACE(gridDim)
#define threadIdx (emulated_threadIdx())
#define EMULATED_DYNAMIC_HERE (emulated_dynamic())
__attribute__((const, noinline)) inline EMULATED_UNSEEN void *emulated_dynamic() { return emulated.dynamic; }
#define blockIdx (emulated_blockIdx())
#define blockDim (emulated_blockDim())
#define gridDim (emulated_gridDim())

inline EMULATED_UNSEEN void __syncthreads(int line = __builtin_LINE()) { emulated.sync_block(line); }
inline EMULATED_UNSEEN void __threadfence() { emulated.fence(); }

// The lanes of a warp.

inline EMULATED_UNSEEN int emulated_lane() {
	return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}

inline EMULATED_UNSEEN void __syncwarp(unsigned mask = ~0u) { emulated.sync_warp(mask); }

// emulated_shuffle passes x and returns what lane from passed, or x if that lane is not in this lane's segment.
template <typename T> inline EMULATED_UNSEEN T emulated_shuffle(unsigned mask, T x, int from, bool mine) {
	static_assert(sizeof(T) == 4 || sizeof(T) == 8);
	const int words = sizeof(T) / 4;
	unsigned given[words];
	__builtin_memcpy(given, &x, sizeof x);
	const emulated_lanes *lanes = emulated.meet(mask, given, words);
	if (!mine) return x;
	if (!(lanes->here >> from & 1)) emulated.fault("a shuffle reads a lane that is not there");
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
inline EMULATED_UNSEEN unsigned __ballot_sync(unsigned mask, int x) {
	const unsigned given = x != 0;
	const emulated_lanes *lanes = emulated.meet(mask, &given, 1);
	unsigned all = 0;
	for (int i = 0; i < 32; i++) {
		if (mask & lanes->here & 1u << i) all |= lanes->given[i][0] << i;
	}
	return all;
}
inline int __any_sync(unsigned mask, int x) { return __ballot_sync(mask, x) != 0; }
inline int __all_sync(unsigned mask, int x) { return __ballot_sync(mask, !x) == 0; }

// Thread blocks and threads run one after the other.
template <typename T> inline EMULATED_UNSEEN T emulated_add(T *p, T x) {
	emulated_seen(p, sizeof x, EMULATED_ATOMIC);
	return *p += x, *p - x;
}
inline EMULATED_UNSEEN unsigned atomicInc(unsigned *p, unsigned limit) {
	emulated_seen(p, sizeof *p, EMULATED_ATOMIC);
	const unsigned before = *p;
	return *p = before >= limit ? 0 : before + 1, before;
}
inline int atomicAdd(int *p, int x) { return emulated_add(p, x); }
inline unsigned atomicAdd(unsigned *p, unsigned x) { return emulated_add(p, x); }

// Math functions. Nothing is included: a header of the C++ library takes longer to compile than a kernel.
extern "C" {
float expf(float), exp2f(float), expm1f(float), logf(float), log2f(float), log1pf(float), powf(float, float),
	sqrtf(float);
double sqrt(double);
float tanhf(float), erff(float), sinf(float), cosf(float), fabsf(float), fminf(float, float), fmaxf(float, float);
float fmaf(float, float, float), floorf(float), ceilf(float), truncf(float), rintf(float), ldexpf(float, int),
	copysignf(float, float);
}
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float a, float b) { return a / b; }
// the compiler never fuses a sum with a product here, which is what these functions are for
inline float __fadd_rn(float a, float b) { return a + b; }
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
inline int __popc(unsigned x) { // the compiler's own may be a function of its library, which is not linked
	int n = 0;
	for (; x; x &= x - 1) n++;
	return n;
}
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }

// The kinds of loads and stores differ only in speed. Clang does not check the addresses of structs.
template <typename T> inline EMULATED_UNSEEN T *emulated_fits(T *p) {
	if ((size_t)p % alignof(T)) emulated.misaligned(p, alignof(T), "", 0);
	return p;
}
template <typename T> inline T __ldg(const T *p) { return *emulated_fits(p); }
template <typename T> inline T __ldcs(const T *p) { return *emulated_fits(p); }
template <typename T> inline T __ldcg(const T *p) { return *emulated_fits(p); }
template <typename T> inline void __stcs(T *p, T x) { *emulated_fits(p) = x; }
template <typename T> inline void __stcg(T *p, T x) { *emulated_fits(p) = x; }

// A launch passes pointers to a kernel's parameters.
template <int... I> struct emulated_indices {};
template <int N, int... I> struct emulated_up_to : emulated_up_to<N - 1, N - 1, I...> {};
template <int... I> struct emulated_up_to<0, I...> { typedef emulated_indices<I...> type; };
template <typename... A, int... I>
inline EMULATED_UNSEEN void emulated_call(void (*kernel)(A...), void **parameters, emulated_indices<I...>) {
	kernel(*(A *)parameters[I]...);
}
template <typename... A> inline EMULATED_UNSEEN void emulated_launch(void (*kernel)(A...), void **parameters) {
	emulated_call(kernel, parameters, typename emulated_up_to<sizeof...(A)>::type());
}
template <typename... A> constexpr int emulated_count(void (*)(A...)) { return sizeof...(A); }
template <typename... A> constexpr int emulated_bytes(void (*)(A...), int i) {
	const int bytes[] = {sizeof(A)..., 0};
	return bytes[i];
}
#define EMULATED_KERNEL(name)                                                                                   \
	extern "C" __attribute__((visibility("default"))) EMULATED_UNSEEN int emulated_count_##name() {             \
		return emulated_count(name);                                                                            \
	}                                                                                                           \
	extern "C" __attribute__((visibility("default"))) EMULATED_UNSEEN int emulated_bytes_##name(int i) {        \
		return emulated_bytes(name, i);                                                                         \
	}                                                                                                           \
	extern "C" __attribute__((visibility("default"))) EMULATED_UNSEEN void emulated_##name(void **parameters) { \
		emulated_launch(name, parameters);                                                                      \
	}
#endif
