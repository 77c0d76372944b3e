// Codes of 8 bits for numbers of a block, in bitsandbytes' dynamic maps: kernels/dynamicmap.go says what they are. Included
// once a level.

#ifndef RESTYLE_OPS_OPTIM_CODES_H
#define RESTYLE_OPS_OPTIM_CODES_H

typedef uint8_t vb4 __attribute__((vector_size(4)));
typedef uint8_t vb8 __attribute__((vector_size(8)));
typedef uint8_t vb16 __attribute__((vector_size(16)));
#define vecbyte PASTE(vb, VLEN)

#define EACH_OF_BLOCK(i) for (int64_t i = 0; i < ADAMW_BLOCK; i += VLEN)

#endif

#define vfma AT_LEVEL(vfma)
#define load_bytes AT_LEVEL(load_bytes)
#define store_bytes AT_LEVEL(store_bytes)
#define lookup AT_LEVEL(lookup)
#define least_line AT_LEVEL(least_line)
#define index_of AT_LEVEL(index_of)
#define encode_signed AT_LEVEL(encode_signed)
#define largest AT_LEVEL(largest)
#define plane AT_LEVEL(plane)
#define lookup64 AT_LEVEL(lookup64)
#define index64 AT_LEVEL(index64)
#define reciprocal AT_LEVEL(reciprocal)
#define decode AT_LEVEL(decode)
#define encode_m AT_LEVEL(encode_m)
#define encode_v AT_LEVEL(encode_v)

// vfma is a·b + c, rounded once at every level: where the compilers may choose which product they fuse, what they choose is
// no specification.
INLINE vec vfma(vec a, vec b, vec c) {
#if VLEN == 16
	return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif VLEN == 8
	return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
	for (int i = 0; i < VLEN; i++) a[i] = __builtin_fmaf(a[i], b[i], c[i]);
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

// least_line is the index of a magnitude from 0 to 1, or the one below. Where there are n numbers in each tenfold, evenly
// spaced, indices are a line over x; n doubles from one tenfold to the next and the lines' slope falls, so that of all lines
// the least is the right one.
INLINE vecint least_line(const dynamic_map *map, vec x) {
	vec r = x * map->slope[0] + map->offset[0];
	for (int i = 1; i < DECADES; i++) r = vmin(r, x * map->slope[i] + map->offset[i]);
	return __builtin_convertvector(r, vecint);
}

// index_of is the index of magnitudes from 0 to 1: that of the nearest number in the map.
INLINE vecint index_of(const dynamic_map *map, vec x, const int n) {
	vecint j = least_line(map, x);
	return j - (vecint)(x > lookup(map->above, j, n));
}

// encode_signed is the code of x from -1 to 1. There is no number for -1 itself: it has the code of the next to it.
INLINE vecint encode_signed(const dynamic_map *map, vec x) {
	vecint sign = (vecint)x >> 31;
	vecint j = index_of(map, (vec)((vecint)x & 0x7FFFFFFF), 128);
	j += (vecint)(j > 127) & sign;
	return 127 + ((j ^ sign) - sign);
}

// largest is the largest |x| of a block. As integers the bits of magnitudes have the floats' order, with NaN beyond infinity:
// where there is one, it is the largest.
static float largest(const float *x) {
	vecint most = {0};
	EACH_OF_BLOCK(i) {
		vecint y = (vecint)vload(x + i) & 0x7FFFFFFF;
#if VLEN == 16
		most = (vecint)_mm512_max_epi32((__m512i)most, (__m512i)y);
#elif VLEN == 8
		most = (vecint)_mm256_max_epi32((__m256i)most, (__m256i)y);
#else
		most = (y & (y > most)) | (most & ~(y > most));
#endif
	}
	int32_t one = 0;
#if VLEN == 16
	one = _mm512_reduce_max_epi32((__m512i)most);
#else
	for (int i = 0; i < VLEN; i++) one = most[i] > one ? most[i] : one;
#endif
	float f;
	memcpy(&f, &one, 4);
	return f;
}

#if VBMI

// Where there is an instruction that looks 64 bytes up in a table of 128, tables of floats are four of bytes. Looked up are
// 64 indices, and put together four vectors.
INLINE __m512i plane(const uint8_t *t, __m512i j, const int n) {
	__m512i low = _mm512_permutex2var_epi8(_mm512_loadu_si512(t), j, _mm512_loadu_si512(t + 64));
	if (n == 128) return low;
	__m512i high = _mm512_permutex2var_epi8(_mm512_loadu_si512(t + 128), j, _mm512_loadu_si512(t + 192));
	return _mm512_mask_blend_epi8(_mm512_movepi8_mask(j), low, high);
}

INLINE void lookup64(const uint8_t t[4][ADAMW_BLOCK], __m512i j, __m512 x[4], const int n) {
	// Unpacking leaves in every quarter of vector k what was group k of four in that quarter.
	j = _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), j);
	__m512i b0 = plane(t[0], j, n), b1 = plane(t[1], j, n), b2 = plane(t[2], j, n), b3 = plane(t[3], j, n);
	__m512i low = _mm512_unpacklo_epi8(b0, b1), high = _mm512_unpacklo_epi8(b2, b3);
	x[0] = (__m512)_mm512_unpacklo_epi16(low, high), x[1] = (__m512)_mm512_unpackhi_epi16(low, high);
	low = _mm512_unpackhi_epi8(b0, b1), high = _mm512_unpackhi_epi8(b2, b3);
	x[2] = (__m512)_mm512_unpacklo_epi16(low, high), x[3] = (__m512)_mm512_unpackhi_epi16(low, high);
}

