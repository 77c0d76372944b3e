// The searches of package gguf's quantize_k.go, which says what they find: the same bytes, many sub-blocks at a time.
// Each has a lane of a vector, so that its sums go from the first element to the last.
#ifndef LEVEL
#include "blocks.h"
#include "tensor.h"

// Without fused multiply-add, which rounds once where the processor has it, all levels compute the same bits.
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

enum {
	BLOCK = 256,
	BATCH = 2,           // blocks that are searched together: 16 or 32 sub-blocks, whole vectors
	SUBS = BATCH * 16,   // at most
};

// What the searches find for each sub-block. The search takes the codes of unit · (x − least).
typedef struct {
	float scale[SUBS], minimum[SUBS], unit[SUBS], least[SUBS];
} fits;

typedef void (*quantizer)(uint8_t *dst, const float *x, int64_t blocks);

// nearest1 is gguf's nearest.
static inline int32_t nearest1(float x) { return (int32_t)(bits_of_float(x + 12582912.0f) & 0x7FFFFF) - 0x400000; }

static inline int32_t clamped(int32_t x, int32_t low, int32_t high) { return x < low ? low : x > high ? high : x; }

#define EACH_LEVEL "blocks.c"
#include "each_level.h"

void cpu_quantize_blocks(uint8_t *dst, const float *x, int64_t blocks, int bits) {
	static const quantizer quantizers[][CPU_LEVELS] = {
		AT_EACH_LEVEL(quantize_4), AT_EACH_LEVEL(quantize_5), AT_EACH_LEVEL(quantize_6),
	};
	quantizers[bits - 4][cpu_level()](dst, x, blocks);
}

#else

#define vabs AT_LEVEL(vabs)
#define code_of AT_LEVEL(code_of)
#define load_lanes AT_LEVEL(load_lanes)
#define fit_range AT_LEVEL(fit_range)
#define fit_centered AT_LEVEL(fit_centered)
#define finish_k AT_LEVEL(finish_k)
#define finish_6 AT_LEVEL(finish_6)
#define quantize_k AT_LEVEL(quantize_k)

INLINE vec vabs(vec x) { return (vec)((vecint)x & 0x7FFFFFFF); }

// code_of returns clamped(nearest1(x), low, high).
INLINE vec code_of(vec x, float low, float high) {
	const vecint whole = ((vecint)(x + 12582912.0f) & 0x7FFFFF) - 0x400000;
	return vmin(vmax(__builtin_convertvector(whole, vec), vset(low)), vset(high));
}

// load_lanes loads VLEN sub-blocks of n elements, one per lane; the lanes from count on are like the last.
INLINE void load_lanes(vec *to, const float *x, const int n, int count) {
	float lanes[32][VLEN];
	for (int lane = 0; lane < VLEN; lane++) {
		const float *from = x + n * (lane < count ? lane : count - 1);
		for (int i = 0; i < n; i++) lanes[i][lane] = from[i];
	}
	memcpy(to, lanes, n * sizeof *to);
}

// fit_range is gguf's fitRange.
INLINE void fit_range(fits *f, int at, const vec *x, const float top, const float first, const int steps) {
	vec w[32], codes[32];
	vec squares = vzero(), sum_w = vzero(), sum_x = vzero(), least = x[0], greatest = x[0];
	for (int i = 0; i < 32; i++) squares += x[i] * x[i];
	const vec mean = vsqrt(squares / 32);
	for (int i = 0; i < 32; i++) {
		w[i] = mean + vabs(x[i]);
		sum_w += w[i];
		sum_x += w[i] * x[i];
		least = vmin(x[i], least);
		greatest = vmax(x[i], greatest);
	}
	least = vselect(least > 0, vzero(), least);
	const vecint flat = greatest == least;
	const vec first_least = least;
	vec best_unit = top / (greatest - least), best_least = least, scale = 1 / best_unit, best = vzero();
	for (int i = 0; i < 32; i++) {
		const vec diff = scale * code_of(best_unit * (x[i] - least), 0, top) + least - x[i];
		best += w[i] * (diff * diff);
	}
	for (int step = 0; step <= steps; step++) {
		const vec unit = (first + 0.1f * step + top) / (greatest - least);
		vec sum_l = vzero(), sum_ll = vzero(), sum_xl = vzero();
		for (int i = 0; i < 32; i++) {
			const vec l = codes[i] = code_of(unit * (x[i] - least), 0, top), wl = w[i] * l;
			sum_l += wl;
			sum_ll += wl * l;
			sum_xl += wl * x[i];
		}
		const vec det = sum_w * sum_ll - sum_l * sum_l;
		vec this_scale = (sum_w * sum_xl - sum_x * sum_l) / det, this_least = (sum_ll * sum_x - sum_l * sum_xl) / det;
		const vecint above = this_least > 0;
		this_least = vselect(above, vzero(), this_least);
		this_scale = vselect(above, sum_xl / sum_ll, this_scale);
		vec squared = vzero();
		for (int i = 0; i < 32; i++) {
			const vec diff = this_scale * codes[i] + this_least - x[i];
			squared += w[i] * (diff * diff);
		}
		const vecint better = (det > 0) & (squared < best);
		best = vselect(better, squared, best);
		best_unit = vselect(better, unit, best_unit);
		best_least = vselect(better, least, best_least);
		scale = vselect(better, this_scale, scale);
		least = vselect(better, this_least, least);
	}
	vstore(f->scale + at, vselect(flat, vzero(), scale));
	vstore(f->minimum + at, -vselect(flat, first_least, least));
	vstore(f->unit + at, vselect(flat, vzero(), best_unit));
	vstore(f->least + at, best_least);
}

