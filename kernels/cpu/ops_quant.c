// Few rows times quantized weights; kernels/op_quantized.go has the formulas, and package tensor the layout of the
// weights.
#ifndef LEVEL
#include "quant.h"

// A word_group is a group of x as WORDS, in the order in which dots4 finds their codes.
typedef struct {
	int16_t words[GROUP];
	int32_t sum;
	float scale;
} word_group;

// nf4 are the values of NF4's codes, as package tensor lists them.
static const float nf4[16] = {-1, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
	-0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0, 0.07958029955625534f, 0.16093020141124725f,
	0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1};

#define EACH_LEVEL "ops_quant.c"
#include "each_level.h"

static const cpu_task quant_few[CPU_LEVELS] = AT_EACH_LEVEL(quant_few);
static const cpu_task dequantize[CPU_LEVELS] = AT_EACH_LEVEL(dequantize);

// copy_padded copies rows of x to room, and pads them with zeros to whole groups. In BF16, the even elements of a group
// come before the odd ones: see dots4.
static void copy_padded(tensor room, tensor x) {
	const int64_t size = size_of(x.type), groups = quant_groups(x.cols);
	for (int64_t r = 0; r < x.rows; r++)
		for (int64_t g = 0, i = 0; g < groups; g++, i += GROUP) {
			uint32_t group[GROUP] = {0};
			const int64_t n = x.cols - i < GROUP ? x.cols - i : GROUP;
			memcpy(group, (char *)x.at + (r * x.cols + i) * size, n * size);
			const uint16_t *half = (const uint16_t *)group;
			if (room.type == BF16) {
				uint16_t *to = (uint16_t *)room.at + r * room.cols + i;
				for (int j = 0; j < HALF; j++) to[j] = half[2 * j], to[HALF + j] = half[2 * j + 1];
				continue;
			}
			float *row = (float *)room.at + r * room.cols + i;
			for (int j = 0; j < GROUP; j++) row[j] = element(group, j, x.type);
		}
}

// copy_words copies rows of x, which are BF16 or F16, to room as words, padded with zeros to whole groups. The largest
// number of a group becomes a word of 15 bits, so that BF16 above a 128th of it is exact. A NaN or an infinity makes
// the group's scale NaN.
static void copy_words(tensor room, tensor x) {
	for (int64_t r = 0; r < x.rows; r++) {
		word_group *to = (word_group *)((char *)room.at + r * room.cols * size_of(WORDS));
		for (int64_t i = 0; i < x.cols; i += GROUP, to++) {
			float values[GROUP] = {0}, largest = 0, rest = 0;
			for (int64_t j = 0; j < GROUP && i + j < x.cols; j++) {
				values[j] = element((const void *)x.at, r * x.cols + i + j, x.type);
				largest = fmaxf(largest, fabsf(values[j])), rest += values[j] - values[j];
			}
			int exponent = 0;
			if (rest == 0) frexpf(largest, &exponent);
			const double unit = ldexp(1, 15 - exponent), round = 0x1.8p52; // to whole numbers
			to->scale = ldexpf(1, exponent - 15) + rest, to->sum = 0;
			for (int j = 0; j < GROUP; j++) {
				const int16_t word = rest == 0 ? (int16_t)(values[j] * unit + round - round) : 0;
				to->sum += word, to->words[32 * (j % 2 * 2 + j / HALF) + j % HALF / 2] = word;
			}
		}
	}
}

