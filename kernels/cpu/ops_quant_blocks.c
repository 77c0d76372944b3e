// Few rows times weights of GGUF's types, and their values: see ops_quant.c. What differs between types is a coding,
// which is constant in the loops of each.
#ifndef LEVEL
#include "quant.h"

enum {
	STEP = 16,             // groups whose scales are computed at once
	LINES = 4,             // rows of weights that are read at once: memory is read faster in several places
	CLOSE = AHEAD / LINES, // bytes that are prefetched ahead in each
};

// GROUP elements of x as WORDS. Of each half, the even elements come before the odd ones: codes are taken from the low
// and the high bytes of units of 16 bits.
typedef struct {
	int16_t words[GROUP];
	int32_t zeros[GROUP / 4]; // minus what four neighbors give if their codes are zero's
} word_block;

// A row of x is its blocks; and for each group of weights, padded to whole steps, the scale of the words and the sum of
// the elements.
typedef struct {
	word_block *blocks;
	float *scales, *sums;
} word_row;

// A row of weights.
typedef struct {
	const uint8_t *scales, *offsets, *units, *offset_units, *low, *high;
	int64_t groups;
} weight_row;

#if defined(__x86_64__)
// The high bits of the codes of HALF elements, by units of four, are this many bits above the first unit's.
static const uint32_t high_shifts[2][HALF / 4] __attribute__((aligned(64))) = {
	{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}, {0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2}};
#endif

// The numbers of the groups, of 16 and of 32, that units of four elements of a step are in.
#define TWICE(...) __VA_ARGS__, __VA_ARGS__
#define EACH_8(X) X(0), X(1), X(2), X(3), X(4), X(5), X(6), X(7)
#define EACH_16(X) EACH_8(X), X(8), X(9), X(10), X(11), X(12), X(13), X(14), X(15)
#define FOUR_TIMES(i) TWICE(TWICE(i))
#define EIGHT_TIMES(i) TWICE(FOUR_TIMES(i))
static const uint32_t group_numbers[2][STEP * 8] __attribute__((aligned(64))) = {
	{EACH_16(FOUR_TIMES)}, {EACH_16(EIGHT_TIMES)}};

typedef int16_t vw8 __attribute__((vector_size(32)));
typedef int16_t vw16 __attribute__((vector_size(64)));

// FOR_BLOCKS runs a statement in which type is a constant, equal to of.
#define FOR_BLOCKS(of, ...) \
	switch (of) { \
		FOR_TYPE_(Q4_0, , __VA_ARGS__) FOR_TYPE_(Q4_1, , __VA_ARGS__) FOR_TYPE_(Q5_0, , __VA_ARGS__) \
		FOR_TYPE_(Q5_1, , __VA_ARGS__) FOR_TYPE_(Q8_0, , __VA_ARGS__) FOR_TYPE_(Q4_K, , __VA_ARGS__) \
		FOR_TYPE_(Q5_K, , __VA_ARGS__) FOR_TYPE_(Q6_K, , __VA_ARGS__) \
	default: break; \
	}

#define EACH_LEVEL "ops_quant_blocks.c"
#include "each_level.h"

static void (*const copy_x[CPU_LEVELS])(tensor, tensor, int) = AT_EACH_LEVEL(copy_x);
static const cpu_task few_blocks[CPU_LEVELS] = AT_EACH_LEVEL(few_blocks);
static const cpu_task dequantize_blocks[CPU_LEVELS] = AT_EACH_LEVEL(dequantize_blocks);

void quant_few_blocks(quant_product *o, tensor x) {
	if (x.type != F32 && cpu_level() >= CPU_AVX2) o->x.type = WORDS, o->x.cols *= 2; // which take less room
	copy_x[cpu_level()](o->x, x, o->w.type);
	const int64_t lines = o->x.type == WORDS ? LINES : 1, bytes = lines * quant_row(o->w.type, o->w.cols);
	const int64_t items = padded(o->w.rows, lines) / lines;
	cpu_parallel(few_blocks[cpu_level()], o, items, long_grain(items, bytes));
}

void quant_dequantize_blocks(quant_product *o) {
	const int64_t bytes = quant_row(o->w.type, o->w.cols) + o->w.cols * size_of(o->y.type);
	cpu_parallel(dequantize_blocks[cpu_level()], o, o->y.rows, grain(bytes));
}