// finish_k codes a block from its fits.
INLINE void finish_k(uint8_t *b, const float *x, const fits *f, int at, const int bits) {
	const int top = (1 << bits) - 1;
	uint8_t codes[BLOCK], *pairs = b + 4, *low = b + (bits == 5 ? 48 : 16);
	float max_scale = 0, max_minimum = 0;
	for (int j = at; j < at + 8; j++) {
		max_scale = f->scale[j] > max_scale ? f->scale[j] : max_scale;
		max_minimum = f->minimum[j] > max_minimum ? f->minimum[j] : max_minimum;
	}
	set_element(b, 0, max_scale / 63, F16);
	set_element(b, 1, max_minimum / 63, F16);
	const float d = element(b, 0, F16), dmin = element(b, 1, F16);
	const float to_scale = max_scale > 0 ? 63 / max_scale : 0, to_minimum = max_minimum > 0 ? 63 / max_minimum : 0;
	for (int j = 0; j < 8; j++) {
		uint8_t scale = (uint8_t)nearest1(to_scale * f->scale[at + j]);
		uint8_t minimum = (uint8_t)nearest1(to_minimum * f->minimum[at + j]);
		scale = scale < 63 ? scale : 63, minimum = minimum < 63 ? minimum : 63;
		if (j < 4) {
			pairs[j] = scale, pairs[j + 4] = minimum;
		} else {
			pairs[j + 4] = (scale & 15) | minimum << 4;
			pairs[j - 4] |= scale >> 4 << 6;
			pairs[j] |= minimum >> 4 << 6;
		}
		const float s = d * scale, m = dmin * minimum, unit = f->unit[at + j], least = f->least[at + j];
		uint8_t *to = codes + 32 * j;
		const float *from = x + 32 * j;
		if (s != 0)
			for (int i = 0; i < 32; i++) to[i] = (uint8_t)clamped(nearest1((from[i] + m) / s), 0, top);
		else
			for (int i = 0; i < 32; i++) to[i] = (uint8_t)clamped(nearest1(unit * (from[i] - least)), 0, top);
	}
	for (int j = 0; j < 8; j += 2)
		for (int i = 0; i < 32; i++) low[16 * j + i] = (codes[32 * j + i] & 15) | codes[32 * j + 32 + i] << 4;
	if (bits < 5) return;
	memset(b + 16, 0, 32);
	for (int j = 0; j < 8; j++)
		for (int i = 0; i < 32; i++) b[16 + i] |= codes[32 * j + i] >> 4 << j;
}

