// Compiles loops for every instruction set. A file foo.c has two parts, one after the other:
//
//	#ifndef LEVEL
//	…types that the loops use…
//	#define EACH_LEVEL "foo.c"
//	#include "each_level.h"
//	static void (*const foo[CPU_LEVELS])(float *) = AT_EACH_LEVEL(foo);
//	…functions that call foo[cpu_level()](x)…
//	#else
//	static void AT_LEVEL(foo)(float *x) {…}
//	#endif
//
// So the loops are included once per level, with LEVEL (the level's name), VLEN (floats per vector), BF16_DOT (1 if
// there are bfloat16 dot products), BYTE_DOT (1 if there are dot products of bytes) and all of vec.h defined.
// AT_LEVEL(name) names whatever they define: name_avx2 and so on, so that the levels do not clash. Long loops are in a
// file of their own, which EACH_LEVEL then names: a .h file, because the go command compiles every .c file by itself
// too.
#include "level.h"
#include "tensor.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define AT_LEVEL(name) PASTE(name##_, LEVEL)

#if defined(__x86_64__)
#define AT_EACH_LEVEL(name) \
	{name##_portable, name##_portable, name##_avx2, name##_avx512, name##_avx512bf16, name##_avx512bf16}
#else // NEON is part of every arm64: the compiler turns the portable source into NEON
#define AT_EACH_LEVEL(name) {name##_portable, name##_portable}
#endif

// UNROLL unrolls a loop of at most 16 turns. SHUFFLE returns the listed lanes of a and b, one after the other.
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define UNROLL _Pragma("GCC unroll 16")
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (__typeof__(a)){__VA_ARGS__})
#endif

// clang has no push_options, and its attribute applies to the functions between push and pop.
#if defined(__clang__)
#define TARGET_PRAGMA(x) _Pragma(#x)
#define BEGIN_TARGET(features) \
	TARGET_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define END_TARGET _Pragma("clang attribute pop")
#else
#define TARGET_PRAGMA(x) _Pragma(#x)
#define BEGIN_TARGET(features) _Pragma("GCC push_options") TARGET_PRAGMA(GCC target(features))
#define END_TARGET _Pragma("GCC pop_options")
#endif

#define LEVEL portable
#define VLEN 4
#define BF16_DOT 0
#define BYTE_DOT 0
#include "vec.h"
#include EACH_LEVEL
#undef LEVEL
#undef VLEN

#if defined(__x86_64__)

#define LEVEL avx2
#define VLEN 8
BEGIN_TARGET("avx2,fma,f16c")
#include "vec.h"
#include EACH_LEVEL
END_TARGET
#undef LEVEL
#undef VLEN

#define LEVEL avx512
#define VLEN 16
BEGIN_TARGET("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")
#include "vec.h"
#include EACH_LEVEL
END_TARGET
#undef LEVEL
#undef BF16_DOT
#undef BYTE_DOT

#define LEVEL avx512bf16
#define BF16_DOT 1
#define BYTE_DOT 1
BEGIN_TARGET("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")
#include "vec.h"
#include EACH_LEVEL
END_TARGET
#undef LEVEL
#undef VLEN

#endif
#undef BF16_DOT
#undef BYTE_DOT