// FewQuantized computes y = x·wᵀ + more + bias, or adds it to y, for up to eight rows of x and quantized w. more is
// F32, of the size of y, or the zero Tensor. x is copied to room, which is BF16 if x is and the level has dot products
// of BF16, and F32 otherwise. A row of it has the inputs, padded to whole groups, or in its place word_groups.
void cpu_few_quantized(matrix y, tensor x, tensor w, tensor more, tensor bias, tensor room, bool add) {
	quant_product o = {.y = y, .x = room, .w = w, .bias = bias, .more = more, .add = add};
	if (is_block(w.type)) {
		quant_few_blocks(&o, x);
		return;
	}
	if (room.type == F32 && x.type != F32 && (w.type == INT4 || w.type == INT4Z) && cpu_level() >= CPU_AVX2) {
		room.type = WORDS, room.cols *= 2; // which need less room
		copy_words(room, x);
	} else {
		copy_padded(room, x);
	}
	o.x = room;
	cpu_parallel(quant_few[cpu_level()], &o, w.rows, long_grain(w.rows, quant_row(w.type, w.cols)));
}

// DequantizeRows computes the values of rows of w, rounded to the type of y: of those that index lists, or of all.
void cpu_dequantize_rows(tensor y, tensor w, tensor index) {
	quant_product o = {.y = y, .w = w, .index = (const int32_t *)index.at};
	if (is_block(w.type)) {
		quant_dequantize_blocks(&o);
		return;
	}
	cpu_parallel(dequantize[cpu_level()], &o, y.rows, grain(quant_row(w.type, w.cols) + w.cols * size_of(y.type)));
}

#else
#include "ops_loops.h"
#include "quant_loops.h"

#define word_codes AT_LEVEL(word_codes)
#define word_dots AT_LEVEL(word_dots)
#define twice AT_LEVEL(twice)
#define looked_up AT_LEVEL(looked_up)
#define nf4_values AT_LEVEL(nf4_values)
#define scales_of AT_LEVEL(scales_of)
#define dots4 AT_LEVEL(dots4)
#define dots_nf4 AT_LEVEL(dots_nf4)
#define dots8 AT_LEVEL(dots8)
#define few_rows AT_LEVEL(few_rows)

#if VLEN > 4
// word_codes returns one of the four codes of each word, and word_dots the sums of two neighbors' products.
INLINE vecint word_codes(vecuns v, const int nibble) {
#if VLEN == 16
	const __m512i low = _mm512_srli_epi16((__m512i)v, 4 * nibble);
	return (vecint)(nibble == 3 ? low : _mm512_and_si512(low, _mm512_set1_epi16(15)));
#else
	const __m256i low = _mm256_srli_epi16((__m256i)v, 4 * nibble);
	return (vecint)(nibble == 3 ? low : _mm256_and_si256(low, _mm256_set1_epi16(15)));
#endif
}

INLINE vecint word_dots(vecint codes, const int16_t *x) {
#if VLEN == 16
	return (vecint)_mm512_madd_epi16((__m512i)codes, _mm512_loadu_si512(x));
#else
	return (vecint)_mm256_madd_epi16((__m256i)codes, _mm256_loadu_si256((const __m256i *)x));
#endif
}
#endif

#if BF16_DOT
// The integers from -15 to 15 as BF16. vpermw looks up 32 values by the low five bits of a word. The fifth belongs to
// another code, so each of 16 values is there twice.
static const uint16_t integers[31] = {0xC170, 0xC160, 0xC150, 0xC140, 0xC130, 0xC120, 0xC110, 0xC100, 0xC0E0, 0xC0C0,
	0xC0A0, 0xC080, 0xC040, 0xC000, 0xBF80, 0x0000, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0, 0x40E0, 0x4100,
	0x4110, 0x4120, 0x4130, 0x4140, 0x4150, 0x4160, 0x4170};

// 16 times the integers from 0 to 7 and from -8 to -1: the high four bits of a signed byte.
static const uint16_t sixteens[16] = {0x0000, 0x4180, 0x4200, 0x4240, 0x4280, 0x42A0, 0x42C0, 0x42E0, 0xC300, 0xC2E0,
	0xC2C0, 0xC2A0, 0xC280, 0xC240, 0xC200, 0xC180};

INLINE __m512i twice(const uint16_t *values) {
	return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)values));
}

