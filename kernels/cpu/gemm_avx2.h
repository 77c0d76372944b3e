// What AVX2 has of its own. With its 16 registers a micro-kernel has only 6 rows, and all else that it does takes
// instructions that a core, whose other thread may be busy, could spend on multiply-adds. So the rows of packed A lie
// side by side: a micro-kernel reads A and B as one stream each. It prefetches before its loop, not in it. And several
// micro-kernels run from one turn of packing to the next.

enum { LINES = 8 }; // that a micro-kernel prefetches of each walk, before it multiplies

#define add_products AT_LEVEL(add_products)
#define side_rows AT_LEVEL(side_rows)
#define side_columns AT_LEVEL(side_columns)

// side_rows packs lines along k: unit k of row i becomes unit k · ROWS + i of its micro-kernel. Each vector has VLEN
// rows, of which the next vector overwrites those from ROWS on.
INLINE void side_rows(gemm_unit *dst, gemm_source src, const dtype type) {
	const int size = (int)size_of(type), step = size * VLEN;
	const int64_t bytes = src.k * size;
	for (int64_t i = 0; i < src.lanes; i += ROWS, dst += ROWS * GEMM_STRIDE, src.at += ROWS * src.stride) {
		int64_t n = src.lanes - i < ROWS ? src.lanes - i : ROWS;
		gemm_unit *to = dst;
		for (int64_t x = 0; x < bytes; x += step, to += VLEN * ROWS) {
			vecuns r[VLEN] = {{0}};
			if (n == ROWS && x + step <= bytes) {
				UNROLL for (int y = 0; y < ROWS; y++) r[y] = load_units(src.at + y * src.stride + x, type);
			} else {
				char edge[ROWS][4 * VLEN] = {{0}};
				for (int64_t y = 0; y < n; y++)
					memcpy(edge[y], src.at + y * src.stride + x, bytes - x < step ? bytes - x : step);
				UNROLL for (int y = 0; y < ROWS; y++) r[y] = load_units(edge[y], type);
			}
			transpose(r);
			UNROLL for (int y = 0; y < VLEN; y++) memcpy(to + y * ROWS, &r[y], sizeof r[y]);
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

static void AT_LEVEL(pack_a)(gemm_unit *dst, gemm_source src, dtype from) {
	if (src.along_k) FOR_TYPE(from, side_rows(dst, src, type))
	else FOR_TYPE(from, side_columns(dst, src, type))
}

// add_products adds the products of one unit of k. The instruction is written out: left to itself, gcc copies sums from
// register to register.
INLINE void add_products(vec sum[ROWS][2], const gemm_unit *a, const gemm_unit *b, const int rows, const int vectors) {
	vec line[2];
	UNROLL for (int j = 0; j < vectors; j++) line[j] = *(const vec *)(b + j * VLEN);
	UNROLL for (int i = 0; i < rows; i++) {
		vec one = (vec)(a[i] + (vecuns){0});
		UNROLL for (int j = 0; j < vectors; j++)
			__asm__("vfmadd231ps %2, %1, %0" : "+x"(sum[i][j]) : "x"(line[j]), "x"(one));
	}
}

INLINE void micro_kernel(float *sums, const gemm_unit *a, const gemm_unit *b, int64_t units,
	gemm_walk walks[GEMM_WALKS], const int rows, const int vectors, const int pairs) {
	(void)pairs;
	for (int i = 0; i < GEMM_WALKS; i++)
		for (int n = 0; n < LINES && walks[i].lines > 0; n++) gemm_step(&walks[i]);
	vec sum[ROWS][2];
	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = vzero();
	for (; units >= 4; units -= 4, a += 4 * ROWS, b += 4 * 2 * VLEN)
		UNROLL for (int k = 0; k < 4; k++) add_products(sum, a + k * ROWS, b + k * 2 * VLEN, rows, vectors);
	for (; units > 0; units--, a += ROWS, b += 2 * VLEN) add_products(sum, a, b, rows, vectors);
	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int j = 0; j < vectors; j++) *(vec *)(sums + i * 2 * VLEN + j * VLEN) = sum[i][j];
}
