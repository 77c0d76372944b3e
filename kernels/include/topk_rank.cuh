// A Rank orders elements as TopK does: the larger comes first. Its upper half orders values, and its lower half
// indices. 0 is less than the rank of any element.
#pragma once

typedef unsigned long long Rank;
inline Rank rank(float x, int i) {
	const unsigned bits = __float_as_uint(x == 0 ? 0 : x); // -0 equals 0
	const unsigned order = x != x ? 0xFF800001 : bits >> 31 ? ~bits : bits | 0x80000000; // a NaN comes before +infinity
	return (Rank)order << 32 | ~(unsigned)i;
}
inline int indexOf(Rank r) { return (int)~(unsigned)r; }
inline Rank larger(Rank a, Rank b) { return a > b ? a : b; }
