// Packing: part of an operand becomes rows (A) or k-major panels (B) of units, with edges padded with zeros.

#ifndef RESTYLE_GEMM_PACK
#define RESTYLE_GEMM_PACK

// Vectors as halves of lanes.
typedef uint16_t vs16 __attribute__((vector_size(64)));

#define pack_lines AT_LEVEL(pack_lines)
#define turn_block AT_LEVEL(turn_block)
#define pack_turned AT_LEVEL(pack_turned)
#define zip_lines AT_LEVEL(zip_lines)
#define zip_block AT_LEVEL(zip_block)
#define zip_turned AT_LEVEL(zip_turned)
#define pack AT_LEVEL(pack)

#endif

// pack_lines packs n lines as lines.
INLINE void pack_lines(gemm_unit *dst, int64_t dst_stride, const char *at, int64_t stride, int64_t n, int64_t bytes,
	const dtype type) {
	const int step = (int)size_of(type) * VLEN;
	for (int64_t i = 0; i < n; i++, dst += dst_stride, at += stride) {
		gemm_unit *to = dst;
		int64_t x = 0;
		for (; x + step <= bytes; x += step, to += VLEN) *(vecuns *)to = load_units(at + x, type);
		if (x == bytes) continue;
		char rest[4 * VLEN] = {0};
		memcpy(rest, at + x, bytes - x);
		*(vecuns *)to = load_units(rest, type);
	}
}

// turn_block packs VLEN lines as columns. Lines of bf16 are turned as pairs, which are then taken apart.
INLINE void turn_block(gemm_unit *dst, int64_t dst_stride, const char *at, int64_t stride, const dtype type) {
	const int halves = type == BF16 ? 2 : 1;
	vecuns r[VLEN];
	UNROLL for (int i = 0; i < VLEN; i++) r[i] = load_units(at + i * stride, type == BF16 ? F32 : type);
	transpose(r);
	UNROLL for (int i = 0; i < VLEN; i++)
		UNROLL for (int half = 0; half < halves; half++, dst += dst_stride)
			*(vecuns *)dst = halves == 1 ? r[i] : half_of(r[i], half);
}

// pack_turned packs n lines as columns.
INLINE void pack_turned(gemm_unit *dst, int64_t dst_stride, const char *at, int64_t stride, int64_t n, int64_t bytes,
	const dtype type) {
	const int size = (int)size_of(type), step = type == BF16 ? 4 * VLEN : size * VLEN;
	for (int64_t i = 0; i < n; i += VLEN, at += VLEN * stride) {
		gemm_unit *to = dst + i;
		for (int64_t x = 0; x < bytes; x += step, to += step / size * dst_stride) {
			if (i + VLEN <= n && x + step <= bytes) {
				turn_block(to, dst_stride, at + x, stride, type);
				continue;
			}
			char edge[VLEN][4 * VLEN] = {{0}};
			for (int64_t y = 0; y < VLEN && i + y < n; y++)
				memcpy(edge[y], at + y * stride + x, bytes - x < step ? bytes - x : step);
			turn_block(to, dst_stride, edge[0], sizeof edge[0], type);
		}
	}
}

