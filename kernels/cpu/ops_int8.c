// Activations in 8 bits times weights in 8 bits; kernels/op_int8.go has the formulas.
#ifndef LEVEL
#include "quant.h"

// BLOCK is the number of rows of w that a task multiplies by all rows of x, and FEW the number of rows of w that are
// multiplied at once without tiles.
enum { BLOCK = 32, FEW = 4 };

// A panel of x stays in the L2 cache while all of w passes by.
enum { PANEL_BYTES = 1 << 20 };

// Operands of a product. A row of codes has x's, padded with zeros; if tiled, a unit of four codes is a column of a
// tile instead, as AMX reads its second operand.
typedef struct {
	matrix y;
	tensor x, w, bias, codes, scales, sums; // sums: of each row of codes
	bool add, tiled;
	int64_t from; // row of the panel's first
} int8_product;

// code_at returns where the codes of row r from code k on are. k is a multiple of 4.
static inline int8_t *code_at(const int8_product *o, int64_t r, int64_t k) {
	int8_t *codes = (int8_t *)o->codes.at;
	if (!o->tiled) return codes + r * o->codes.cols + k;
	return codes + r / 16 * 16 * o->codes.cols + k / 64 * 1024 + k % 64 / 4 * 64 + r % 16 * 4;
}

static inline const uint8_t *weights_of(const int8_product *o, int64_t n) {
	return (const uint8_t *)o->w.at + n * quant_row(INT8, o->w.cols);
}

#define EACH_LEVEL "ops_int8.c"
#include "each_level.h"

