#include "ops_loops.h"
#include "ops_optim_codes.h"
#include "random_loops.h"

#define state_f32 AT_LEVEL(state_f32)
#define keep_codes AT_LEVEL(keep_codes)
#define state_codes AT_LEVEL(state_codes)
#define state_bnb_f32 AT_LEVEL(state_bnb_f32)
#define state_bnb_codes AT_LEVEL(state_bnb_codes)
#define weight_new AT_LEVEL(weight_new)
#define aligned AT_LEVEL(aligned)
#define split AT_LEVEL(split)
#define joined AT_LEVEL(joined)
#define stochastic AT_LEVEL(stochastic)
#define weight_stochastic AT_LEVEL(weight_stochastic)
#define weight_bnb AT_LEVEL(weight_bnb)
#define weight_split8 AT_LEVEL(weight_split8)
#define weight_loop AT_LEVEL(weight_loop)
#define prefetch AT_LEVEL(prefetch)
#define step_block AT_LEVEL(step_block)

// A step processes a tensor in quantization blocks: first the state of each, which leaves in u what to subtract from
// the weights, then the weights, and last the codes, if state is codes. So none of the three needs to know the forms of
// the others. What is kept in between stays in the L1 cache.

static void state_f32(const adamw_operands *o, const adamw_block *b, float *u) {
	const adamw_factors f = o->f;
	EACH_OF_BLOCK(i) {
		vec g = ld(b->g, i, VLEN, F32) * f.grad_scale;
		vec m = f.beta1 * ld(b->m, i, VLEN, F32) + f.one_minus_beta1 * g;
		vec v = f.beta2 * ld(b->v, i, VLEN, F32) + f.one_minus_beta2 * (g * g);
		st(b->m, i, VLEN, m, F32);
		st(b->v, i, VLEN, v, F32);
		vstore(u + i, f.step_size * (m / (vsqrt(v) * f.root + f.eps)));
	}
}

// state_codes leaves m and √v, which is s, as numbers. keep_codes codes them after the weights: by then their maximum,
// which takes time, is known.
static void state_codes(const adamw_operands *o, const adamw_block *b, float *m, float *s, float *u) {
	const adamw_factors f = o->f;
	decode(o->m_map, b->m, f.beta1 * *b->m_scale, m, 1);
	const float root_scale = f.sqrt_beta2 * *b->v_scale;
	decode(o->v_map, b->v, root_scale * root_scale, s, 0); // the map's numbers are squares
	vecuns max_m = {0}, max_s = {0};
	EACH_OF_BLOCK(i) {
		vec g = ld(b->g, i, VLEN, F32), h = g * f.gain_root;
		vec m1 = vfma(g, vset(f.gain_m), vload(m + i));
		vec root = vsqrt(vfma(h, h, vload(s + i)));
		max_m = larger(max_m, (vecuns)m1 & 0x7FFFFFFF);
		max_s = larger(max_s, (vecuns)root);
		vstore(m + i, m1);
		vstore(s + i, root);
		vstore(u + i, f.step_size * (m1 / vfma(root, vset(f.root), vset(f.eps))));
	}
	*b->m_scale = largest_lane(max_m);
	*b->v_scale = largest_lane(max_s);
}

static void keep_codes(const adamw_operands *o, const adamw_block *b, float *m, float *s) {
	encode_m(o->m_map, m, *b->m_scale, b->m);
	encode_v(o->v_map, s, *b->v_scale, b->v);
}

// bitsandbytes' own update, product by product as its kernels round them; u is a multiple of what is added to the
// weights.

static void state_bnb_f32(const adamw_operands *o, const adamw_block *b, float *u) {
	const adamw_factors f = o->f;
	EACH_OF_BLOCK(i) {
		vec g = ld(b->g, i, VLEN, F32) * f.grad_scale;
		vec m = vfma(ld(b->m, i, VLEN, F32), vset(f.beta1), f.one_minus_beta1 * g);
		vec v = vfma(ld(b->v, i, VLEN, F32), vset(f.beta2), f.one_minus_beta2 * (g * g));
		st(b->m, i, VLEN, m, F32);
		st(b->v, i, VLEN, v, F32);
		vstore(u + i, m * (1 / vfma(vset(f.root), vset(f.eps), vsqrt(v))));
	}
}

