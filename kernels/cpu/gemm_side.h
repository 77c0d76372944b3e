// Packing A for micro-kernels that read its rows side by side, as one stream: AVX2's and AVX-512's. All that they do
// besides multiply-adds takes instructions that a core, whose other thread may be busy, could spend on those.

#ifndef RESTYLE_GEMM_SIDE
#define RESTYLE_GEMM_SIDE

#define side_rows AT_LEVEL(side_rows)
#define side_columns AT_LEVEL(side_columns)

#endif

// side_rows packs lines along k: unit k of row i becomes unit k · ROWS + i of its micro-kernel. Each vector has VLEN
// rows; the next vector overwrites the rows from ROWS on.
INLINE void side_rows(gemm_unit *dst, gemm_source src, const dtype type) {
	const int halves = type == BF16 ? 2 : 1; // bf16 is turned as pairs, which are then taken apart
	const dtype loaded = type == BF16 ? F32 : type;
	const int step = (int)size_of(loaded) * VLEN;
	const int64_t bytes = src.k * size_of(type);
	for (int64_t i = 0; i < src.lanes; i += ROWS, dst += ROWS * GEMM_STRIDE, src.at += ROWS * src.stride) {
		int64_t n = src.lanes - i < ROWS ? src.lanes - i : ROWS;
		gemm_unit *to = dst;
		for (int64_t x = 0; x < bytes; x += step) {
			vecuns r[VLEN] = {{0}};
			if (n == ROWS && x + step <= bytes) {
				UNROLL for (int y = 0; y < ROWS; y++) r[y] = load_units(src.at + y * src.stride + x, loaded);
			} else {
				char edge[ROWS][4 * VLEN] = {{0}};
				for (int64_t y = 0; y < n; y++)
					memcpy(edge[y], src.at + y * src.stride + x, bytes - x < step ? bytes - x : step);
				UNROLL for (int y = 0; y < ROWS; y++) r[y] = load_units(edge[y], loaded);
			}
			transpose(r);
			UNROLL for (int y = 0; y < VLEN; y++)
				UNROLL for (int half = 0; half < halves; half++, to += ROWS) {
					vecuns unit = halves == 1 ? r[y] : half_of(r[y], half);
					memcpy(to, &unit, sizeof unit);
				}
		}
	}
}

// side_columns packs lines along the lanes in the same way. It takes a few lines at a time: if they are a power of two
// apart, they are all in one set of the L1 cache.
INLINE void side_columns(gemm_unit *dst, gemm_source src, const dtype type) {
	enum { FEW = 4 };
	const int64_t size = size_of(type);
	for (; src.k > 0; src.k -= FEW, src.at += FEW * src.stride, dst += FEW * ROWS) {
		gemm_unit *to = dst;
		const char *at = src.at;
		int64_t left = src.lanes;
		if (src.k >= FEW)
			for (; left >= VLEN; left -= ROWS, to += ROWS * GEMM_STRIDE, at += ROWS * size)
				UNROLL for (int y = 0; y < FEW; y++) {
					vecuns r = load_units(at + y * src.stride, type);
					memcpy(to + y * ROWS, &r, sizeof r);
				}
		for (; left > 0; left -= ROWS, to += ROWS * GEMM_STRIDE, at += ROWS * size)
			for (int y = 0; y < FEW && y < src.k; y++) {
				vec r = ld(at + y * src.stride, 0, left < VLEN ? left : VLEN, type);
				memcpy(to + y * ROWS, &r, sizeof r);
			}
	}
}
