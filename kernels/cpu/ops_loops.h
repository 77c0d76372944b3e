// What the files of loops share, once per level: exponentials as exact as a type needs, and tasks for each type.

#define exp_for AT_LEVEL(exp_for)
#define sigmoid AT_LEVEL(sigmoid)

// exp_for returns eˣ for x < 89, as exact as results of the type need: in BF16 and F16, to 4e-6.
INLINE vec exp_for(vec x, dtype type) { return type == F32 ? vexp(x) : vexp2_rough(x * 0x1.715476p+0f); }

// sigmoid returns 1 / (1 + e⁻ˣ), and 0 if e⁻ˣ overflows, from e^88.8 on.
INLINE vec sigmoid(vec x, dtype type) { return 1.0f / (1.0f + exp_for(vmin(vset(88.8f), -x), type)); }

#ifndef EACH_TYPE

// EACH_TYPE makes the tasks of an operation, one per type, from its body, name(args, lo, hi, type), in which type is a
// constant.
#define EACH_TYPE(name) EACH_FLOAT_TYPE(EACH_TYPE_, name)
#define EACH_TYPE_(T, suffix, name) \
	static void AT_LEVEL(name##_##suffix)(void *arg, int64_t lo, int64_t hi) { AT_LEVEL(name##_body)(arg, lo, hi, T); }

// BODY starts the body of an operation.
#define BODY(name, operands) \
	INLINE void AT_LEVEL(name##_body)(const operands *o, int64_t lo, int64_t hi, const dtype type)

#endif
