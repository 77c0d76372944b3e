// Vectors of VLEN floats, as wide as the level's registers, in the vector extensions that gcc and clang share: + - * /
// and comparisons work on them as on floats. each_level.h includes this once per level. Intrinsics are used only if the
// compilers would not find the instruction.

#ifndef RESTYLE_VEC_H
#define RESTYLE_VEC_H

typedef float v4 __attribute__((vector_size(16)));
typedef float v8 __attribute__((vector_size(32)));
typedef float v16 __attribute__((vector_size(64)));
typedef int32_t vi4 __attribute__((vector_size(16)));
typedef int32_t vi8 __attribute__((vector_size(32)));
typedef int32_t vi16 __attribute__((vector_size(64)));
typedef uint32_t vu4 __attribute__((vector_size(16)));
typedef uint32_t vu8 __attribute__((vector_size(32)));
typedef uint32_t vu16 __attribute__((vector_size(64)));
typedef uint16_t vh4 __attribute__((vector_size(8)));
typedef uint16_t vh8 __attribute__((vector_size(16)));
typedef uint16_t vh16 __attribute__((vector_size(32)));

#define vec PASTE(v, VLEN)     // floats
#define vecint PASTE(vi, VLEN) // int32; comparisons yield -1 for true
#define vecuns PASTE(vu, VLEN) // uint32
#define vechalf PASTE(vh, VLEN) // bits of BF16 or F16

#define INLINE static inline __attribute__((always_inline, unused))

#define vset AT_LEVEL(vset)
#define vzero AT_LEVEL(vzero)
#define vload AT_LEVEL(vload)
#define vstore AT_LEVEL(vstore)
#define vwiden AT_LEVEL(vwiden)
#define vround AT_LEVEL(vround)
#define vround_bf16 AT_LEVEL(vround_bf16)
#define vround_f16 AT_LEVEL(vround_f16)
#define vload_part AT_LEVEL(vload_part)
#define vstore_part AT_LEVEL(vstore_part)
#define ld AT_LEVEL(ld)
#define st AT_LEVEL(st)
#define stored AT_LEVEL(stored)
#define vselect AT_LEVEL(vselect)
#define vmax AT_LEVEL(vmax)
#define vmin AT_LEVEL(vmin)
#define vsqrt AT_LEVEL(vsqrt)
#define vsum AT_LEVEL(vsum)
#define vhmax AT_LEVEL(vhmax)
#define vnone AT_LEVEL(vnone)
#define vpow2 AT_LEVEL(vpow2)
#define vnearest AT_LEVEL(vnearest)
#define vexp AT_LEVEL(vexp)
#define vexp2 AT_LEVEL(vexp2)
#define vexp2_rough AT_LEVEL(vexp2_rough)

// EACH runs its body for the vectors that make up the elements from to to: i is where a vector starts, n its number of
// lanes.
#define EACH(i, n, from, to, ...)                             \
	do {                                                      \
		int64_t i = (from);                                   \
		const int64_t end_ = (to);                            \
		for (; i + VLEN <= end_; i += VLEN) {                 \
			enum { n = VLEN };                                \
			__VA_ARGS__                                       \
		}                                                     \
		if (i < end_) {                                       \
			const int64_t n = end_ - i;                       \
			__VA_ARGS__                                       \
		}                                                     \
	} while (0)

#endif

INLINE vec vzero(void) { return (vec){0}; }
INLINE vec vset(float f) { return f - (vec){0}; }

// Loads and stores need no alignment.
INLINE vec vload(const float *p) {
	vec x;
	memcpy(&x, p, sizeof x);
	return x;
}

INLINE void vstore(float *p, vec x) { memcpy(p, &x, sizeof x); }

// vselect returns a where mask is -1, and b where it is 0.
INLINE vec vselect(vecint mask, vec a, vec b) { return (vec)((mask & (vecint)a) | (~mask & (vecint)b)); }

// vwiden returns the values of BF16 or F16. Each is a float. A NaN becomes a quiet one.
INLINE vec vwiden(vechalf h, const dtype type) {
#if VLEN == 16
	if (type == F16) return (vec)_mm512_cvtph_ps((__m256i)h);
	return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)h), 16);
#elif VLEN == 8
	if (type == F16) return (vec)_mm256_cvtph_ps((__m128i)h);
	return (vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)h), 16);
#else
#if defined(__aarch64__)
	if (type == F16) return (vec)vcvt_f32_f16((float16x4_t)h);
#endif
	vecuns u = __builtin_convertvector(h, vecuns);
	if (type == BF16) return (vec)(u << 16);
	vecuns magnitude = (u & 0x7FFF) << 13, special = (vecuns)(magnitude >= 0x0F800000); // as in element
	vecuns quiet = (vecuns)(magnitude > 0x0F800000) & 0x400000;
	vecuns f = (vecuns)((vec)magnitude * 0x1p112f);
	f = (special & (magnitude | 0x7F800000 | quiet)) | (~special & f);
	return (vec)(f | (u & 0x8000) << 16);
#endif
}

