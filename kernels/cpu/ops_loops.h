// What the files of loops share, once per level: elements of either type as vectors, and loops over rows of any length.

#define ld AT_LEVEL(ld)
#define st AT_LEVEL(st)
#define stored AT_LEVEL(stored)
#define exp_for AT_LEVEL(exp_for)
#define sigmoid AT_LEVEL(sigmoid)

// ld loads n elements of p from i on. n is VLEN, a constant, except at the end of a row; lanes beyond are 0.
INLINE vec ld(const void *p, int64_t i, int64_t n, dtype type) {
	if (type == BF16) {
		const uint16_t *h = (const uint16_t *)p + i;
		return n == VLEN ? vload_bf16(h) : vload_bf16_part(h, n);
	}
	const float *f = (const float *)p + i;
	return n == VLEN ? vload(f) : vload_part(f, n);
}

// st stores the first n lanes, rounded to the type, from element i of p on.
INLINE void st(void *p, int64_t i, int64_t n, vec x, dtype type) {
	if (type == BF16) {
		uint16_t *h = (uint16_t *)p + i;
		n == VLEN ? vstore_bf16(h, x) : vstore_bf16_part(h, x, n);
	} else {
		float *f = (float *)p + i;
		n == VLEN ? vstore(f, x) : vstore_part(f, x, n);
	}
}

// stored returns x rounded as st stores it.
INLINE vec stored(vec x, dtype type) {
	if (type != BF16) return x;
	vechalf h = vround_bf16(x);
	return vload_bf16((const uint16_t *)&h);
}

// exp_for returns eˣ for x < 89, as exact as results of the type need: in BF16, to 4e-6.
INLINE vec exp_for(vec x, dtype type) { return type == BF16 ? vexp2_rough(x * 0x1.715476p+0f) : vexp(x); }

// sigmoid returns 1 / (1 + e⁻ˣ), and 0 if e⁻ˣ overflows, from e^88.8 on.
INLINE vec sigmoid(vec x, dtype type) { return 1.0f / (1.0f + exp_for(vmin(vset(88.8f), -x), type)); }

#ifndef EACH

// EACH runs its body for the vectors that make up the elements from to to: i is where a vector starts, n its number of
// lanes.
#define EACH(i, n, from, to, ...)                             \
	do {                                                      \
		int64_t i = (from);                                   \
		const int64_t end_ = (to);                            \
		for (; i + VLEN <= end_; i += VLEN) {                 \
			enum { n = VLEN };                                \
			__VA_ARGS__                                       \
		}                                                     \
		if (i < end_) {                                       \
			const int64_t n = end_ - i;                       \
			__VA_ARGS__                                       \
		}                                                     \
	} while (0)

// BOTH_TYPES makes the two tasks of an operation from its body, name(args, lo, hi, type), in which type is a constant.
#define BOTH_TYPES(name)                                                                                             \
	static void AT_LEVEL(name##_f32)(void *arg, int64_t lo, int64_t hi) { AT_LEVEL(name##_body)(arg, lo, hi, F32); } \
	static void AT_LEVEL(name##_bf16)(void *arg, int64_t lo, int64_t hi) { AT_LEVEL(name##_body)(arg, lo, hi, BF16); }

// BODY starts the body of an operation.
#define BODY(name, operands) \
	INLINE void AT_LEVEL(name##_body)(const operands *o, int64_t lo, int64_t hi, const dtype type)

#endif
