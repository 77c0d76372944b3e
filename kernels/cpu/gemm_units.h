// Units of packed operands: loading and taking them apart.

#ifndef RESTYLE_GEMM_UNITS
#define RESTYLE_GEMM_UNITS

#define load_units AT_LEVEL(load_units)
#define half_of AT_LEVEL(half_of)

#endif

// load_units loads VLEN units as they are, if type is F32, or converts as many BF16 or F16 to them. Packing counts
// bytes: pairs of BF16 along k are units.
INLINE vecuns load_units(const char *at, const dtype type) { return (vecuns)ld(at, 0, VLEN, type); }

// half_of returns the first or second bf16 of pairs, as fp32.
INLINE vecuns half_of(vecuns pairs, const int half) { return half ? pairs & 0xFFFF0000 : pairs << 16; }