#else
#include "ops_loops.h"
#include "quant_loops.h"

#define vecwords PASTE(vw, VLEN)
#define words_at AT_LEVEL(words_at)
#define weights_at AT_LEVEL(weights_at)
#define copy_group AT_LEVEL(copy_group)
#define lanes_of AT_LEVEL(lanes_of)
#define load_bytes AT_LEVEL(load_bytes)
#define numbers AT_LEVEL(numbers)
#define value_codes AT_LEVEL(value_codes)
#define step_values AT_LEVEL(step_values)
#define step_floats AT_LEVEL(step_floats)
#define look_up AT_LEVEL(look_up)
#define float_dots AT_LEVEL(float_dots)
#define add_dots AT_LEVEL(add_dots)
#define line_dots AT_LEVEL(line_dots)
#define half_codes AT_LEVEL(half_codes)
#define word_dots AT_LEVEL(word_dots)
#define few_words AT_LEVEL(few_words)

INLINE word_row words_at(const void *row, int64_t in, int group) {
	word_block *blocks = (word_block *)row;
	float *scales = (float *)(blocks + quant_groups(in));
	return (word_row){blocks, scales, scales + padded(in / group, STEP)};
}

INLINE weight_row weights_at(const uint8_t *row, dtype type, int64_t in) {
	const coding c = codings[type];
	weight_row w = {.scales = row, .offsets = row + quant_scales(type, in), .groups = in / c.group};
	w.units = c.offsets ? w.offsets + quant_scales(type, in) : w.offsets;
	w.offset_units = w.units + quant_units(type, in);
	w.low = row + quant_head(type, in), w.high = w.low + quant_groups(in) * HALF;
	return w;
}

INLINE vecuns load_bytes(const void *p) {
	vecuns v;
	memcpy(&v, p, sizeof v);
	return v;
}

// lanes_of returns the lanes of v with these numbers, modulo VLEN.
INLINE vec lanes_of(vec v, vecuns at) {
#if VLEN == 16
	return (vec)_mm512_permutexvar_ps((__m512i)at, (__m512)v);
#elif VLEN == 8
	return (vec)_mm256_permutevar8x32_ps((__m256)v, (__m256i)at);
#else
	return (vec){v[at[0]], v[at[1]], v[at[2]], v[at[3]]};
#endif
}

// numbers returns the scales, or the offsets, of VLEN groups from g on, and 0 for groups that the row does not have.
INLINE vec numbers(const uint8_t *at, const uint8_t *units, const coding c, int64_t g, int64_t groups) {
	if (c.unit == 0) {
		const int64_t n = groups - g;
		if (n <= 0) return vzero();
		return VLEN > 8 && n < VLEN ? ld(at, g, n, F16) : ld(at, g, VLEN, F16); // the padding is 0
	}
	const vec bytes = signed_bytes(at + g);
	const uint16_t *from = (const uint16_t *)units + g * c.group / c.unit;
	vechalf unit;
	if (VLEN * c.group <= c.unit) return bytes * vwiden(*from - (vechalf){0}, F16);
	memcpy(&unit, from, sizeof unit); // codes lie behind the last one
	return bytes * lanes_of(vwiden(unit, F16), load_bytes(group_numbers[1]));
}

// value_codes returns codes e to e + VLEN-1 of GROUP, minus the code of zero.
INLINE vec value_codes(const uint8_t *low, const uint8_t *high, const coding c, const int e) {
	if (c.bits == 8) return signed_bytes(low + e);
	const int bits = c.bits - 4, bytes = GROUP / 8 * bits;
	vecint codes = (vecint)code_bytes(low + e % HALF);
	codes = e < HALF ? codes & 15 : codes >> 4;
	if (bits > 0) codes |= ((vecint)code_bytes(high + e % bytes) >> (e / bytes * bits) & ((1 << bits) - 1)) << 4;
	return __builtin_convertvector(codes - c.zero, vec);
}