#if BF16_DOT
// zip_lines packs lines along the lanes: each two, for k and k + 1, become one line of pairs. It pads to a multiple of
// GEMM_GROUP.
static void zip_lines(gemm_unit *dst, int64_t dst_stride, gemm_source src) {
	for (int64_t k = 0; k < src.k || k % (2 * GEMM_GROUP) > 0; k += 2, dst += dst_stride, src.at += 2 * src.stride)
		for (int64_t x = 0; x < src.lanes; x += 2 * VLEN) {
			int64_t bytes = 2 * (src.lanes - x < 2 * VLEN ? src.lanes - x : 2 * VLEN);
			const char *at = src.at + 2 * x;
			vs16 a = {0}, b = {0};
			if (bytes == sizeof a && k + 2 <= src.k) {
				memcpy(&a, at, sizeof a), memcpy(&b, at + src.stride, sizeof b);
			} else {
				if (k < src.k) memcpy(&a, at, bytes);
				if (k + 1 < src.k) memcpy(&b, at + src.stride, bytes);
			}
			*(vs16 *)(dst + x) = SHUFFLE(a, b, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40, 9, 41, 10, 42,
				11, 43, 12, 44, 13, 45, 14, 46, 15, 47);
			*(vs16 *)(dst + x + VLEN) = SHUFFLE(a, b, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55, 24, 56,
				25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
		}
}

// zip_block makes pairs within 16 bytes, which is faster than in order: what transpose turns into row 4q + i belongs to
// lane 8q + i of the low half, and 8q + 4 + i of the high half.
INLINE void zip_block(gemm_unit *dst, int64_t dst_stride, const char *at, int64_t stride, const int high) {
	vecuns r[VLEN];
	UNROLL for (int i = 0; i < VLEN; i++) {
		vs16 a, b;
		memcpy(&a, at + 2 * i * stride, sizeof a), memcpy(&b, at + (2 * i + 1) * stride, sizeof b);
		r[i] = (vecuns)(high ? SHUFFLE(a, b, 4, 36, 5, 37, 6, 38, 7, 39, 12, 44, 13, 45, 14, 46, 15, 47, 20, 52, 21, 53,
								   22, 54, 23, 55, 28, 60, 29, 61, 30, 62, 31, 63)
							 : SHUFFLE(a, b, 0, 32, 1, 33, 2, 34, 3, 35, 8, 40, 9, 41, 10, 42, 11, 43, 16, 48, 17, 49,
								   18, 50, 19, 51, 24, 56, 25, 57, 26, 58, 27, 59));
	}
	transpose(r);
	UNROLL for (int i = 0; i < VLEN; i++) *(vecuns *)(dst + (i / 4 * 8 + i % 4 + 4 * high) * dst_stride) = r[i];
}

// zip_turned packs lines along the lanes whose pairs become columns.
static void zip_turned(gemm_unit *dst, int64_t dst_stride, gemm_source src) {
	for (int64_t k = 0; k < src.k; k += 2 * VLEN)
		for (int64_t x = 0; x < src.lanes; x += 2 * VLEN) {
			const char *at = src.at + k * src.stride + 2 * x;
			char square[2 * VLEN][4 * VLEN] __attribute__((aligned(64)));
			if (k + 2 * VLEN <= src.k && x + 2 * VLEN <= src.lanes) {
				UNROLL for (int y = 0; y < 2 * VLEN; y++) memcpy(square[y], at + y * src.stride, sizeof square[y]);
			} else {
				memset(square, 0, sizeof square);
				int64_t bytes = 2 * (src.lanes - x < 2 * VLEN ? src.lanes - x : 2 * VLEN);
				for (int64_t y = 0; y < 2 * VLEN && k + y < src.k; y++) memcpy(square[y], at + y * src.stride, bytes);
			}
			gemm_unit *to = dst + x * dst_stride + k / 2;
			zip_block(to, dst_stride, square[0], sizeof square[0], 0);
			zip_block(to, dst_stride, square[0], sizeof square[0], 1);
		}
}
#endif

INLINE void pack(gemm_unit *dst, int64_t dst_stride, int stay, gemm_source src, dtype from) {
	int64_t n = gemm_lines(&src), bytes = gemm_length(&src) * size_of(from);
#if BF16_DOT
	if (!src.along_k) {
		if (stay) zip_lines(dst, dst_stride, src);
		else zip_turned(dst, dst_stride, src);
		return;
	}
	from = F32; // the pairs are units as they are
#endif
	if (stay) FOR_TYPE(from, pack_lines(dst, dst_stride, src.at, src.stride, n, bytes, type))
	else FOR_TYPE(from, pack_turned(dst, dst_stride, src.at, src.stride, n, bytes, type))
}

static void AT_LEVEL(pack_a)(gemm_unit *dst, gemm_source src, dtype from) {
#if SIDE > 1
	if (src.along_k) FOR_TYPE(from, side_rows(dst, src, type))
	else FOR_TYPE(from, side_columns(dst, src, type))
#else
	pack(dst, GEMM_STRIDE, src.along_k, src, from);
#endif
}

static void AT_LEVEL(pack_b)(gemm_unit *dst, gemm_source src, dtype type) {
	pack(dst, 2 * VLEN, !src.along_k, src, type);
}