static void state_bnb_codes(const adamw_operands *o, const adamw_block *b, float *u) {
	const adamw_factors f = o->f;
	float m[QUANT_BLOCK], v[QUANT_BLOCK], spent[QUANT_BLOCK];
	decode(o->m_map, b->m, *b->m_scale, m, 1);
	decode(o->v_map, b->v, *b->v_scale, v, 0);
	EACH_OF_BLOCK(i) {
		vec g = ld(b->g, i, VLEN, F32) * f.grad_scale, m1 = vload(m + i), v1 = vload(v + i);
		vecint finite = (vecint)(g - g == 0);
		m1 = vfma(g, vset(f.one_minus_beta1), m1 * f.beta1);
		v1 = o->x.type == BF16 ? vfma(v1, vset(f.beta2), f.one_minus_beta2 * g * g)
											: vfma(g, f.one_minus_beta2 * g, v1 * f.beta2);
		m1 = vselect(finite, m1, vzero());
		v1 = vselect(finite, v1, vzero());
		vstore(m + i, m1);
		vstore(v + i, v1);
		vec by = 1 / vfma(vset(f.root), vset(f.eps), vsqrt(v1));
		vstore(u + i, vselect(finite, m1 * by, vset(__builtin_nanf("")))); // weight_bnb leaves these weights as they are
	}
	*b->m_scale = largest(m);
	*b->v_scale = largest(v);
	memcpy(spent, m, sizeof m);
	encode_m(o->m_map, spent, *b->m_scale, b->m);
	encode_v(o->v_map, v, *b->v_scale, b->v);
	if (*b->m_scale == 0) memset(b->m, 0, QUANT_BLOCK); // what its search returns for 0/0
	// a code whose sign bit is not m's is replaced by its neighbor: the next higher one if m is positive
	EACH_OF_BLOCK(i) {
		vecint code = load_bytes(b->m, i), wrong = (code - 127) >> 31 ^ (vecint)vload(m + i) >> 31;
		store_bytes(b->m, i, code + (wrong & (((vecint)(vload(m + i) > 0) & 2) - 1)));
	}
}

INLINE vec weight_new(const adamw_operands *o, vec w, vec u) { return w * o->f.decay_factor - u; }

// aligned returns bits of x whose upper 16 are the type's bits, cut off. For BF16 these are x's own. F16 has an
// exponent of 5 bits; below its smallest normal number, float32 runs out of bits just like it if x is scaled to
// float32's own smallest, where it is rounded to a multiple of 2⁻³⁷. All from 65,536 on is infinite. A NaN stays a NaN.
INLINE vecuns aligned(vec x, const dtype type) {
	vecuns u = (vecuns)x, nan = (vecuns)(x != x);
	if (type == BF16) return u | (nan & 0x400000);
	vecuns y = (vecuns)(x * 0x1p-112f) & 0x7FFFFFFF, huge = (vecuns)(y > 0x0F800000);
	y = (huge & 0x0F800000) | (~huge & y);
	return (nan & 0x7E000000) | (~nan & (y << 3 | (u & 0x80000000)));
}

// joined returns the 24-bit float whose upper 16 bits are a BF16's or F16's, rounded, and whose residual is the
// difference.
INLINE vec joined(vecint weight, vecint residual, const dtype type) {
	vecuns f = (vecuns)(weight << 16) + (vecuns)((residual << 24) >> 16);
	if (type == BF16) return (vec)f;
	vecuns magnitude = (f & 0x7FFFFFFF) >> 3, special = (vecuns)(magnitude >= 0x0F800000);
	vecuns y = (vecuns)((vec)magnitude * 0x1p112f);
	y = (special & (magnitude | 0x7F800000)) | (~special & y);
	return (vec)(y | (f & 0x80000000));
}

// split reverses joined for any float: it rounds to the nearest of 24 bits, ties to even, and then to the nearest of
// 16, ties away from zero, because the residual ranges from -128 to 127. Carries run into the exponent, as they should.
// A NaN stays a NaN, with other bits.
INLINE vecuns split(vec x, const dtype type) {
	vecuns u = aligned(vselect((vecint)(x == x), x, vset(__builtin_nanf(""))), type);
	return (u + 0x7F + (u >> 8 & 1)) >> 8;
}