// fit_centered is gguf's fitCentered. A sub-block of nothing has the unit 0.
INLINE void fit_centered(fits *f, int at, const vec *x) {
	vec w[16], wx[16], most = vzero();
	for (int i = 0; i < 16; i++) {
		most = vselect(vabs(x[i]) > vabs(most), x[i], most);
		w[i] = x[i] * x[i];
		wx[i] = w[i] * x[i];
	}
	vec best = vzero(), best_unit = vzero(), scale = vzero();
	for (int try = 0; try < 19; try++) {
		const int step = try < 10 ? try - 10 : try - 9; // after the first, from −9 to 9 without 0
		const vec unit = (try == 0 ? -32 : -(32 + 0.1f * step)) / most;
		vec sum_xl = vzero(), sum_ll = vzero();
		for (int i = 0; i < 16; i++) {
			const vec l = code_of(unit * x[i], -32, 31);
			sum_xl += wx[i] * l;
			sum_ll += w[i] * l * l;
		}
		const vecint better = try == 0 ? sum_xl == sum_xl : (sum_ll > 0) & (sum_xl * sum_xl > best * sum_ll);
		const vec this_scale = vselect(sum_ll == 0, vzero(), sum_xl / sum_ll);
		scale = vselect(better, this_scale, scale);
		best = vselect(better, this_scale * sum_xl, best);
		best_unit = vselect(better, unit, best_unit);
	}
	const vecint nothing = vabs(most) < 1e-15f;
	vstore(f->scale + at, vselect(nothing, vzero(), scale));
	vstore(f->unit + at, vselect(nothing, vzero(), best_unit));
}

// finish_6 codes a block from its fits.
INLINE void finish_6(uint8_t *b, const float *x, const fits *f, int at) {
	uint8_t codes[BLOCK];
	float max_scale = 0;
	for (int j = at; j < at + 16; j++)
		if (fabsf(f->scale[j]) > fabsf(max_scale)) max_scale = f->scale[j];
	if (fabsf(max_scale) < 1e-15f) {
		memset(b, 0, 210);
		return;
	}
	const float to_scale = -128 / max_scale;
	set_element(b, 104, 1 / to_scale, F16);
	const float d = element(b, 104, F16);
	for (int j = 0; j < 16; j++) {
		const int32_t scale = nearest1(to_scale * f->scale[at + j]);
		const int8_t code = (int8_t)(scale < 127 ? scale : 127);
		const float s = d * code, unit = f->unit[at + j];
		uint8_t *to = codes + 16 * j;
		const float *from = x + 16 * j;
		b[192 + j] = (uint8_t)code;
		if (s != 0)
			for (int i = 0; i < 16; i++) to[i] = (uint8_t)(clamped(nearest1(from[i] / s), -32, 31) + 32);
		else
			for (int i = 0; i < 16; i++) to[i] = unit == 0 ? 0 : (uint8_t)(clamped(nearest1(unit * from[i]), -32, 31) + 32);
	}
	for (int part = 0; part < 2; part++) {
		uint8_t *low = b + 64 * part, *upper = b + 128 + 32 * part;
		const uint8_t *c = codes + 128 * part;
		for (int l = 0; l < 32; l++) {
			low[l] = (c[l] & 15) | c[l + 64] << 4;
			low[l + 32] = (c[l + 32] & 15) | c[l + 96] << 4;
			upper[l] = c[l] >> 4 | c[l + 32] >> 4 << 2 | c[l + 64] >> 4 << 4 | c[l + 96] >> 4 << 6;
		}
	}
}

INLINE void quantize_k(uint8_t *dst, const float *x, int64_t blocks, const int bits) {
	const int n = bits == 6 ? 16 : 32, subs = BLOCK / n, bytes = bits == 4 ? 144 : bits == 5 ? 176 : 210;
	for (int64_t at = 0; at < blocks; at += BATCH) {
		const int count = blocks - at < BATCH ? (int)(blocks - at) : BATCH;
		fits f;
		for (int j = 0; j < count * subs; j += VLEN) {
			vec lanes[32];
			load_lanes(lanes, x + at * BLOCK + j * n, n, count * subs - j);
			if (bits == 4) fit_range(&f, j, lanes, 15, -1, 20);
			else if (bits == 5) fit_range(&f, j, lanes, 31, -0.5f, 15);
			else fit_centered(&f, j, lanes);
		}
		for (int i = 0; i < count; i++) {
			uint8_t *b = dst + (at + i) * bytes;
			if (bits == 6) finish_6(b, x + (at + i) * BLOCK, &f, i * subs);
			else finish_k(b, x + (at + i) * BLOCK, &f, i * subs, bits);
		}
	}
}

static void AT_LEVEL(quantize_4)(uint8_t *dst, const float *x, int64_t blocks) { quantize_k(dst, x, blocks, 4); }
static void AT_LEVEL(quantize_5)(uint8_t *dst, const float *x, int64_t blocks) { quantize_k(dst, x, blocks, 5); }
static void AT_LEVEL(quantize_6)(uint8_t *dst, const float *x, int64_t blocks) { quantize_k(dst, x, blocks, 6); }
#endif