#if VLEN > 4
// half_codes returns codes of 4·VLEN elements of a half of GROUP, from e on, in the low bits of bytes. What is above
// them is undefined, and codes of 4 bits are where low has them.
INLINE vecuns half_codes(vecuns low, const uint8_t *high, const coding c, const int e) {
	if (c.bits == 4) return low;
	vecuns h;
#if VLEN == 16
	h = c.bits == 5 ? (vecuns)_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)high)) :
		(vecuns)_mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)high));
#else
	h = c.bits == 5 ? (vecuns)_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)high)) : load_bytes(high);
#endif
	h = e < HALF ? h << 4 : h;
	h >>= load_bytes(high_shifts[c.bits - 5] + e % HALF / 4);
	low = e < HALF ? low : low >> 4;
	return (low & 0x0F0F0F0F) | (h & 0xF0F0F0F0);
}
#endif

#if BF16_DOT
// look_up stores the values of two groups' codes of 4 or 5 bits, or of the first one's: each group has a table of them.
INLINE void look_up(uint16_t *y, vecuns codes, const coding c, const float *scales, const float *offsets,
	int groups) {
	const vec count = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
	UNROLL for (int k = 0; k < 2; k++) {
		if (k >= groups) break;
		vec low = (count - (float)c.zero) * scales[k], high = (count + (float)(16 - c.zero)) * scales[k];
		if (c.offsets) low += offsets[k], high += offsets[k];
		const __m512i table = c.bits == 5 ? (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low) :
			_mm512_broadcast_i64x4((__m256i)_mm512_cvtneps_pbh((__m512)low)); // bit 4 of a code is undefined
		const __m256i bytes = _mm512_extracti64x4_epi64((__m512i)codes, k);
		_mm512_storeu_si512(y + 32 * k, _mm512_permutexvar_epi16(_mm512_cvtepu8_epi16(bytes), table));
	}
}
#endif

// step_values stores the values of STEP groups from g on, each rounded at most once before, when the offset is added.
INLINE void step_values(void *y, const dtype to, const weight_row w, const coding c, int64_t g) {
	const uint8_t *low = w.low + g * c.group * (c.bits == 8 ? 8 : 4) / 8, *high = w.high + g * c.group / 8 * (c.bits - 4);
	float scales[STEP], offsets[STEP];
	UNROLL for (int j = 0; j < STEP; j += VLEN) {
		vstore(scales + j, numbers(w.scales, w.units, c, g + j, w.groups));
		if (c.offsets) vstore(offsets + j, numbers(w.offsets, w.offset_units, c, g + j, w.groups));
	}
	const int64_t rest = w.groups - g, n = rest < STEP ? rest : STEP;
	for (int j = 0; j < n; j += GROUP / c.group, low += c.bits == 8 ? GROUP : HALF, high += GROUP / 8 * (c.bits - 4)) {
#if BF16_DOT
		if (to == BF16 && c.bits < 6) {
			UNROLL for (int k = 0; k < 4; k += 2) {
				vecuns codes = half_codes(load_bytes(low), high, c, k * c.group);
				if (c.bits == 4 && k > 0) codes >>= 4;
				const int at = j + k;
				look_up((uint16_t *)y + at * c.group, codes, c, scales + at, offsets + at, n - at);
			}
			continue;
		}
#endif
		UNROLL for (int k = 0; k < GROUP / c.group; k++) {
			if (j + k == n) break;
			const vec scale = vset(scales[j + k]), offset = c.offsets ? vset(offsets[j + k]) : vzero();
			UNROLL for (int e = k * c.group; e < (k + 1) * c.group; e += VLEN) {
				vec value = value_codes(low, high, c, e) * scale;
				if (c.offsets) value += offset;
				st(y, j * c.group + e, VLEN, value, to);
			}
		}
	}
}

// step_floats is step_values for F32 and any type, compiled once: products of F32 are rare.
static void step_floats(float *y, weight_row w, dtype of, int64_t g) {
	FOR_BLOCKS(of, step_values(y, F32, w, codings[type], g));
}

