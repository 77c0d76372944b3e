// Codes of 8 bits for numbers of a block, in bitsandbytes' dynamic maps: kernels/dynamicmap.go says what they are. Included
// once a level.

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

// vfma is a·b + c, rounded once: where the compilers may choose which product they fuse, what they choose is no specification.
// A processor without an instruction for it adds in double, where the product is exact, and rounds twice: libm's function rounds
// once, and is a call for every lane.
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

// load_bytes is the bytes of p from i on, one a lane.
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

// store_bytes keeps the low byte of each lane.
INLINE void store_bytes(void *p, int64_t i, vecint x) {
#if VLEN == 16
	vecbyte b = (vecbyte)_mm512_cvtepi32_epi8((__m512i)x);
#else
	vecbyte b = __builtin_convertvector(x & 255, vecbyte);
#endif
	memcpy((char *)p + i, &b, sizeof b);
}

// larger is the larger of magnitudes, by their bits. As integers these have the floats' order, with NaN beyond infinity,
// whatever its sign: where there is one, it is the largest.
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

// largest is the largest |x| of a block.
static float largest(const float *x) {
	vecuns max = {0};
	EACH_OF_BLOCK(i) max = larger(max, (vecuns)vload(x + i) & 0x7FFFFFFF);
	return largest_lane(max);
}

// reciprocal is 1/x, and 0 where that is infinite: a block of less than 2⁻¹²⁸ is one of zeros.
INLINE float reciprocal(float x) { return 1 / x <= 0x1.fffffep127f || x != x ? 1 / x : 0; }

#if VBMI
#include "ops_optim_bytes.h"
#else

// lookup is t[j mod n], for n = 128 or 256. A table of 32 floats is two registers, and one instruction permutes both: a tree
// of them is three times as fast as loading every lane from its own address.
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

// index_of is the index of magnitudes from 0 to 1: that of the nearest number in the map. Where there are n numbers in each
// tenfold, evenly spaced, indices are a line over x; n doubles from one tenfold to the next and the lines' slope falls, so that
// of all lines the least is the right one. Its whole part is the index or the one below.
INLINE vecint index_of(const dynamic_map *map, vec x, const int n) {
	vec r = x * map->slope[0] + map->offset[0];
	for (int i = 1; i < DECADES; i++) r = vmin(r, x * map->slope[i] + map->offset[i]);
	vecint j = __builtin_convertvector(r, vecint);
	return j - (vecint)(x > lookup(map->above, j, n));
}

// decode is x = map[codes] · scale, of a block. A table of bytes has use for is_signed.
static void decode(const dynamic_map *restrict map, const void *restrict codes, float scale, float *restrict x, const int is_signed) {
	EACH_OF_BLOCK(i) vstore(x + i, lookup(map->value, load_bytes(codes, i), 256) * scale);
}

// encode_m is the codes of x / scale in the signed map, and x may be spent. There is no number for -1: it has the code of the next
// to it.
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

// encode_v is the codes of x / scale, not below zero, in an unsigned map; x may be spent.
static void encode_v(const dynamic_map *restrict map, float *restrict x, float scale, void *restrict codes) {
	const float by = reciprocal(scale);
	EACH_OF_BLOCK(i) store_bytes(codes, i, index_of(map, vload(x + i) * by, 256));
}

#endif