#if defined(__x86_64__)
// At the level of AVX-512 without BF16, only some machines have dot products of bytes.
#define LEVEL avx512vnni
#define VLEN 16
#define BF16_DOT 0
#define BYTE_DOT 1
BEGIN_TARGET("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#include "vec.h"
#include EACH_LEVEL
END_TARGET
#undef LEVEL
#undef VLEN
#undef BF16_DOT
#undef BYTE_DOT
#endif

static const cpu_task quantize_rows[CPU_LEVELS] = AT_EACH_LEVEL(quantize_rows);
static const cpu_task int8_rows[CPU_LEVELS] = AT_EACH_LEVEL(int8_rows);

#if defined(__x86_64__)
BEGIN_TARGET("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,amx-tile,amx-int8")
#include "tiles.h"

// weights_tile returns 16 rows of 64 weights from weight k of row n on, and the bytes from one row to the next: where
// they are or, at the ends of rows and of w, a copy in room.
static const void *weights_tile(
	const int8_product *o, int64_t n, int64_t k, uint8_t room[TILE][64], int64_t *stride) {
	const int64_t length = padded(o->w.cols, 16) - k;
	const uint8_t *at = weights_of(o, n) + 16 + k;
	if (length >= 64 && n + TILE <= o->w.rows) {
		*stride = quant_row(INT8, o->w.cols);
		return at;
	}
	memset(room, 0, TILE * 64);
	for (int64_t i = 0; i < TILE && n + i < o->w.rows; i++)
		memcpy(room[i], weights_of(o, n + i) + 16 + k, length < 64 ? length : 64);
	*stride = 64;
	return room;
}

// turn transposes a tile of sums in place.
static void turn(int32_t *sums) {
	vu16 lines[TILE];
	for (int i = 0; i < TILE; i++) memcpy(&lines[i], sums + i * BLOCK, sizeof lines[i]);
	transpose_avx512bf16(lines);
	for (int i = 0; i < TILE; i++) memcpy(sums + i * BLOCK, &lines[i], sizeof lines[i]);
}

// int8_tiles is int8_rows with tiles: tiles of w, as its rows are, times tiles of x. A tile of sums has a row for each
// of w's.
static void int8_tiles(void *arg, int64_t lo, int64_t hi) {
	const int8_product *o = arg;
	uint8_t room[2][TILE][64] __attribute__((aligned(64)));
	int32_t sums[BLOCK][BLOCK] __attribute__((aligned(64)));
	float scales[BLOCK];
	scales_of_avx512bf16(scales, o, lo, hi);
	begin_amx();
	for (int64_t r = 0; r < o->x.rows; r += BLOCK) {
		_tile_zero(0);
		_tile_zero(1);
		_tile_zero(2);
		_tile_zero(3);
		for (int64_t k = 0; k < o->w.cols; k += 64) {
			int64_t stride[2];
			const void *low = weights_tile(o, lo, k, room[0], &stride[0]);
			const void *high = weights_tile(o, lo + TILE, k, room[1], &stride[1]);
			if (r == 0)
				for (int64_t i = 0; i < BLOCK; i++) __builtin_prefetch(weights_of(o, hi + i) + 16 + k, 0, 2);
			IN_MEMORY();
			_tile_loadd(4, low, stride[0]);
			_tile_loadd(5, high, stride[1]);
			_tile_loadd(6, code_at(o, r, k), 64);
			_tile_loadd(7, code_at(o, r + TILE, k), 64);
			_tile_dpbssd(0, 4, 6);
			_tile_dpbssd(1, 4, 7);
			_tile_dpbssd(2, 5, 6);
			_tile_dpbssd(3, 5, 7);
		}
		_tile_stored(0, sums[0], 4 * BLOCK);
		_tile_stored(1, sums[TILE], 4 * BLOCK);
		_tile_stored(2, sums[0] + TILE, 4 * BLOCK);
		_tile_stored(3, sums[TILE] + TILE, 4 * BLOCK);
		IN_MEMORY();
		for (int i = 0; i < BLOCK; i += TILE)
			for (int j = 0; j < BLOCK; j += TILE) turn(&sums[i][j]);
		for (int64_t i = 0; i < BLOCK && r + i < o->x.rows; i++) finish_avx512bf16(o, sums[i], scales, r + i, lo, hi);
	}
	end_amx();
}
END_TARGET
#endif

// LinearInt8 computes y = x·wᵀ + bias, or adds it to y, for INT8 w. x is quantized to codes, whose rows are padded to a
// multiple of 64 bytes, and their number to one of 32, and to a scale and the sum of the codes per row.
void cpu_linear_int8(matrix y, tensor x, tensor w, tensor bias, tensor codes, tensor scales, tensor sums, bool add) {
	int8_product o = {.y = y, .x = x, .w = w, .bias = bias, .codes = codes, .scales = scales, .sums = sums, .add = add};
	cpu_task quantize = quantize_rows[cpu_level()], rows = int8_rows[cpu_level()];
#if defined(__x86_64__)
	if (cpu_level() == CPU_AVX512 && cpu_byte_dots()) quantize = quantize_rows_avx512vnni, rows = int8_rows_avx512vnni;
	o.tiled = cpu_level() == CPU_AMX && x.rows > 2 * FEW;
	if (o.tiled) rows = int8_tiles;
#endif
	cpu_parallel(quantize, &o, x.rows, grain(x.cols * size_of(x.type)));
	const int64_t panel = padded(PANEL_BYTES / codes.cols + 1, BLOCK);
	for (; o.from < x.rows; o.from += panel) {
		int8_product part = o;
		part.x.rows = x.rows - o.from < panel ? x.rows - o.from : panel;
		part.codes.at += o.from * codes.cols;
		cpu_parallel(rows, &part, w.rows, BLOCK);
	}
}

#else
#include "ops_loops.h"
#include "transpose_loops.h"

#define signed_bytes_of AT_LEVEL(signed_bytes_of)
#define sums_of AT_LEVEL(sums_of)
#define scales_of AT_LEVEL(scales_of)
#define finish AT_LEVEL(finish)

// signed_bytes_of returns integers from -128 to 127 as bytes.
typedef int8_t AT_LEVEL(bytes) __attribute__((vector_size(VLEN)));

INLINE AT_LEVEL(bytes) signed_bytes_of(vecint v) {
#if VLEN == 16
	return (AT_LEVEL(bytes))_mm512_cvtepi32_epi8((__m512i)v);
#else
	return __builtin_convertvector(v, AT_LEVEL(bytes));
#endif
}

static void AT_LEVEL(quantize_rows)(void *arg, int64_t lo, int64_t hi) {
	const int8_product *o = arg;
	const int64_t in = o->x.cols;
	const dtype type = o->x.type;
	for (int64_t r = lo; r < hi; r++) {
		const void *x = row(o->x, r, type);
		vec largest = vzero(), rest = vzero(); // rest: NaN if an element is NaN or infinite
		EACH(i, n, 0, in, {
			const vec v = ld(x, i, n, type);
			largest = vmax((vec)((vecint)v & 0x7FFFFFFF), largest);
			rest += v - v;
		});
		const float scale = vhmax(largest) / 127 + vsum(rest);
		vecint sum = {0};
		for (int64_t i = 0; i < o->codes.cols; i += VLEN) {
			const int64_t n = in - i < VLEN ? (in - i > 0 ? in - i : 0) : VLEN;
			AT_LEVEL(bytes) codes = {0};
			if (scale > 0 && n > 0) { // beyond 127 only if the scale is subnormal
				const vec v = vmin(vset(127), vmax(vset(-127), ld(x, i, n, type) / scale));
				const vecint whole = __builtin_convertvector(vnearest(v), vecint);
				sum += whole;
				codes = signed_bytes_of(whole);
			}
			for (int j = 0; j < VLEN; j += 4) memcpy(code_at(o, r, i + j), (const char *)&codes + j, 4);
		}
		int32_t total = 0;
		for (int j = 0; j < VLEN; j++) total += sum[j];
		((float *)o->scales.at)[r] = scale, ((int32_t *)o->sums.at)[r] = total;
	}
}

// scales_of lists the scales of rows lo to hi of w.
INLINE void scales_of(float scales[BLOCK], const int8_product *o, int64_t lo, int64_t hi) {
	for (int64_t n = lo; n < hi; n++) memcpy(scales + n - lo, weights_of(o, n), 4);
}

// finish stores a row's outputs lo to hi.
INLINE void finish(
	const int8_product *o, const int32_t *sums, const float scales[BLOCK], int64_t r, int64_t lo, int64_t hi) {
	const float scale = ((const float *)o->scales.at)[o->from + r];
	void *y = row(o->y, o->from + r, o->y.type);
	FOR_TYPE(o->y.type, EACH(i, n, 0, hi - lo, {
		vecint sum = {0};
		memcpy(&sum, sums + i, sizeof sum); // of BLOCK
		vec v = __builtin_convertvector(sum, vec) * (scale * ld(scales, i, n, F32));
		if (o->bias.at) v += ld((void *)o->bias.at, lo + i, n, o->bias.type);
		if (o->add) v += ld(y, lo + i, n, type);
		st(y, lo + i, n, v, type);
	}))
}

#if VLEN == 16
#define sums_of_four AT_LEVEL(sums_of_four)

// sums_of_four adds up the elements of each of four vectors.
INLINE __m128i sums_of_four(const vecint v[FEW]) {
	__m512i half[2];
	for (int i = 0; i < 2; i++) {
		const __m512i a = (__m512i)v[2 * i], b = (__m512i)v[2 * i + 1];
		half[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
	}
	const __m512i all = _mm512_add_epi32(
		_mm512_unpacklo_epi64(half[0], half[1]), _mm512_unpackhi_epi64(half[0], half[1]));
	const __m256i two = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
	return _mm_add_epi32(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
}
#endif

// sums_of adds up the products of the codes of count rows of x, from row r on, and of FEW rows of w, from row n on: a
// line of BLOCK sums for each of x's. Where there are fewer, the last is multiplied again. vpdpbusd multiplies unsigned
// bytes by signed ones: 128 is added to the weights, and 128 times the sum of x's codes subtracted. Without it, codes
// become words. MANY is the most rows of x at once: as many as there are registers for sums.
#define MANY (VLEN == 16 ? 6 : VLEN == 8 ? 2 : 4)

INLINE void sums_of(int32_t *sums, const int8_product *o, int64_t n, int64_t r, const int count) {
	const int64_t length = padded(o->w.cols, 16), ahead = FEW * quant_row(INT8, o->w.cols);
	const uint8_t *w[FEW];
	const int8_t *x[MANY];
	for (int i = 0; i < FEW; i++) w[i] = weights_of(o, n + i < o->w.rows ? n + i : o->w.rows - 1) + 16;
	for (int j = 0; j < count; j++) x[j] = code_at(o, r + j < o->x.rows ? r + j : o->x.rows - 1, 0);
#if VLEN == 4
	for (int j = 0; j < count; j++)
		for (int i = 0; i < FEW; i++) {
			int32_t sum = 0;
			for (int64_t k = 0; k < length; k++) sum += (int8_t)w[i][k] * x[j][k];
			sums[j * BLOCK + i] = sum;
		}
	(void)ahead;
#else
#if BYTE_DOT
	enum { STEP = 64 };
#define CODES __m512i
#define LOAD(p) _mm512_loadu_si512(p)
#define LOAD_PART(p, n) _mm512_maskz_loadu_epi8(((__mmask64)1 << (n)) - 1, p)
#define OFFSET(v) _mm512_xor_si512(v, _mm512_set1_epi8(-128))
#define ADD(sum, w, x) (vecint) _mm512_dpbusd_epi32((__m512i)sum, w, x)
#elif VLEN == 16
	enum { STEP = 32 };
#define CODES __m512i
#define LOAD(p) _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(p)))
#define LOAD_PART(p, n) _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(((__mmask32)1 << (n)) - 1, p))
#define OFFSET(v) v
#define ADD(sum, w, x) (sum) + (vecint)_mm512_madd_epi16(w, x)
#else
	enum { STEP = 16 };
#define CODES __m256i
#define LOAD(p) _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(p)))
#define LOAD_PART(p, n) LOAD(p)
#define OFFSET(v) v
#define ADD(sum, w, x) (sum) + (vecint)_mm256_madd_epi16(w, x)
#endif
	vecint sum[MANY][FEW];
	UNROLL for (int j = 0; j < count; j++)
		UNROLL for (int i = 0; i < FEW; i++) sum[j][i] = (vecint){0};
	for (int64_t k = 0; k < length; k += STEP) {
		CODES codes[MANY];
		UNROLL for (int j = 0; j < count; j++) codes[j] = LOAD(x[j] + k); // padded
		UNROLL for (int i = 0; i < FEW; i++) {
			if (r == 0 && k % 64 == 0) __builtin_prefetch(w[i] + k + ahead, 0, 3);
			const CODES v = OFFSET(length - k >= STEP ? LOAD(w[i] + k) : LOAD_PART(w[i] + k, length - k));
			UNROLL for (int j = 0; j < count; j++) sum[j][i] = ADD(sum[j][i], v, codes[j]);
		}
	}
	UNROLL for (int j = 0; j < count; j++) {
#if VLEN == 16
		__m128i four = sums_of_four(sum[j]);
		if (BYTE_DOT) {
			const int32_t codes = ((const int32_t *)o->sums.at)[o->from + (r + j < o->x.rows ? r + j : 0)];
			four = _mm_sub_epi32(four, _mm_set1_epi32(128 * codes));
		}
		_mm_storeu_si128((__m128i *)(sums + j * BLOCK), four);
#else
		UNROLL for (int i = 0; i < FEW; i++) {
			sums[j * BLOCK + i] = 0;
			UNROLL for (int l = 0; l < VLEN; l++) sums[j * BLOCK + i] += sum[j][i][l];
		}
#endif
	}
#undef CODES
#undef LOAD
#undef LOAD_PART
#undef OFFSET
#undef ADD
#endif
}

// A task is BLOCK rows of w, or the last ones.
static void AT_LEVEL(int8_rows)(void *arg, int64_t lo, int64_t hi) {
	const int8_product *o = arg;
	int32_t sums[MANY][BLOCK];
	float scales[BLOCK];
	scales_of(scales, o, lo, hi);
	for (int64_t r = 0; r < o->x.rows; r += MANY) {
		const int64_t left = o->x.rows - r;
		for (int64_t n = lo; n < hi; n += FEW) {
			int32_t *to = sums[0] + (n - lo);
			if (left > 4) sums_of(to, o, n, r, MANY);
			else if (left > 2) sums_of(to, o, n, r, MANY < 4 ? MANY : 4);
			else if (left > 1) sums_of(to, o, n, r, 2);
			else sums_of(to, o, n, r, 1);
		}
		for (int64_t i = 0; i < MANY && i < left; i++) finish(o, sums[i], scales, r + i, lo, hi);
	}
}
#undef MANY
#endif