// float_dots computes the dot products of a row with rows of x, which are F32.
static void float_dots(float *out, const char *const *x, int count, const uint8_t *row, dtype type, int64_t in) {
	const weight_row w = weights_at(row, type, in);
	const int64_t step = STEP * codings[type].group;
	vec sum[MAX_ROWS] = {0};
	for (int64_t g = 0, from = 0; from < in; g += STEP, from += step) {
		float values[2 * STEP * STEP];
		step_floats(values, w, type, g);
		for (int i = 0; i < count; i++) {
			const float *at = (const float *)x[i] + from;
			vec part[4] = {0};
			for (int64_t e = 0; e < step && from + e < in; e += 4 * VLEN)
				UNROLL for (int j = 0; j < 4; j++) {
					const int64_t k = e + j * VLEN;
					if (VLEN == 16 && from + k >= in) break; // whole blocks are not always a multiple of 4·VLEN
					part[j] += vload(values + k) * vload(at + k);
				}
			sum[i] += (part[0] + part[1]) + (part[2] + part[3]);
		}
	}
	for (int i = 0; i < count; i++) out[i] = vsum(sum[i]);
}

#if VLEN > 4
// copy_group makes words of a group of x from element i on. The largest becomes a word of 15 bits, so that BF16 above
// a 128th of it is exact. A NaN or an infinity makes the scale NaN.
INLINE void copy_group(word_row to, const void *x, const dtype x_type, const coding c, int64_t i) {
	vec v[2 * STEP / VLEN] = {0};
	vecint largest = {0};
	UNROLL for (int j = 0; j < c.group / VLEN; j++) {
		v[j] = ld(x, i + j * VLEN, VLEN, x_type);
		const vecint magnitude = (vecint)v[j] & 0x7FFFFFFF, more = magnitude > largest;
		largest = (more & magnitude) | (~more & largest);
	}
	int32_t most = 0, words[2 * STEP], total = 0;
	for (int j = 0; j < VLEN; j++) most = largest[j] > most ? largest[j] : most;
	const bool finite = most < 0x7F800000;
	const int exponent = most >> 23 < 15 ? 15 : most >> 23; // below, units would not be normal
	const float unit = float_of_bits((uint32_t)(exponent - 14) << 23), most_units = finite ? 1 / unit : 0;
	UNROLL for (int j = 0; j < c.group / VLEN; j++) {
		const vecint whole = (vecint)(v[j] * most_units + 0x1.8p23f) - 0x4B400000; // to nearest, ties to even
		memcpy(words + j * VLEN, &whole, sizeof whole);
	}
	// Of codes of four bits, the second half's are multiplied where they are, 16 times as large.
	const int half = i % GROUP / HALF, at = i % HALF / 2, times = c.bits == 4 && half == 1 ? 16 : 1;
	word_block *block = to.blocks + i / GROUP;
	for (int j = 0; j < c.group; j += 4) {
		const int32_t *four = words + j;
		int16_t *even = block->words + half * HALF + at + j / 2, *odd = even + HALF / 2;
		even[0] = four[0], even[1] = four[2], odd[0] = four[1], odd[1] = four[3];
		const int32_t sum = four[0] + four[1] + four[2] + four[3];
		block->zeros[(i % GROUP + j) / 4] = -c.zero * times * sum;
		total += sum;
	}
	to.scales[i / c.group] = finite ? unit / times : NAN;
	to.sums[i / c.group] = finite ? unit * total : NAN;
}

// word_dots adds the products of neighboring words to sum.
INLINE vecint word_dots(vecint sum, vecuns codes, const int16_t *x) {
#if BYTE_DOT
	return (vecint)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)codes, _mm512_loadu_si512(x));
#elif VLEN == 16
	return sum + (vecint)_mm512_madd_epi16((__m512i)codes, _mm512_loadu_si512(x));
#else
	return sum + (vecint)_mm256_madd_epi16((__m256i)codes, _mm256_loadu_si256((const __m256i *)x));
#endif
}