// index64 is the index of 64 magnitudes, as index_of.
INLINE __m512i index64(const dynamic_map *map, const vec x[4], const int n) {
	__m512i k[4];
	for (int q = 0; q < 4; q++) k[q] = (__m512i)least_line(map, x[q]);
	const __m512i lowest = _mm512_add_epi8(_mm512_setr_epi32(0x0C080400, 0x1C181410, 0x2C282420, 0x3C383430, 0x4C484440,
		0x5C585450, 0x6C686460, 0x7C787470, 0, 0, 0, 0, 0, 0, 0, 0), _mm512_setzero_si512());
	__m512i j = _mm512_inserti64x4(_mm512_permutex2var_epi8(k[0], lowest, k[1]),
		_mm512_castsi512_si256(_mm512_permutex2var_epi8(k[2], lowest, k[3])), 1);
	__m512 above[4];
	lookup64(map->above_bytes, j, above, n);
	__mmask64 more = 0;
	for (int q = 0; q < 4; q++) more |= (__mmask64)_mm512_cmp_ps_mask((__m512)x[q], above[q], _CMP_GT_OQ) << 16 * q;
	return _mm512_mask_add_epi8(j, more, j, _mm512_set1_epi8(1));
}

#endif

// decode is x = map[codes] · scale, of a block.
static void decode(const dynamic_map *restrict map, const void *codes, float scale, float *restrict x) {
#if VBMI
	for (int64_t i = 0; i < ADAMW_BLOCK; i += 64) {
		__m512 y[4];
		lookup64(map->value_bytes, _mm512_loadu_si512((const char *)codes + i), y, 256);
		for (int q = 0; q < 4; q++) vstore(x + i + 16 * q, (vec)y[q] * scale);
	}
#else
	EACH_OF_BLOCK(i) vstore(x + i, lookup(map->value, load_bytes(codes, i), 256) * scale);
#endif
}

// reciprocal is 1/x, and 0 where that is infinite: a block of less than 2⁻¹²⁸ is one of zeros.
INLINE float reciprocal(float x) { return 1 / x <= 0x1.fffffep127f || x != x ? 1 / x : 0; }

// encode_m is the codes of x / scale in the signed map.
static void encode_m(const dynamic_map *restrict map, const float *restrict x, float scale, void *restrict codes) {
	const float by = reciprocal(scale);
#if VBMI
	for (int64_t i = 0; i < ADAMW_BLOCK; i += 64) {
		vec y[4];
		__mmask64 minus = 0;
		for (int q = 0; q < 4; q++) {
			vec z = vload(x + i + 16 * q) * by;
			minus |= (__mmask64)_mm512_movepi32_mask((__m512i)z) << 16 * q;
			y[q] = (vec)((vecint)z & 0x7FFFFFFF);
		}
		const __m512i zero = _mm512_set1_epi8(127);
		__m512i j = index64(map, y, 128);
		j = _mm512_mask_sub_epi8(_mm512_add_epi8(zero, j), minus, zero, _mm512_min_epu8(j, zero));
		_mm512_storeu_si512((char *)codes + i, j);
	}
#else
	EACH_OF_BLOCK(i) store_bytes(codes, i, encode_signed(map, vload(x + i) * by));
#endif
}

// encode_v is the codes of x / scale, not below zero, in the unsigned map: with a least of 1, 0 is for nothing alone.
static void encode_v(const dynamic_map *restrict map, const float *restrict x, float scale, void *restrict codes, const int least) {
	const float by = reciprocal(scale);
#if VBMI
	for (int64_t i = 0; i < ADAMW_BLOCK; i += 64) {
		vec y[4];
		__mmask64 some = 0;
		for (int q = 0; q < 4; q++) {
			vec z = vload(x + i + 16 * q);
			some |= (__mmask64)_mm512_cmp_ps_mask((__m512)z, _mm512_setzero_ps(), _CMP_GT_OQ) << 16 * q;
			y[q] = z * by;
		}
		__m512i j = index64(map, y, 256);
		_mm512_storeu_si512((char *)codes + i, _mm512_mask_max_epu8(j, some, j, _mm512_set1_epi8(least)));
	}
#else
	EACH_OF_BLOCK(i) {
		vec y = vload(x + i);
		vecint code = index_of(map, y * by, 256);
		store_bytes(codes, i, code | ((vecint)(code == 0) & (vecint)(y > 0) & least));
	}
#endif
}