#if VBMI

// weight_split8 does what weight_loop does for WEIGHT_SPLIT8, with byte permutations.
static void weight_split8(const adamw_operands *o, const adamw_block *b, const float *u) {
	// The bytes of 16 lanes from a register of 32 weights and one of 64 residuals: zero, residual, weight, weight.
	const __m512i lanes =
		_mm512_setr_epi32(0x01004000, 0x03024100, 0x05044200, 0x07064300, 0x09084400, 0x0B0A4500, 0x0D0C4600,
			0x0F0E4700, 0x11104800, 0x13124900, 0x15144A00, 0x17164B00, 0x19184C00, 0x1B1A4D00, 0x1D1C4E00, 0x1F1E4F00);
	const __m512i second = _mm512_setr_epi32(0x0D090501, 0x1D191511, 0x2D292521, 0x3D393531, 0x4D494541, 0x5D595551,
		0x6D696561, 0x7D797571, 0, 0, 0, 0, 0, 0, 0, 0);
	const __m512i flip = _mm512_set1_epi8(-128), one = _mm512_set1_epi32(1), nan = _mm512_set1_epi32(0x7FC00000);
	// what fixupimm takes from x: the eight classes except the first two, NaN
	const __m512i not_nan = _mm512_set1_epi32(0x11111100);
	const vec decay_factor = vset(o->f.decay_factor);
	char *restrict weight = b->w, *restrict residual = b->master;
	for (int64_t i = 0; i < QUANT_BLOCK; i += 64) {
		// Residual plus 128 is not negative, and weight · 65536 + (residual + 128) · 256 needs no carry.
		__m512i rest = _mm512_xor_si512(_mm512_loadu_si512(residual + i), flip), z[4];
		for (int q = 0; q < 4; q++) {
			__m512i from = _mm512_add_epi8(lanes, _mm512_set1_epi32(q % 2 * 0x20200000 + q * 0x1000));
			__m512i w = _mm512_loadu_si512(weight + 2 * i + 64 * (q / 2));
			w = _mm512_maskz_permutex2var_epi8(0xEEEEEEEEEEEEEEEE, w, from, rest);
			__m512 x = (__m512)((vec)((vecuns)w - 0x8000) * decay_factor - vload(u + i + 16 * q));
			__m512i y = (__m512i)_mm512_fixupimm_ps((__m512)nan, x, not_nan, 0);
			// split's 24 bits, plus half of the weight's last bit: that flips the residual's high bit.
			z[q] = _mm512_add_epi32((__m512i)((vecuns)y + 0x807F), _mm512_and_si512(_mm512_srli_epi32(y, 8), one));
		}
		for (int q = 0; q < 4; q += 2)
			_mm512_storeu_si512(weight + 2 * i + 32 * q, _mm512_permutex2var_epi16(z[q], UPPER, z[q + 1]));
		rest = _mm512_inserti64x4(_mm512_permutex2var_epi8(z[0], second, z[1]),
			_mm512_castsi512_si256(_mm512_permutex2var_epi8(z[2], second, z[3])), 1);
		_mm512_storeu_si512(residual + i, _mm512_xor_si512(rest, flip));
	}
}

#endif

// stochastic returns the bits of a BF16 or F16 next to x, the nearer with the higher probability: it adds 16 random
// bits to those that are cut off. A NaN or infinity stays as it is.
INLINE vecuns stochastic(vec x, vecuns random, const dtype type) {
	vecuns finite = (vecuns)(x - x == 0);
	return (aligned(x, type) + (random & finite)) >> 16;
}

