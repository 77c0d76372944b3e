// Transposing vectors.

#ifndef RESTYLE_TRANSPOSE
#define RESTYLE_TRANSPOSE

// Vectors as pairs of lanes.
typedef uint64_t vl4 __attribute__((vector_size(16)));
typedef uint64_t vl8 __attribute__((vector_size(32)));
typedef uint64_t vl16 __attribute__((vector_size(64)));

// low and high interleave the lower and the upper halves of each 16 bytes of two vectors.
#define low32_4(a, b) SHUFFLE(a, b, 0, 4, 1, 5)
#define high32_4(a, b) SHUFFLE(a, b, 2, 6, 3, 7)
#define low64_4(a, b) SHUFFLE(a, b, 0, 2)
#define high64_4(a, b) SHUFFLE(a, b, 1, 3)
#define low32_8(a, b) SHUFFLE(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define high32_8(a, b) SHUFFLE(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define low64_8(a, b) SHUFFLE(a, b, 0, 4, 2, 6)
#define high64_8(a, b) SHUFFLE(a, b, 1, 5, 3, 7)
#define low32_16(a, b) SHUFFLE(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define high32_16(a, b) SHUFFLE(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define low64_16(a, b) SHUFFLE(a, b, 0, 8, 2, 10, 4, 12, 6, 14)
#define high64_16(a, b) SHUFFLE(a, b, 1, 9, 3, 11, 5, 13, 7, 15)

#define veclong PASTE(vl, VLEN)
#define transpose AT_LEVEL(transpose)

#endif

// transpose transposes VLEN vectors: first within the 16-byte squares of four vectors each, then the squares.
INLINE void transpose(vecuns r[VLEN]) {
	UNROLL for (int g = 0; g < VLEN; g += 4) {
		veclong a = (veclong)PASTE(low32_, VLEN)(r[g], r[g + 1]), b = (veclong)PASTE(high32_, VLEN)(r[g], r[g + 1]);
		veclong c = (veclong)PASTE(low32_, VLEN)(r[g + 2], r[g + 3]), d = (veclong)PASTE(high32_, VLEN)(r[g + 2], r[g + 3]);
		r[g] = (vecuns)PASTE(low64_, VLEN)(a, c), r[g + 1] = (vecuns)PASTE(high64_, VLEN)(a, c);
		r[g + 2] = (vecuns)PASTE(low64_, VLEN)(b, d), r[g + 3] = (vecuns)PASTE(high64_, VLEN)(b, d);
	}
#if VLEN == 8
	UNROLL for (int i = 0; i < 4; i++) {
		veclong a = (veclong)r[i], b = (veclong)r[i + 4];
		r[i] = (vecuns)SHUFFLE(a, b, 0, 1, 4, 5), r[i + 4] = (vecuns)SHUFFLE(a, b, 2, 3, 6, 7);
	}
#elif VLEN == 16
#define even(a, b) SHUFFLE((veclong)(a), (veclong)(b), 0, 1, 4, 5, 8, 9, 12, 13)
#define odd(a, b) SHUFFLE((veclong)(a), (veclong)(b), 2, 3, 6, 7, 10, 11, 14, 15)
	UNROLL for (int i = 0; i < 4; i++) {
		veclong a = even(r[i], r[i + 4]), b = odd(r[i], r[i + 4]), c = even(r[i + 8], r[i + 12]),
				d = odd(r[i + 8], r[i + 12]);
		r[i] = (vecuns)even(a, c), r[i + 4] = (vecuns)even(b, d), r[i + 8] = (vecuns)odd(a, c), r[i + 12] = (vecuns)odd(b, d);
	}
#undef even
#undef odd
#endif
}
