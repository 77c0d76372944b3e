// 8-bit codes for the numbers of a quantization block, in bitsandbytes' dynamic maps, which kernels/op_map8.go
// describes. Included once per level.

#ifndef RESTYLE_OPS_OPTIM_CODES_H
#define RESTYLE_OPS_OPTIM_CODES_H

typedef uint8_t vb4 __attribute__((vector_size(4)));
typedef uint8_t vb8 __attribute__((vector_size(8)));
typedef uint8_t vb16 __attribute__((vector_size(16)));
#define vecbyte PASTE(vb, VLEN)

#define EACH_OF_BLOCK(i) for (int64_t i = 0; i < QUANT_BLOCK; i += VLEN)

#endif

#define vfma AT_LEVEL(vfma)
#define load_bytes AT_LEVEL(load_bytes)
#define store_bytes AT_LEVEL(store_bytes)
#define larger AT_LEVEL(larger)
#define largest_lane AT_LEVEL(largest_lane)
#define largest AT_LEVEL(largest)
#define lookup AT_LEVEL(lookup)
#define index_of AT_LEVEL(index_of)
#define reciprocal AT_LEVEL(reciprocal)
#define decode AT_LEVEL(decode)
#define encode_m AT_LEVEL(encode_m)
#define encode_v AT_LEVEL(encode_v)

// vfma returns a·b + c, rounded once: compilers may choose which product they fuse, and their choice is not a
// specification. A processor without the instruction adds in double, where the product is exact, and rounds twice:
// libm's function rounds once, but is a call for every lane.
INLINE vec vfma(vec a, vec b, vec c) {
#if VLEN == 16
	return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif VLEN == 8
	return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
	for (int i = 0; i < VLEN; i++)
#if defined(__FP_FAST_FMAF) || defined(__aarch64__)
		a[i] = __builtin_fmaf(a[i], b[i], c[i]);
#else
		a[i] = (float)((double)a[i] * b[i] + c[i]);
#endif
	return a;
#endif
}

// load_bytes loads the bytes of p from i on, one per lane.
INLINE vecint load_bytes(const void *p, int64_t i) {
	vecbyte b;
	memcpy(&b, (const char *)p + i, sizeof b);
#if VLEN == 16
	return (vecint)_mm512_cvtepu8_epi32((__m128i)b);
#elif VLEN == 8
	int64_t all;
	memcpy(&all, &b, sizeof all);
	return (vecint)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(all));
#else
	return __builtin_convertvector(b, vecint);
#endif
}

// store_bytes stores the low byte of each lane.
INLINE void store_bytes(void *p, int64_t i, vecint x) {
#if VLEN == 16
	vecbyte b = (vecbyte)_mm512_cvtepi32_epi8((__m512i)x);
#else
	vecbyte b = __builtin_convertvector(x & 255, vecbyte);
#endif
	memcpy((char *)p + i, &b, sizeof b);
}

// larger returns the larger of two magnitudes, by their bits. As integers these have the order of floats, with NaN
// above infinity, whatever its sign: if there is a NaN, it is the largest.
INLINE vecuns larger(vecuns a, vecuns b) {
#if VLEN == 16
	return (vecuns)_mm512_max_epu32((__m512i)a, (__m512i)b);
#elif VLEN == 8
	return (vecuns)_mm256_max_epu32((__m256i)a, (__m256i)b);
#else
	return (a & (vecuns)(a > b)) | (b & ~(vecuns)(a > b));
#endif
}

INLINE float largest_lane(vecuns x) {
	uint32_t one = 0;
#if VLEN == 16
	one = _mm512_reduce_max_epu32((__m512i)x);
#else
	for (int i = 0; i < VLEN; i++) one = x[i] > one ? x[i] : one;
#endif
	float f;
	memcpy(&f, &one, 4);
	return f;
}

// largest returns the largest |x| of a quantization block.
static float largest(const float *x) {
	vecuns max = {0};
	EACH_OF_BLOCK(i) max = larger(max, (vecuns)vload(x + i) & 0x7FFFFFFF);
	return largest_lane(max);
}

// reciprocal returns 1/x, or 0 if that is infinite: a quantization block whose largest magnitude is less than 2⁻¹²⁸
// becomes zeros.
INLINE float reciprocal(float x) { return 1 / x <= 0x1.fffffep127f || x != x ? 1 / x : 0; }

#if VBMI
#include "ops_optim_bytes.h"
#else

// lookup returns t[j mod n], for n = 128 or 256. A table of 32 floats is two registers, and one instruction permutes
// both: a tree of them is three times as fast as loading every lane from its own address.
INLINE vec lookup(const float *t, vecint j, const int n) {
#if VLEN == 16
	__m512 x[8];
	for (int k = 0; k < n / 32; k++)
		x[k] = _mm512_permutex2var_ps(_mm512_loadu_ps(t + 32 * k), (__m512i)j, _mm512_loadu_ps(t + 32 * k + 16));
	for (int k = n / 64, bit = 32; k > 0; k /= 2, bit *= 2) {
		__mmask16 odd = _mm512_test_epi32_mask((__m512i)j, _mm512_set1_epi32(bit));
		for (int i = 0; i < k; i++) x[i] = _mm512_mask_blend_ps(odd, x[2 * i], x[2 * i + 1]);
	}
	return (vec)x[0];
#elif VLEN == 8
	return (vec)_mm256_i32gather_ps(t, (__m256i)(j & (n - 1)), 4);
#else
	vec x;
	for (int i = 0; i < VLEN; i++) x[i] = t[j[i] & (n - 1)];
	return x;
#endif
}

// index_of returns the index of the map value nearest to each magnitude in [0, 1]. Within a decade the values are
// evenly spaced, so the index is linear in x. From one decade to the next their number n doubles and the slope falls,
// so the smallest of all these lines is the right one; its integer part is the index or one less.
INLINE vecint index_of(const dynamic_map *map, vec x, const int n) {
	vec r = x * map->slope[0] + map->offset[0];
	for (int i = 1; i < DECADES; i++) r = vmin(r, x * map->slope[i] + map->offset[i]);
	vecint j = __builtin_convertvector(r, vecint);
	return j - (vecint)(x > lookup(map->above, j, n));
}

// decode computes x = map[codes] · scale for a quantization block. Byte tables need is_signed.
static void decode(
	const dynamic_map *restrict map, const void *restrict codes, float scale, float *restrict x, const int is_signed) {
	EACH_OF_BLOCK(i) vstore(x + i, lookup(map->value, load_bytes(codes, i), 256) * scale);
}

// encode_m computes the codes of x / scale in the signed map; it may overwrite x. There is no number for -1: it gets
// the code of the number next to it.
static void encode_m(const dynamic_map *restrict map, float *restrict x, float scale, void *restrict codes) {
	const float by = reciprocal(scale);
	EACH_OF_BLOCK(i) {
		vec y = vload(x + i) * by;
		vecint minus = (vecint)y >> 31;
		vecint j = index_of(map, (vec)((vecint)y & 0x7FFFFFFF), 128);
		j += (vecint)(j > 127) & minus;
		store_bytes(codes, i, 127 + ((j ^ minus) - minus));
	}
}

// encode_v computes the codes of x / scale, which is not negative, in an unsigned map; it may overwrite x.
static void encode_v(const dynamic_map *restrict map, float *restrict x, float scale, void *restrict codes) {
	const float by = reciprocal(scale);
	EACH_OF_BLOCK(i) store_bytes(codes, i, index_of(map, vload(x + i) * by, 256));
}

#endif