// vround_bf16 rounds to nearest, ties to even. A NaN stays one. (The instruction treats subnormals as zeros.)
INLINE vechalf vround_bf16(vec x) {
#if BF16_DOT
	return (vechalf)_mm512_cvtneps_pbh((__m512)x);
#else
	vecuns u = (vecuns)x;
	vecuns r = (u + 0x7FFF + (u >> 16 & 1)) >> 16;
	vecuns nan = (vecuns)(x != x);
	r = (nan & (u >> 16 | 0x40)) | (~nan & r);
#if VLEN == 16
	return (vechalf)_mm512_cvtepi32_epi16((__m512i)r);
#elif VLEN == 8
	__m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)r, (__m256i)r), 0x08);
	return (vechalf)_mm256_castsi256_si128(packed);
#else
	return __builtin_convertvector(r, vechalf);
#endif
#endif
}

// vround_f16 rounds to nearest, ties to even. A NaN stays one; from 65,520 on, the nearest is infinity.
INLINE vechalf vround_f16(vec x) {
#if VLEN == 16
	return (vechalf)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif VLEN == 8
	return (vechalf)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__aarch64__)
	return (vechalf)vcvt_f16_f32((float32x4_t)x);
#else
	vecuns u = (vecuns)x, magnitude = u & 0x7FFFFFFF, r; // as in set_element
	vecuns nan = (vecuns)(magnitude > 0x7F800000), huge = (vecuns)(magnitude >= 0x477FF000);
	vecuns small = (vecuns)(magnitude < 0x38800000);
	r = (magnitude - (112 << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13;
	r = (small & ((vecuns)((vec)magnitude + 0.5f) - 0x3F000000)) | (~small & r);
	r = (huge & 0x7C00) | (~huge & r);
	r = (nan & (0x7E00 | (magnitude >> 13 & 0x3FF))) | (~nan & r);
	return __builtin_convertvector(r | (u >> 16 & 0x8000), vechalf);
#endif
}

// vround rounds to BF16 or F16.
INLINE vechalf vround(vec x, const dtype type) { return type == F16 ? vround_f16(x) : vround_bf16(x); }

// Only the first n lanes, 0 to VLEN; the others load as 0 and are not stored.
INLINE vec vload_part(const float *p, int64_t n) {
#if VLEN == 16
	return (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
	float all[VLEN] = {0};
	for (int64_t i = 0; i < n; i++) all[i] = p[i];
	return vload(all);
#endif
}

INLINE void vstore_part(float *p, vec x, int64_t n) {
#if VLEN == 16
	_mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)x);
#else
	for (int64_t i = 0; i < n; i++) p[i] = x[i];
#endif
}

// ld loads n elements of p from i on. n is VLEN, a constant, except at the end of a row; lanes beyond are 0.
INLINE vec ld(const void *p, int64_t i, int64_t n, const dtype type) {
	if (type == F32) {
		const float *f = (const float *)p + i;
		return n == VLEN ? vload(f) : vload_part(f, n);
	}
	const uint16_t *from = (const uint16_t *)p + i;
	vechalf h = {0};
	if (n == VLEN) memcpy(&h, from, sizeof h);
#if VLEN == 16
	else h = (vechalf)_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), from);
#else
	else for (int64_t j = 0; j < n; j++) h[j] = from[j];
#endif
	return vwiden(h, type);
}

// st stores the first n lanes, rounded to the type, from element i of p on.
INLINE void st(void *p, int64_t i, int64_t n, vec x, const dtype type) {
	if (type == F32) {
		float *f = (float *)p + i;
		n == VLEN ? vstore(f, x) : vstore_part(f, x, n);
		return;
	}
	uint16_t *to = (uint16_t *)p + i;
	vechalf h = vround(x, type);
	if (n == VLEN) memcpy(to, &h, sizeof h);
#if VLEN == 16
	else _mm256_mask_storeu_epi16(to, (__mmask16)((1u << n) - 1), (__m256i)h);
#else
	else for (int64_t j = 0; j < n; j++) to[j] = h[j];
#endif
}

// stored returns x rounded as st stores it.
INLINE vec stored(vec x, const dtype type) { return type == F32 ? x : vwiden(vround(x, type), type); }

// vmax and vmin return b where a is NaN, and b where b is.
INLINE vec vmax(vec a, vec b) {
#if VLEN == 16
	return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif VLEN == 8
	return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
	return vselect(a > b, a, b);
#endif
}

INLINE vec vmin(vec a, vec b) {
#if VLEN == 16
	return (vec)_mm512_min_ps((__m512)a, (__m512)b);
#elif VLEN == 8
	return (vec)_mm256_min_ps((__m256)a, (__m256)b);
#else
	return vselect(a < b, a, b);
#endif
}

INLINE vec vsqrt(vec x) {
#if VLEN == 16
	return (vec)_mm512_sqrt_ps((__m512)x);
#elif VLEN == 8
	return (vec)_mm256_sqrt_ps((__m256)x);
#elif defined(__x86_64__)
	return (vec)_mm_sqrt_ps((__m128)x);
#else
	for (int i = 0; i < VLEN; i++) x[i] = sqrtf(x[i]);
	return x;
#endif
}

