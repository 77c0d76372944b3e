// 8-bit codes for F32, and back. The formulas are in op_map8.go.
//
//   SIGNED   1: the signed map, 0: the unsigned map
#include "quant8.cuh"

__shared__ Map<SIGNED> map;

// eachBlock calls f for the quantization blocks of n elements, in strides of the grid: with the index of the
// quantization block, the index of the lane's first element, and how many elements exist from there.
template <typename F> inline void eachBlock(long long n, F f) {
	map.fill(false);
	for (long long block = thread() / 32; block * QUANT_BLOCK < n; block += gridDim.x * (BLOCK_DIM / 32)) {
		const long long mine = block * QUANT_BLOCK + 4 * lane();
		f(block, mine, (int)min(n - mine, (long long)QUANT_BLOCK));
	}
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	quantize(byte *codes, float *scale, const float *x, long long n) {
	waitForPrerequisites();
	eachBlock(n, [&](long long block, long long mine, int count) {
		const Elements<float> in = read<false>(x + mine, count);
		float v[EACH];
#pragma unroll
		for (int i = 0; i < EACH; i++) v[i] = in[i];
		const float largestValue = largest(v);
#pragma unroll
		for (int i = 0; i < EACH; i++) v[i] = SIGNED ? v[i] : fmaxf(v[i], 0);
		write<false>(codes + mine, count, largestValue == 0 ? Codes() : map.encode(v, largestValue));
		if (lane() == 0) scale[block] = largestValue;
	});
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	dequantize(float *x, const byte *codes, const float *scale, long long n) {
	waitForPrerequisites();
	eachBlock(n, [&](long long block, long long mine, int count) {
		float v[EACH];
		map.decode(v, read<false>(codes + mine, count));
		Elements<float> out;
#pragma unroll
		for (int i = 0; i < EACH; i++) out.at(i) = v[i] * scale[block];
		write<false>(x + mine, count, out);
	});
}
