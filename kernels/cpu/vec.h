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
#define vechalf PASTE(vh, VLEN) // bits of bfloat16

#define INLINE static inline __attribute__((always_inline, unused))

#define vset AT_LEVEL(vset)
#define vzero AT_LEVEL(vzero)
#define vload AT_LEVEL(vload)
#define vstore AT_LEVEL(vstore)
#define vload_bf16 AT_LEVEL(vload_bf16)
#define vstore_bf16 AT_LEVEL(vstore_bf16)
#define vload_part AT_LEVEL(vload_part)
#define vstore_part AT_LEVEL(vstore_part)
#define vload_bf16_part AT_LEVEL(vload_bf16_part)
#define vstore_bf16_part AT_LEVEL(vstore_bf16_part)
#define vround_bf16 AT_LEVEL(vround_bf16)
#define vselect AT_LEVEL(vselect)
#define vmax AT_LEVEL(vmax)
#define vmin AT_LEVEL(vmin)
#define vsqrt AT_LEVEL(vsqrt)
#define vsum AT_LEVEL(vsum)
#define vhmax AT_LEVEL(vhmax)
#define vpow2 AT_LEVEL(vpow2)
#define vnearest AT_LEVEL(vnearest)
#define vexp AT_LEVEL(vexp)
#define vexp2 AT_LEVEL(vexp2)
#define vexp2_rough AT_LEVEL(vexp2_rough)

// bf16_to_f32 and f32_to_bf16 convert one element; the second rounds to nearest, ties to even.
INLINE float bf16_to_f32(uint16_t h) {
	uint32_t u = (uint32_t)h << 16;
	float f;
	memcpy(&f, &u, 4);
	return f;
}

INLINE uint16_t f32_to_bf16(float f) {
	uint32_t u;
	memcpy(&u, &f, 4);
	if ((u & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(u >> 16 | 0x40); // rounding could carry a NaN into an infinity
	return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

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

INLINE vec vload_bf16(const uint16_t *p) {
	vechalf h;
	memcpy(&h, p, sizeof h);
#if VLEN == 16
	return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)h), 16);
#elif VLEN == 8
	return (vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)h), 16);
#else
	return (vec)(__builtin_convertvector(h, vecuns) << 16);
#endif
}

// vselect returns a where mask is -1, and b where it is 0.
INLINE vec vselect(vecint mask, vec a, vec b) { return (vec)((mask & (vecint)a) | (~mask & (vecint)b)); }

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

INLINE void vstore_bf16(uint16_t *p, vec x) {
	vechalf h = vround_bf16(x);
	memcpy(p, &h, sizeof h);
}

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

INLINE vec vload_bf16_part(const uint16_t *p, int64_t n) {
#if VLEN == 16
	__m256i h = _mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), p);
	return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16);
#else
	uint16_t all[VLEN] = {0};
	for (int64_t i = 0; i < n; i++) all[i] = p[i];
	return vload_bf16(all);
#endif
}

INLINE void vstore_bf16_part(uint16_t *p, vec x, int64_t n) {
#if VLEN == 16
	_mm256_mask_storeu_epi16(p, (__mmask16)((1u << n) - 1), (__m256i)vround_bf16(x));
#else
	vechalf h = vround_bf16(x);
	for (int64_t i = 0; i < n; i++) p[i] = h[i];
#endif
}

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

// vexp2_rough returns 2^x for x < 128 with a relative error of 4e-6, for results that become bfloat16; exact for
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
