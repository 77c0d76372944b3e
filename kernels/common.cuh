// What the sources share. Nothing of CUDA's toolkit is included: a machine may have the compiler and not the headers.
//
// A source is compiled once for each set of macros that it is launched with. These mean the same in all sources:
//
//   BLOCK         threads of a block, which every source is given
//   BF16 or F32   the type T of activations and weights
//   WIDTH         elements that a thread loads and stores at once, a Vector
//   DIM           elements of a row, so that loops over a row have a known end and the row stays in registers
#pragma once

// exp2Rough is 2^x, off by 2^-22, and reciprocal 1/x, off by an ulp: an instruction each. Subnormal numbers count as 0.
#ifdef EMULATED
inline float exp2Rough(float x) { return exp2f(x); }
inline float reciprocal(float x) { return 1 / x; }
#else
inline float exp2Rough(float x) {
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
inline float reciprocal(float x) {
	float y;
	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
#endif

// thread is the number of this thread in a grid of one dimension.
inline long long thread() { return (long long)blockIdx.x * BLOCK + threadIdx.x; }

#ifdef BF16
struct T {
	unsigned short bits;
};
inline float value(T x) { return __uint_as_float((unsigned)x.bits << 16); }
#elif defined F32
typedef float T;
inline float value(T x) { return x; }
#endif

#ifdef WIDTH
#ifdef DIM
constexpr int VECTORS = DIM / WIDTH; // of a row
#endif

template <int BYTES> struct Words;
template <> struct Words<16> { typedef uint4 type; };
template <> struct Words<8> { typedef uint2 type; };
template <> struct Words<4> { typedef unsigned type; };
template <> struct Words<2> { typedef unsigned short type; };
typedef Words<WIDTH * sizeof(T)>::type Word;

// A Vector is WIDTH neighbouring elements as they are in memory.
union Vector {
	Word word = Word();
	T at[WIDTH];
	float operator[](int i) const { return value(at[i]); }
};

// fetch reads a vector that many blocks want. load and store are for those that are passed over once: marked so, they leave the
// caches first. To mark one kind and not the other costs a tenth of the bandwidth on an H200.
inline Vector fetch(const T *rows, long long vector) {
	Vector v;
	v.word = ((const Word *)rows)[vector];
	return v;
}
inline Vector load(const T *rows, long long vector) {
	Vector v;
	v.word = __ldcs((const Word *)rows + vector);
	return v;
}

// prefetch has the vector brought near, into the level 2 cache.
inline void prefetch(const T *rows, long long vector) {
#ifndef EMULATED
	asm volatile("prefetch.global.L2 [%0];" ::"l"((const Word *)rows + vector));
#endif
}

// rounded makes a vector of floats: to the nearest that T has, ties to even.
inline Vector rounded(const float (&f)[WIDTH]) {
	Vector v;
#if defined BF16 && defined EMULATED
	for (int i = 0; i < WIDTH; i++) v.at[i].bits = emulated_bf16(f[i]);
#elif defined BF16
	if constexpr (WIDTH == 1) {
		asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(v.at[0].bits) : "f"(f[0]));
	} else {
#pragma unroll
		for (int i = 0; i < WIDTH; i += 2) {
			unsigned pair;
			asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(f[i + 1]), "f"(f[i]));
			v.at[i].bits = pair;
			v.at[i + 1].bits = pair >> 16;
		}
	}
#else
#pragma unroll
	for (int i = 0; i < WIDTH; i++) v.at[i] = f[i];
#endif
	return v;
}

// each makes a vector of what f says for each of its elements.
template <typename F> inline Vector each(F f) {
	float out[WIDTH];
#pragma unroll
	for (int i = 0; i < WIDTH; i++) out[i] = f(i);
	return rounded(out);
}

inline void store(T *rows, long long vector, Vector v) { __stcs((Word *)rows + vector, v.word); }
#endif