// weight_stochastic updates the weights of WEIGHT_STOCHASTIC. A 32-bit number serves two elements: one of the
// quantization block's first half, and the one at the same position in its second half.
INLINE void weight_stochastic(const adamw_operands *o, const adamw_block *b, const float *u, const dtype type) {
	vecuns lane;
	const int64_t first = o->x.first + b->first;
	for (int i = 0; i < VLEN; i++) lane[i] = (uint32_t)first + i;
	const uint32_t seed[2] = {o->f.seed[0], o->f.seed[1] + (uint32_t)(first >> 32)};
	for (int64_t i = 0; i < QUANT_BLOCK / 2; i += VLEN) {
		vecuns random = mixed(lane + (uint32_t)i, seed);
		for (int half = 0; half < 2; half++, random >>= 16) {
			const int64_t at = i + half * QUANT_BLOCK / 2;
			vecuns r = stochastic(weight_new(o, ld(b->w, at, VLEN, type), vload(u + at)), random & 0xFFFF, type);
			vechalf h = __builtin_convertvector(r, vechalf);
			memcpy(b->w + 2 * at, &h, sizeof h);
		}
	}
}

// weight_bnb adds, then decays, and rounds after both. If state is codes, a weight whose update is not finite stays as
// it was.
INLINE vec weight_bnb(const adamw_operands *o, vec w, vec u, dtype type) {
	vec moved = stored(stored(vfma(vset(o->f.step_size), u, w), type) * o->f.decay_factor, type);
	return o->x.m_scale ? vselect((vecint)(u == u), moved, w) : moved;
}

INLINE void weight_loop(
	const adamw_operands *o, const adamw_block *b, const float *u, const int kind, const dtype type) {
	EACH_OF_BLOCK(i) {
		vec lost = vload(u + i);
		switch (kind) {
		case WEIGHT_ROUNDED: st(b->w, i, VLEN, weight_new(o, ld(b->w, i, VLEN, type), lost), type); break;
		case WEIGHT_MASTER: {
			vec w = weight_new(o, ld(b->master, i, VLEN, F32), lost);
			st(b->master, i, VLEN, w, F32);
			st(b->w, i, VLEN, w, type);
			break;
		}
		case WEIGHT_SPLIT8: {
			vecint high = (vecint)ld(b->w, i, VLEN, BF16) >> 16; // the bits themselves
			vecuns r = split(weight_new(o, joined(high, load_bytes(b->master, i), type), lost), type);
			store_bytes(b->master, i, (vecint)r);
			vechalf h = __builtin_convertvector((r + 0x80) >> 8, vechalf);
			memcpy(b->w + 2 * i, &h, sizeof h);
			break;
		}
		case WEIGHT_BNB: st(b->w, i, VLEN, weight_bnb(o, ld(b->w, i, VLEN, type), lost, type), type); break;
		}
	}
}

static void step_block(const adamw_operands *o, const adamw_block *b) {
	_Alignas(64) float u[QUANT_BLOCK], m[QUANT_BLOCK], s[QUANT_BLOCK];
	int bnb = o->x.weight == WEIGHT_BNB;
	if (o->x.m_scale) bnb ? state_bnb_codes(o, b, u) : state_codes(o, b, m, s, u);
	else bnb ? state_bnb_f32(o, b, u) : state_f32(o, b, u);
	switch (o->x.weight) { // each with its kind and type as constants
	case WEIGHT_ROUNDED: FOR_TYPE(o->x.type, weight_loop(o, b, u, WEIGHT_ROUNDED, type)) break;
	case WEIGHT_MASTER: FOR_TYPE(o->x.type, weight_loop(o, b, u, WEIGHT_MASTER, type)) break;
	case WEIGHT_SPLIT8:
#if VBMI
		if (o->x.type == BF16) weight_split8(o, b, u);
		else
#endif
		FOR_TYPE(o->x.type, weight_loop(o, b, u, WEIGHT_SPLIT8, type))
		break;
	case WEIGHT_STOCHASTIC: FOR_TYPE(o->x.type, weight_stochastic(o, b, u, type)) break;
	case WEIGHT_BNB: FOR_TYPE(o->x.type, weight_loop(o, b, u, WEIGHT_BNB, type)) break;
	}
	if (o->x.m_scale && !bnb) keep_codes(o, b, m, s);
}

// prefetch prefetches the quantization block that is three after the one at p, of elements of each bytes. It may be
// beyond the end. By themselves, processors notice late that streams of bytes continue.
INLINE void prefetch(const void *p, int64_t each) {
	uintptr_t at = (uintptr_t)p + 3 * QUANT_BLOCK * each;
	for (const uintptr_t end = at + QUANT_BLOCK * each; at < end; at += QUANT_BLOCK)
		for (int i = 0; i < QUANT_BLOCK; i += 64) __builtin_prefetch((const void *)(at + i));
}

