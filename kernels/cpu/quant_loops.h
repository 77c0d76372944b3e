// What loops over quantized weights share, once per level.

#define code_bytes AT_LEVEL(code_bytes)
#define signed_bytes AT_LEVEL(signed_bytes)
#define quant_store AT_LEVEL(quant_store)

// code_bytes returns VLEN bytes as integers, and signed_bytes VLEN signed ones as floats.
INLINE vecuns code_bytes(const uint8_t *p) {
#if VLEN == 16
	return (vecuns)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
#elif VLEN == 8
	return (vecuns)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
#else
	typedef uint8_t bytes __attribute__((vector_size(VLEN)));
	bytes b;
	memcpy(&b, p, VLEN);
	return __builtin_convertvector(b, vecuns);
#endif
}

INLINE vec signed_bytes(const uint8_t *p) {
#if VLEN == 16
	return (vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
#elif VLEN == 8
	return (vec)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
#else
	typedef int8_t bytes __attribute__((vector_size(VLEN)));
	bytes b;
	memcpy(&b, p, VLEN);
	return __builtin_convertvector(__builtin_convertvector(b, vecint), vec);
#endif
}

// quant_store stores outputs n of count rows of y, from first on, as far as there are any.
INLINE void quant_store(const quant_product *o, int64_t first, int64_t count, int64_t n, const float *out) {
	for (int64_t i = first; i < o->y.rows && i < first + count; i++) {
		float sum = out[i - first];
		void *y = row(o->y, i, o->y.type);
		if (o->more.at) sum += element(row(o->more, i, F32), n, F32);
		if (o->bias.at) sum += element((void *)o->bias.at, n, o->bias.type);
		if (o->add) sum += element(y, n, o->y.type);
		set_element(y, n, sum, o->y.type);
	}
}