// vsum adds the lanes: halves to halves, until one is left.
INLINE float vsum(vec x) {
#if VLEN == 16
	return _mm512_reduce_add_ps((__m512)x);
#else
#if VLEN == 8
	v4 y = (v4)_mm256_castps256_ps128((__m256)x) + (v4)_mm256_extractf128_ps((__m256)x, 1);
#else
	v4 y = x;
#endif
	return (y[0] + y[2]) + (y[1] + y[3]);
#endif
}

// vnone reports whether no bit is set.
INLINE int vnone(vecuns x) {
#if VLEN == 16
	return _mm512_test_epi32_mask((__m512i)x, (__m512i)x) == 0;
#elif VLEN == 8
	return _mm256_testz_si256((__m256i)x, (__m256i)x);
#else
	return (x[0] | x[1] | x[2] | x[3]) == 0;
#endif
}

// vhmax returns the largest lane. Its result is undefined if there is a NaN.
INLINE float vhmax(vec x) {
#if VLEN == 16
	return _mm512_reduce_max_ps((__m512)x);
#else
	float m = x[0];
	for (int i = 1; i < VLEN; i++) m = x[i] > m ? x[i] : m;
	return m;
#endif
}

// vnearest returns the nearest integer, ties to even, for |x| < 2²²: beyond 1.5·2²³ floats have no fractions.
INLINE vec vnearest(vec x) {
#if VLEN == 16
	return (vec)_mm512_roundscale_ps((__m512)x, 0);
#else
	const vec magic = vset(12582912.0f);
	return (x + magic) - magic;
#endif
}

// vpow2 returns x·2ⁿ for integers n from -252 to 252, in two steps, because 2ⁿ itself may not be a float.
INLINE vec vpow2(vec x, vec n) {
#if VLEN == 16
	return (vec)_mm512_scalef_ps((__m512)x, (__m512)n);
#else
	vecint i = (vecint)(n + vset(12582912.0f)) - 0x4B400000;
	vecint half = i >> 1;
	return x * (vec)((half + 127) << 23) * (vec)((i - half + 127) << 23);
#endif
}

// An exponent is a score times a scale, minus the largest such product of the row. Compilers make that one
// instruction, which subtracts a rounded product from an exact one, so that even the exponent of the largest score is
// off by up to half an ulp of the product. All exponents of the row share that, and dividing by their sum removes it,
// unless it is so large that powers of it overflow. From HUGE_SCORE on, the largest score is subtracted before scaling.
#define HUGE_SCORE 0x1p24f

// vexp returns e^x, off by less than 2 ulp: with n = x·log₂e rounded, e^x = 2ⁿ·e^r, |r| ≤ ln 2 / 2. It overflows to
// +inf and underflows gradually to 0; a NaN stays one.
INLINE vec vexp(vec x) {
	x = vmin(vset(89.0f), vmax(vset(-104.0f), x)); // 2ⁿ outside of these is inf or 0 anyway
	vec n = vnearest(x * 0x1.715476p+0f);
	vec r = x - n * 0x1.62e400p-1f; // ln 2 in two parts; the first has few bits, so that its product is exact
	r = r - n * 0x1.7f7d1cp-20f;
	vec p = 0x1.709ba2p-10f * r + 0x1.1290520p-7f; // the minimax polynomial of relative error 2.6e-9
	p = p * r + 0x1.55515ep-5f;
	p = p * r + 0x1.5553c0p-3f;
	p = p * r + 0x1.000002p-1f;
	p = p * r + 1.0f;
	p = p * r + 1.0f;
	return vpow2(p, n);
}

// vexp2 returns 2^x, off by less than 2 ulp, exact for integers x. Overflow, underflow and NaN as in vexp.
INLINE vec vexp2(vec x) {
	x = vmin(vset(130.0f), vmax(vset(-152.0f), x));
	vec n = vnearest(x);
	vec r = x - n;
	vec p = 0x1.470b4ap-13f * r + 0x1.5f7266p-10f; // relative error 2.6e-9
	p = p * r + 0x1.3b270ep-7f;
	p = p * r + 0x1.c6ae72p-5f;
	p = p * r + 0x1.ebfbe2p-3f;
	p = p * r + 0x1.62e432p-1f;
	p = p * r + 1.0f;
	return vpow2(p, n);
}

// vexp2_rough returns 2^x for x < 128 with a relative error of 4e-6, for results that become BF16 or F16; exact for
// integers x.
INLINE vec vexp2_rough(vec x) {
	x = vmax(vset(-152.0f), x);
	vec n = vnearest(x);
	vec r = x - n;
	vec p = 0x1.409104p-7f * r + 0x1.ca9008p-5f;
	p = p * r + 0x1.ebf1b4p-3f;
	p = p * r + 0x1.62dfcap-1f;
	p = p * r + 1.0f;
	return vpow2(p, n);
}
