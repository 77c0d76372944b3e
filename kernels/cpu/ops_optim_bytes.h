// The codes of ops_optim_codes.h with byte permutations, 64 numbers at a time. The codes are the same.

#define plane AT_LEVEL(plane)
#define joined64 AT_LEVEL(joined64)
#define lines32 AT_LEVEL(lines32)
#define guess64 AT_LEVEL(guess64)
#define negative AT_LEVEL(negative)
#define index64 AT_LEVEL(index64)
#define zeros AT_LEVEL(zeros)

// plane returns t[j mod n] for n = 128 or 256.
INLINE __m512i plane(const uint8_t *t, __m512i j, const int n) {
	__m512i low = _mm512_permutex2var_epi8(_mm512_loadu_si512(t), j, _mm512_loadu_si512(t + 64));
	if (n == 128) return low;
	__m512i high = _mm512_permutex2var_epi8(_mm512_loadu_si512(t + 128), j, _mm512_loadu_si512(t + 192));
	return _mm512_mask_blend_epi8(_mm512_movepi8_mask(j), low, high);
}

// joined64 joins the bytes of 64 lanes, given lowest first. Every quarter of vector k gets group k of four in that
// quarter: bytes come in that order, MIXED, and NATURAL undoes it.
#define MIXED _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
#define NATURAL MIXED // it is its own inverse
INLINE void joined64(const __m512i b[4], __m512i x[4]) {
	__m512i low = _mm512_unpacklo_epi8(b[0], b[1]), high = _mm512_unpacklo_epi8(b[2], b[3]);
	x[0] = _mm512_unpacklo_epi16(low, high), x[1] = _mm512_unpackhi_epi16(low, high);
	low = _mm512_unpackhi_epi8(b[0], b[1]), high = _mm512_unpackhi_epi8(b[2], b[3]);
	x[2] = _mm512_unpacklo_epi16(low, high), x[3] = _mm512_unpackhi_epi16(low, high);
}

// lines32 returns the minimum of the lines, in 256ths, for 32 magnitudes given by the upper halves of their bits.
INLINE __m512i lines32(const dynamic_map *map, __m512i h) {
	h = _mm512_max_epu16(h, _mm512_set1_epi16((127 - 31) << 7));
	__m512i e = _mm512_srli_epi16(h, 7), part = _mm512_slli_epi16(h, 9), r[2];
	for (int k = 0; k < 2; k++)
		r[k] = _mm512_add_epi16(_mm512_permutexvar_epi16(e, _mm512_loadu_si512(map->base[k])),
			_mm512_mulhi_epu16(part, _mm512_permutexvar_epi16(e, _mm512_loadu_si512(map->rise[k]))));
	return _mm512_min_epu16(r[0], r[1]);
}

// UPPER selects the upper halves of two vectors of 32-bit lanes, and UPPER_MIXED the upper bytes of 16-bit lanes, in
// joined64's order.
#define UPPER _mm512_setr_epi32(0x00030001, 0x00070005, 0x000B0009, 0x000F000D, \
	0x00130011, 0x00170015, 0x001B0019, 0x001F001D, \
	0x00230021, 0x00270025, 0x002B0029, 0x002F002D, 0x00330031, 0x00370035, 0x003B0039, 0x003F003D)
#define UPPER_MIXED _mm512_setr_epi32(0x07050301, 0x27252321, 0x47454341, 0x67656361, \
	0x0F0D0B09, 0x2F2D2B29, 0x4F4D4B49, 0x6F6D6B69, \
	0x17151311, 0x37353331, 0x57555351, 0x77757371, 0x1F1D1B19, 0x3F3D3B39, 0x5F5D5B59, 0x7F7D7B79)

// guess64 returns the index, or one less, of 64 magnitudes x · by, which replace x. In the signed map x loses its sign;
// indices need only seven bits there, and keep the sign in the eighth.
INLINE __m512i guess64(const dynamic_map *map, float *x, float by, const int is_signed) {
	__m512i h[2], r[2];
	for (int q = 0; q < 2; q++) {
		vecint y[2];
		for (int k = 0; k < 2; k++) y[k] = (vecint)(vload(x + 32 * q + 16 * k) * by);
		h[q] = _mm512_permutex2var_epi16((__m512i)y[0], UPPER, (__m512i)y[1]);
		for (int k = 0; k < 2; k++) vstore(x + 32 * q + 16 * k, (vec)(is_signed ? y[k] & 0x7FFFFFFF : y[k]));
		r[q] = lines32(map, is_signed ? _mm512_and_si512(h[q], _mm512_set1_epi16(0x7FFF)) : h[q]);
	}
	__m512i j = _mm512_permutex2var_epi8(r[0], UPPER_MIXED, r[1]);
	if (!is_signed) return j;
	__m512i signs = _mm512_permutex2var_epi8(h[0], UPPER_MIXED, h[1]);
	// the low seven bits of j, the high bit of the signs
	return _mm512_ternarylogic_epi32(_mm512_set1_epi8(127), j, signs, 0xCA);
}