// looked_up adds the dot product of x and what the table has for the low four bits of each word.
INLINE vec looked_up(vec sum, __m512i words, __m512i table, const char *x) {
	return (vec)_mm512_dpbf16_ps(
		(__m512)sum, (__m512bh)_mm512_permutexvar_epi16(words, table), (__m512bh)_mm512_loadu_si512(x));
}
#endif

// nf4_values looks up the values of codes.
INLINE vec nf4_values(vecuns codes) {
#if VLEN == 16
	return (vec)_mm512_permutexvar_ps((__m512i)codes, _mm512_loadu_ps(nf4));
#elif VLEN == 8
	const __m256i at = (__m256i)codes; // the bit that is 8 chooses the half of the table, as a sign
	const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(nf4), at);
	const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(nf4 + 8), at);
	return (vec)_mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(at, 28)));
#else
	vec values;
	for (int i = 0; i < VLEN; i++) values[i] = nf4[codes[i]];
	return values;
#endif
}

// scales_of computes n scales as floats.
INLINE void scales_of(float *to, const uint8_t *head, int64_t n) {
	EACH(i, m, 0, n, { st(to, i, m, ld(head, i, m, F16), F32); });
}

// dots4 computes the dot products of a 4-bit row with count rows of x. The codes of a group are multiplied first, and
// then their sum by the scale, so that no weight is rounded.
INLINE void dots4(float *out, const uint8_t *head, const dtype type, int64_t in, const char *const *x, const int count,
	const dtype x_type) {
	enum { SCALES = 32 };
	const int64_t groups = quant_groups(in);
	const uint8_t *codes = head + quant_head(type, in), *zeros = head + padded(2 * groups, 16);
	float scales[SCALES];
	vec sum[MAX_ROWS];
	UNROLL for (int i = 0; i < count; i++) sum[i] = vzero();
	for (int64_t g = 0; g < groups; g++, codes += HALF) {
		if (g % SCALES == 0) scales_of(scales, head + 2 * g, groups - g < SCALES ? groups - g : SCALES);
		const vec scale = vset(scales[g % SCALES]);
		const int zero = type == INT4Z ? zeros[g] & 15 : 8;
		__builtin_prefetch(codes + AHEAD, 0, 3);
#if VLEN > 4
		if (x_type == WORDS) {
			vecint whole[MAX_ROWS];
			const word_group *at[MAX_ROWS];
			UNROLL for (int i = 0; i < count; i++)
				at[i] = (const word_group *)x[i] + g, whole[i] = (vecint){-zero * at[i]->sum};
			UNROLL for (int j = 0; j < 32; j += 2 * VLEN) {
				vecuns v;
				memcpy(&v, codes + 2 * j, sizeof v);
				UNROLL for (int nibble = 0; nibble < 4; nibble++) {
					const vecint words = word_codes(v, nibble);
					UNROLL for (int i = 0; i < count; i++) whole[i] += word_dots(words, at[i]->words + 32 * nibble + j);
				}
			}
			UNROLL for (int i = 0; i < count; i++)
				sum[i] += __builtin_convertvector(whole[i], vec) * (scale * at[i]->scale);
			continue;
		}
#endif
		vec part[MAX_ROWS][2];
		UNROLL for (int i = 0; i < count; i++) part[i][0] = part[i][1] = vzero();
#if BF16_DOT
		if (x_type == BF16) {
			const __m512i v = _mm512_loadu_si512(codes), table = twice(integers + 15 - zero);
			UNROLL for (int j = 0; j < 4; j++) {
				const __m512i words = j == 0 ? v : _mm512_srli_epi16(v, 4 * j);
				UNROLL for (int i = 0; i < count; i++)
					part[i][0] = looked_up(part[i][0], words, table, x[i] + 2 * (g * GROUP + j * 32));
			}
			UNROLL for (int i = 0; i < count; i++) sum[i] += scale * part[i][0];
			continue;
		}
#endif
		for (int j = 0; j < HALF; j += VLEN) {
			const vecuns v = code_bytes(codes + j);
			const vec low = __builtin_convertvector((vecint)(v & 15) - zero, vec);
			const vec high = __builtin_convertvector((vecint)(v >> 4) - zero, vec);
			UNROLL for (int i = 0; i < count; i++) {
				const float *at = (const float *)x[i] + g * GROUP + j;
				part[i][0] += low * vload(at);
				part[i][1] += high * vload(at + HALF);
			}
		}
		UNROLL for (int i = 0; i < count; i++) sum[i] += scale * (part[i][0] + part[i][1]);
	}
	UNROLL for (int i = 0; i < count; i++) out[i] = vsum(sum[i]);
}