// add_dots adds the dot products of GROUP weights of a row, from element from on, with count rows of x to sum. Their
// codes are at low and high, and their scales in scale from element b of the step on.
INLINE void add_dots(vec sum[][2], const word_row *x, const int count, float scale[][STEP], const uint8_t *low,
	const uint8_t *high, const coding c, int64_t from, int64_t in, int b) {
	const uint32_t mask = c.bits == 4 ? 0x000F000F : c.bits == 5 ? 0x001F001F : 0x003F003F;
	UNROLL for (int e = 0; e < GROUP; e += 4 * VLEN) {
		vecuns codes = {0}, odd;
		if (c.bits < 8) {
			codes = half_codes(load_bytes(low + e % HALF), high, c, e);
			const uint32_t here = c.bits == 4 && e >= HALF ? mask << 4 : mask;
			odd = codes >> 8 & here, codes &= here;
		} else {
			if (from + e >= in) break;
			if (from + e + 4 * VLEN <= in) codes = load_bytes(low + e);
			else memcpy(&codes, low + e, 2 * VLEN);
			odd = (vecuns)((vecwords)codes >> 8), codes = (vecuns)((vecwords)(codes << 8) >> 8);
		}
		const int first = (b + e) / c.group;
		const vecuns lanes = load_bytes(group_numbers[c.group / 32] + (b + e) / 4);
		UNROLL for (int i = 0; i < count; i++) {
			const word_block *block = x[i].blocks + from / GROUP;
			const int16_t *words = block->words + e / HALF * HALF + e % HALF / 2;
			vecint whole = c.zero ? (vecint)load_bytes(block->zeros + e / 4) : (vecint){0};
			whole = word_dots(whole, codes, words);
			whole = word_dots(whole, odd, words + HALF / 2);
			const vec by = c.group == 4 * VLEN ? vset(scale[i][first]) :
				lanes_of(vload(scale[i] + first / VLEN * VLEN), lanes);
			sum[i][e / HALF] += __builtin_convertvector(whole, vec) * by;
		}
	}
}

// line_dots computes the dot products of lines rows of weights with count rows of x, which are WORDS.
INLINE void line_dots(float out[][MAX_ROWS], const word_row *x, const int count, const uint8_t *const *rows,
	const int lines, const dtype type, int64_t in) {
	const coding c = codings[type];
	vec sum[LINES][MAX_ROWS][2];
	UNROLL for (int l = 0; l < lines; l++)
		UNROLL for (int i = 0; i < count; i++) sum[l][i][0] = sum[l][i][1] = vzero();
	for (int64_t g = 0; g < in / c.group; g += STEP) {
		float scale[LINES][MAX_ROWS][STEP];
		UNROLL for (int l = 0; l < lines; l++) {
			const weight_row w = weights_at(rows[l], type, in);
			UNROLL for (int j = 0; j < STEP; j += VLEN) {
				const vec own = numbers(w.scales, w.units, c, g + j, w.groups);
				UNROLL for (int i = 0; i < count; i++) vstore(scale[l][i] + j, own * vload(x[i].scales + g + j));
				if (!c.offsets) continue;
				const vec offset = numbers(w.offsets, w.offset_units, c, g + j, w.groups);
				UNROLL for (int i = 0; i < count; i++) sum[l][i][0] += offset * vload(x[i].sums + g + j);
			}
		}
		int64_t from = g * c.group;
		for (int b = 0; b < STEP * c.group && from < in; b += GROUP, from += GROUP)
			UNROLL for (int l = 0; l < lines; l++) {
				const weight_row w = weights_at(rows[l], type, in);
				const uint8_t *low = w.low + from * (c.bits == 8 ? 8 : 4) / 8, *high = w.high + from / 8 * (c.bits - 4);
				const int ahead = lines > 1 ? CLOSE : c.bits == 8 ? AHEAD / 2 : AHEAD;
				__builtin_prefetch(low + ahead, 0, 3);
				if (c.bits > 4) __builtin_prefetch((c.bits == 8 ? low + 64 : high) + ahead, 0, 3);
				add_dots(sum[l], x, count, scale[l], low, high, c, from, in, b);
			}
	}
	UNROLL for (int l = 0; l < lines; l++)
		UNROLL for (int i = 0; i < count; i++) out[l][i] = vsum(sum[l][i][0] + sum[l][i][1]);
}
#endif