// negative returns -1 for bytes below zero, and 0 for others. Instructions that make masks are slower than these two.
INLINE __m512i negative(__m512i x) {
	return _mm512_max_epi8(_mm512_min_epi8(x, _mm512_setzero_si512()), _mm512_set1_epi8(-1));
}

// index64 returns the indices of what guess64 left in x, from its guess j. Tables of 128 do not see the high bit of j.
INLINE __m512i index64(const dynamic_map *map, const float *x, __m512i j, const int n) {
	__m512i above[4], bytes[4];
	for (int k = 0; k < 4; k++) bytes[k] = plane(map->above_bytes[k], j, n);
	joined64(bytes, above);
	for (int q = 0; q < 4; q++) above[q] = (__m512i)((vecint)above[q] - (vecint)vload(x + 16 * q));
	__m512i more = _mm512_packs_epi16(_mm512_packs_epi32(above[0], above[1]), _mm512_packs_epi32(above[2], above[3]));
	if (n == 128) j = _mm512_and_si512(j, _mm512_set1_epi8(127));
	return _mm512_sub_epi8(j, negative(more));
}

static void decode(
	const dynamic_map *restrict map, const void *restrict codes, float scale, float *restrict x, const int is_signed) {
	for (int64_t i = 0; i < QUANT_BLOCK; i += 64) {
		__m512i bytes[4], y[4], j = _mm512_permutexvar_epi32(MIXED, _mm512_loadu_si512((const char *)codes + i));
		bytes[3] = plane(map->value_bytes[3], j, 256);
		if (is_signed) // apart from the sign, numbers at the same distance from 0 are the same
			j = _mm512_abs_epi8(_mm512_sub_epi8(j, _mm512_set1_epi8(127)));
		for (int k = 0; k < 3; k++)
			bytes[k] = is_signed ? plane(map->value_bytes[k] + 127, j, 128) : plane(map->value_bytes[k], j, 256);
		if (is_signed) // 1, the last, is at 128, where a table of 128 wraps around: one bit of it is not in the high byte
			bytes[2] = _mm512_ternarylogic_epi32(bytes[2], j, _mm512_set1_epi8(-128), 0xF8);
		joined64(bytes, y);
		for (int q = 0; q < 4; q++) vstore(x + i + 16 * q, (vec)y[q] * scale);
	}
}

// If the scale is not finite, all codes are zero, as dividing by it would make them.
INLINE int zeros(float scale, void *codes, int zero) {
	if (scale - scale == 0) return 0;
	memset(codes, zero, QUANT_BLOCK);
	return 1;
}

// The guesses for all of a quantization block come first: a processor looks ahead only so far, and a number has a long
// way to its code.

static void encode_m(const dynamic_map *restrict map, float *restrict x, float scale, void *restrict codes) {
	if (zeros(scale, codes, 127)) return;
	const float by = reciprocal(scale);
	const __m512i zero = _mm512_set1_epi8(127);
	__m512i guess[QUANT_BLOCK / 64];
	for (int64_t i = 0; i < QUANT_BLOCK; i += 64) guess[i / 64] = guess64(map, x + i, by, 1);
	for (int64_t i = 0; i < QUANT_BLOCK; i += 64) {
		__m512i j = index64(map, x + i, guess[i / 64], 128), minus = negative(guess[i / 64]);
		j = _mm512_ternarylogic_epi32(minus, _mm512_subs_epu8(zero, j), _mm512_add_epi8(zero, j), 0xCA);
		_mm512_storeu_si512((char *)codes + i, _mm512_permutexvar_epi32(NATURAL, j));
	}
}

static void encode_v(const dynamic_map *restrict map, float *restrict x, float scale, void *restrict codes) {
	if (zeros(scale, codes, 0)) return;
	const float by = reciprocal(scale);
	__m512i guess[QUANT_BLOCK / 64];
	for (int64_t i = 0; i < QUANT_BLOCK; i += 64) guess[i / 64] = guess64(map, x + i, by, 0);
	for (int64_t i = 0; i < QUANT_BLOCK; i += 64) {
		__m512i j = index64(map, x + i, guess[i / 64], 256);
		_mm512_storeu_si512((char *)codes + i, _mm512_permutexvar_epi32(NATURAL, j));
	}
}
