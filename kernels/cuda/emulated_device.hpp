// What CUDA C++ means on the emulated GPU: included before a kernel's source, which a C++ compiler then takes as it is. Threads of
// a block are fibers, which the driver (emulated_driver.hpp) runs one after the other.
#pragma once

// Nothing is included: a header of the C++ library takes longer to compile than a kernel.
extern "C" float expf(float), exp2f(float), sqrtf(float), fabsf(float);

#define EMULATED 1
#define __global__
#define __device__
#define __launch_bounds__(...)
#define __shared__ static // one for all blocks, which never run at the same time

struct uint3 { unsigned x, y, z; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };

// emulated_runtime is what the driver gives to a module when it loads it.
struct emulated_runtime {
	uint3 threadIdx, blockIdx, blockDim, gridDim; // of the thread that runs
	void (*sync_block)();
	unsigned (*exchange)(unsigned mask, unsigned value, int lane); // gives value, and returns what a lane of the warp gave
};
extern "C" {
inline emulated_runtime *emulated;
__attribute__((visibility("default"), used)) inline void emulated_load(emulated_runtime *r) { emulated = r; }
}

#define threadIdx (emulated->threadIdx)
#define blockIdx (emulated->blockIdx)
#define blockDim (emulated->blockDim)
#define gridDim (emulated->gridDim)

inline void __syncthreads() { emulated->sync_block(); }

template <typename T> inline T __shfl_xor_sync(unsigned mask, T x, int lanes) {
	static_assert(sizeof(T) == 4);
	unsigned bits;
	__builtin_memcpy(&bits, &x, 4);
	bits = emulated->exchange(mask, bits, (int)(threadIdx.x % 32) ^ lanes);
	__builtin_memcpy(&x, &bits, 4);
	return x;
}

inline float __uint_as_float(unsigned x) {
	float f;
	__builtin_memcpy(&f, &x, 4);
	return f;
}
// emulated_bf16 is cvt.rn.bf16.f32: the nearest, ties to even, a NaN to a NaN.
inline unsigned short emulated_bf16(float x) {
	unsigned bits;
	__builtin_memcpy(&bits, &x, 4);
	if (x != x) return 0x7FFF;
	return (unsigned short)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
inline float __fdividef(float a, float b) { return a / b; }
template <typename T> inline T __ldcs(const T *p) { return *p; }
template <typename T> inline void __stcs(T *p, T x) { *p = x; }

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
