// Pseudorandom bits, the same as the CPU's.
#pragma once
#include "common.cuh"

// mixed returns 32 pseudorandom bits for a number i: two rounds of a multiplicative hash, each with its own key.
// Counters need neither state nor order.
inline unsigned mixed(unsigned i, const unsigned (&seed)[2]) {
#pragma unroll
	for (int k = 0; k < 2; k++) {
		i ^= seed[k];
		i = (i ^ i >> 16) * 0x7FEB352Du;
		i = (i ^ i >> 15) * 0x846CA68Bu;
		i ^= i >> 16;
	}
	return i;
}
