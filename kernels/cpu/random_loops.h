// Pseudorandom bits, the same as in kernels/include/random.cuh.

#ifndef RESTYLE_RANDOM_LOOPS
#define RESTYLE_RANDOM_LOOPS

#define mixed AT_LEVEL(mixed)

#endif

// mixed returns 32 pseudorandom bits for a number i: two rounds of a multiplicative hash, each with its own key.
// Counters need neither state nor order.
INLINE vecuns mixed(vecuns i, const uint32_t *seed) {
	for (int k = 0; k < 2; k++) {
		i ^= (vecuns){0} + seed[k];
		i = (i ^ i >> 16) * 0x7FEB352Du;
		i = (i ^ i >> 15) * 0x846CA68Bu;
		i ^= i >> 16;
	}
	return i;
}