// copy_x copies rows of x to room, as WORDS for such weights, or as F32.
static void AT_LEVEL(copy_x)(tensor room, tensor x, int weights) {
	for (int64_t r = 0; r < x.rows; r++) {
		char *to = (char *)room.at + r * room.cols * size_of(room.type);
		const char *from = (const char *)x.at + r * x.cols * size_of(x.type);
#if VLEN > 4
		if (room.type == WORDS) {
			const coding c = codings[weights];
			const word_row row = words_at(to, x.cols, c.group);
			memset(to, 0, room.cols * size_of(WORDS));
			for (int64_t i = 0; i < x.cols; i += c.group)
				x.type == BF16 ? copy_group(row, from, BF16, c, i) : copy_group(row, from, F16, c, i);
			continue;
		}
#endif
		FOR_TYPE(x.type, EACH(i, n, 0, x.cols, { st(to, i, n, ld(from, i, n, type), F32); }));
	}
}

#if VLEN > 4
// few_words computes outputs of count rows of x, which are WORDS, from row first on. The rows of weights are in LINES
// parts: it computes rows lo to hi of each, and lines of the parts at once.
INLINE void few_words(const quant_product *o, int64_t lo, int64_t hi, int64_t first, const int count, const int lines,
	const dtype type) {
	const int64_t in = o->w.cols, bytes = quant_row(type, in), all = o->w.rows, part = padded(all, LINES) / LINES;
	word_row x[MAX_ROWS];
	for (int64_t i = 0; i < count; i++) {
		const int64_t r = first + i < o->x.rows ? first + i : o->x.rows - 1;
		x[i] = words_at((const char *)o->x.at + r * o->x.cols * size_of(WORDS), in, codings[type].group);
	}
	for (int64_t n = lo; n < hi; n++)
		for (int64_t at = n; at < n + LINES * part; at += lines * part) {
			const uint8_t *rows[LINES];
			float out[LINES][MAX_ROWS];
			for (int l = 0; l < lines; l++) {
				const int64_t r = at + l * part;
				rows[l] = (const uint8_t *)o->w.at + (r < all ? r : all - 1) * bytes;
			}
			line_dots(out, x, count, rows, lines, type, in);
			for (int l = 0; l < lines && at + l * part < all; l++)
				quant_store(o, first, count, at + l * part, out[l]);
		}
}
#endif

static void AT_LEVEL(few_blocks)(void *arg, int64_t lo, int64_t hi) {
	const quant_product *o = arg;
	const int64_t rows = o->y.rows, in = o->w.cols, bytes = quant_row(o->w.type, in);
#if VLEN > 4
	if (o->x.type == WORDS) {
		FOR_BLOCKS(o->w.type, {
			int64_t first = 0; // two rows are faster one after the other than as four
			for (; rows - first > 2; first += 4) few_words(o, lo, hi, first, 4, 1, type);
			for (; first < rows; first++) few_words(o, lo, hi, first, 1, LINES, type);
		});
		return;
	}
#endif
	const char *x[MAX_ROWS];
	for (int64_t i = 0; i < rows; i++) x[i] = (const char *)o->x.at + i * o->x.cols * size_of(F32);
	for (int64_t n = lo; n < hi; n++) {
		float out[MAX_ROWS];
		float_dots(out, x, rows, (const uint8_t *)o->w.at + n * bytes, o->w.type, in);
		quant_store(o, 0, rows, n, out);
	}
}

static void AT_LEVEL(dequantize_blocks)(void *arg, int64_t lo, int64_t hi) {
	const quant_product *o = arg;
	const int64_t in = o->w.cols, size = size_of(o->y.type);
	for (int64_t n = lo; n < hi; n++) {
		const int64_t r = o->index ? o->index[n] : n;
		const uint8_t *row = (const uint8_t *)o->w.at + r * quant_row(o->w.type, in);
		char *y = (char *)o->y.at + n * o->y.stride * size;
		const weight_row w = weights_at(row, o->w.type, in);
		const int64_t step = STEP * codings[o->w.type].group;
		for (int64_t g = 0, from = 0; from < in; g += STEP, from += step) {
#if VLEN > 4
			if (o->y.type == BF16) {
				FOR_BLOCKS(o->w.type, step_values(y + from * size, BF16, w, codings[type], g));
				continue;
			}
#endif
			float values[2 * STEP * STEP];
			step_floats(values, w, o->w.type, g);
			const int64_t n = in - from < step ? in - from : step;
			EACH(i, m, 0, n, { st(y + from * size, i, m, ld(values, i, m, F32), o->y.type); });
		}
	}
}
#endif