// dots_nf4 computes the dot products of a row of NF4 with count rows of x, which are F32. The padding of a row's scales
// is 0.
INLINE void dots_nf4(float *out, const uint8_t *head, int64_t in, const char *const *x, const int count) {
	const float *scales = (const float *)head;
	const uint8_t *codes = head + quant_head(NF4, in);
	vec sum[MAX_ROWS];
	UNROLL for (int i = 0; i < count; i++) sum[i] = vzero();
	for (int64_t g = 0; g < quant_groups(in); g++, codes += HALF) {
		const vec low = vset(scales[2 * g]), high = vset(scales[2 * g + 1]);
		__builtin_prefetch(codes + AHEAD, 0, 3);
		for (int j = 0; j < HALF; j += VLEN) {
			const vecuns v = code_bytes(codes + j);
			const vec a = nf4_values(v & 15) * low, b = nf4_values(v >> 4) * high;
			UNROLL for (int i = 0; i < count; i++) {
				const float *at = (const float *)x[i] + g * GROUP + j;
				sum[i] += a * vload(at);
				sum[i] += b * vload(at + HALF);
			}
		}
	}
	UNROLL for (int i = 0; i < count; i++) out[i] = vsum(sum[i]);
}

// dots8 computes the dot products of an 8-bit row with count rows of x.
INLINE void dots8(float *out, const uint8_t *head, int64_t in, const char *const *x, const int count,
	const dtype x_type) {
	const uint8_t *codes = head + 16;
	const int64_t n = padded(in, 16);
	float scale;
	memcpy(&scale, head, 4);
	vec sum[MAX_ROWS][2];
	UNROLL for (int i = 0; i < count; i++) sum[i][0] = sum[i][1] = vzero();
#if BF16_DOT
	for (int64_t k = 0; x_type == BF16 && k < n; k += HALF) {
		__builtin_prefetch(codes + k + AHEAD, 0, 3);
		const __m512i v = n - k >= HALF ? _mm512_loadu_si512(codes + k) :
			_mm512_maskz_loadu_epi8(((__mmask64)1 << (n - k)) - 1, codes + k);
		const __m512i low = twice(integers + 15), high = twice(sixteens);
		UNROLL for (int i = 0; i < count; i++) {
			const char *even = x[i] + 2 * (k / GROUP * GROUP + k % GROUP / 2), *odd = even + 2 * HALF;
			sum[i][0] = looked_up(sum[i][0], v, low, even);
			sum[i][1] = looked_up(sum[i][1], _mm512_srli_epi16(v, 4), high, even);
			sum[i][0] = looked_up(sum[i][0], _mm512_srli_epi16(v, 8), low, odd);
			sum[i][1] = looked_up(sum[i][1], _mm512_srli_epi16(v, 12), high, odd);
		}
	}
#endif
	for (int64_t k = 0; x_type == F32 && k < n; k += 16) {
		__builtin_prefetch(codes + k + AHEAD, 0, 3);
		UNROLL for (int j = 0; j < 16; j += VLEN) {
			const vec w = signed_bytes(codes + k + j);
			UNROLL for (int i = 0; i < count; i++)
				sum[i][j / VLEN % 2] += w * vload((const float *)x[i] + k + j);
		}
	}
	UNROLL for (int i = 0; i < count; i++) out[i] = scale * vsum(sum[i][0] + sum[i][1]);
}

