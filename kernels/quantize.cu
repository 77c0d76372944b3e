// Codes of 8 bits for F32, and the way back. The formulas are in dynamicmap.go.
//
//   SIGNED   1: in the signed map, 0: in the other
#include "codes.cuh"

__shared__ Map<SIGNED> map;

// A warp has a block of QUANTIZE_BLOCK elements.

extern "C" __global__ void __launch_bounds__(BLOCK) quantize(byte *codes, float *scale, const float *x, long long n) {
	map.fill(false);
	const long long block = thread() / 32, first = block * QUANTIZE_BLOCK;
	if (first >= n) return;
	const int count = min(n - first, (long long)QUANTIZE_BLOCK);
	const Elements<float> in = read<false>(x + first, count);
	float v[EACH];
#pragma unroll
	for (int i = 0; i < EACH; i++) v[i] = in[i];
	const float most = largest(v), by = inverse(most);
	Elements<byte> out;
#pragma unroll
	for (int i = 0; i < EACH; i++) out.at(i) = most == 0 ? 0 : map.code((SIGNED ? v[i] : fmaxf(v[i], 0)) * by);
	write<false>(codes + first, count, out);
	if (threadIdx.x % 32 == 0) scale[block] = most;
}

extern "C" __global__ void __launch_bounds__(BLOCK) dequantize(float *x, const byte *codes, const float *scale, long long n) {
	map.fill(false);
	const long long block = thread() / 32, first = block * QUANTIZE_BLOCK;
	if (first >= n) return;
	const int count = min(n - first, (long long)QUANTIZE_BLOCK);
	Elements<byte> in = read<false>(codes + first, count);
	Elements<float> out;
#pragma unroll
	for (int i = 0; i < EACH; i++) out.at(i) = map.number[in.at(i)] * scale[block];
	write<false>(x + first, count, out);
}