static void AT_LEVEL(adamw)(void *arg, int64_t lo, int64_t hi) {
	const adamw_operands *o = arg;
	const adamw_tensors *x = &o->x;
	const int64_t w = size_of(x->type), master = master_bytes[x->weight], state = x->m_scale ? 1 : 4,
				  gradient = size_of(x->g_type);
	for (int64_t i = lo; i < hi; i += QUANT_BLOCK) {
		const char *from = (char *)x->g + i * gradient;
		int64_t n = hi - i;
		float g[QUANT_BLOCK]; // a gradient that is not F32, or the end of the tensor
		if (x->g_type != F32)
			FOR_TYPE(x->g_type, EACH(j, k, 0, n < QUANT_BLOCK ? n : QUANT_BLOCK, { st(g, j, k, ld(from, j, k, type), F32); }))
		adamw_block b = {(char *)x->w + i * w, (char *)x->m + i * state, (char *)x->v + i * state,
			(char *)x->master + i * master, x->g_type != F32 ? g : (const float *)from,
			(float *)x->m_scale + i / QUANT_BLOCK, (float *)x->v_scale + i / QUANT_BLOCK, i};
		if (n >= QUANT_BLOCK) {
			prefetch(from, gradient);
			prefetch(b.w, w);
			prefetch(b.m, state);
			prefetch(b.v, state);
			prefetch(b.master, master);
			step_block(o, &b);
			continue;
		}
		// The end of the tensor, with the values that bitsandbytes takes for the elements beyond: their m counts for the
		// maximum.
		float fw[QUANT_BLOCK] = {0}, m[QUANT_BLOCK] = {0}, v[QUANT_BLOCK] = {0}, more[QUANT_BLOCK] = {0};
		if (x->m_scale) memset(m, x->weight == WEIGHT_BNB ? 128 : 127, sizeof m);
		adamw_block end = {(char *)fw, (char *)m, (char *)v, (char *)more, g, b.m_scale, b.v_scale, i};
		if (b.g != g) memcpy(g, b.g, n * 4);
		memset(g + n, 0, (QUANT_BLOCK - n) * 4);
		memcpy(fw, b.w, n * w);
		memcpy(m, b.m, n * state);
		memcpy(v, b.v, n * state);
		if (master) memcpy(more, b.master, n * master);
		step_block(o, &end);
		memcpy(b.w, fw, n * w);
		memcpy(b.m, m, n * state);
		memcpy(b.v, v, n * state);
		if (master) memcpy(b.master, more, n * master);
	}
}

static void AT_LEVEL(quantize)(void *arg, int64_t lo, int64_t hi) {
	const quantize_operands *o = arg;
	for (int64_t at = lo; at < hi; at += QUANT_BLOCK) {
		int64_t n = hi - at < QUANT_BLOCK ? hi - at : QUANT_BLOCK;
		float x[QUANT_BLOCK] = {0};
		uint8_t codes[QUANT_BLOCK];
		memcpy(x, o->x + at, n * 4);
		float scale = o->scale[at / QUANT_BLOCK] = largest(x);
		EACH_OF_BLOCK(i) if (!o->is_signed) vstore(x + i, vmax(vload(x + i), vzero()));
		if (scale == 0) memset(codes, 0, QUANT_BLOCK);
		else if (o->is_signed) encode_m(o->map, x, scale, codes);
		else encode_v(o->map, x, scale, codes);
		memcpy(o->codes + at, codes, n);
	}
}

static void AT_LEVEL(dequantize)(void *arg, int64_t lo, int64_t hi) {
	const quantize_operands *o = arg;
	for (int64_t at = lo; at < hi; at += QUANT_BLOCK) {
		int64_t n = hi - at < QUANT_BLOCK ? hi - at : QUANT_BLOCK;
		float x[QUANT_BLOCK];
		uint8_t codes[QUANT_BLOCK] = {0};
		memcpy(codes, o->codes + at, n);
		decode(o->map, codes, o->scale[at / QUANT_BLOCK], x, o->is_signed);
		memcpy(o->x + at, x, n * 4);
	}
}