// few_rows computes the outputs lo to hi of the first count rows, or of all if there are fewer.
INLINE void few_rows(const quant_product *o, int64_t lo, int64_t hi, const int count, const dtype x_type) {
	const int64_t bytes = quant_row(o->w.type, o->w.cols);
	const char *x[MAX_ROWS];
	for (int i = 0; i < count; i++)
		x[i] = (const char *)o->x.at + (i < o->x.rows ? i : o->x.rows - 1) * o->x.cols * size_of(x_type);
	for (int64_t n = lo; n < hi; n++) {
		const uint8_t *head = (const uint8_t *)o->w.at + n * bytes;
		float out[MAX_ROWS] = {0};
		if (o->w.type == INT8) dots8(out, head, o->w.cols, x, count, x_type);
		else if (o->w.type == NF4) dots_nf4(out, head, o->w.cols, x, count);
		else if (o->w.type == INT4) dots4(out, head, INT4, o->w.cols, x, count, x_type);
		else dots4(out, head, INT4Z, o->w.cols, x, count, x_type);
		quant_store(o, 0, count, n, out);
	}
}

static void AT_LEVEL(quant_few)(void *arg, int64_t lo, int64_t hi) {
	const quant_product *o = arg;
	const int64_t rows = o->y.rows;
#define FEW(count) \
	if (o->x.type == BF16) few_rows(o, lo, hi, count, BF16); \
	else if (o->x.type == WORDS) few_rows(o, lo, hi, count, WORDS); \
	else few_rows(o, lo, hi, count, F32);
	if (rows > 4) { FEW(8) }
	else if (rows > 2) { FEW(4) }
	else if (rows > 1) { FEW(2) }
	else { FEW(1) }
#undef FEW
}

// A value is one product, code · scale, rounded once more to the type of y.
static void AT_LEVEL(dequantize)(void *arg, int64_t lo, int64_t hi) {
	const quant_product *o = arg;
	const int64_t in = o->w.cols, groups = quant_groups(in), size = size_of(o->y.type);
	const dtype type = o->w.type;
	for (int64_t n = lo; n < hi; n++) {
		const int64_t from = o->index ? o->index[n] : n;
		const uint8_t *head = (const uint8_t *)o->w.at + from * quant_row(type, in), *codes = head + quant_head(type, in);
		char *y = (char *)o->y.at + n * o->y.stride * size;
		float all[GROUP], scale;
		memcpy(&scale, head, 4);
		for (int64_t g = 0; g < groups; g++, y += GROUP * size) {
			if (type == INT8) {
				const int64_t left = padded(in - g * GROUP, 16), end = left < GROUP ? left : GROUP;
				for (int j = 0; j < end; j += VLEN) vstore(all + j, signed_bytes(codes + g * GROUP + j) * scale);
			} else if (type == NF4) {
				const float *scales = (const float *)head + 2 * g; // the padding is 0
				for (int j = 0; j < HALF; j += VLEN) {
					const vecuns v = code_bytes(codes + g * HALF + j);
					vstore(all + j, nf4_values(v & 15) * scales[0]);
					vstore(all + j + HALF, nf4_values(v >> 4) * scales[1]);
				}
			} else {
				scale = element(head, g, F16);
				const int zero = type == INT4Z ? head[padded(2 * groups, 16) + g] : 8;
				for (int j = 0; j < HALF; j += VLEN) {
					const vecint v = (vecint)code_bytes(codes + g * HALF + j);
					vstore(all + j, __builtin_convertvector((v & 15) - zero, vec) * scale);
					vstore(all + j + HALF, __builtin_convertvector((v >> 4) - zero, vec) * scale);
				}
			}
			const int64_t end = in - g * GROUP < GROUP ? in - g * GROUP : GROUP;
			EACH(j, m, 0, end, { st(y, j, m, ld(all, j, m, F32), o->y.type); });
		}
	}
}
#endif
