// Quantized weights as values of type T: of the rows that index lists, or of all rows.
//
//   WIDTH  4 if rows consist of whole vectors, or else 1
#include "quantized.cuh"

// A thread has four bytes of codes.
extern "C" __global__ void dequantize_rows(T *y, const unsigned char *w, const int *index, int rows, int in) {
	waitForPrerequisites();
#if TABLE
	copyTable();
#endif
	const int words = lowBytes(in) / 4;
	const long long i = thread();
	if (i >= (long long)rows * words) return;
	const int r = i / words, word = i % words;
	const unsigned char *const row = w + (index ? index[r] : r) * rowOf(in);
	const unsigned codes = *(const unsigned *)(row + headOf(in) + 4 * word);
	auto put = [&](int at, const float (&x)[4]) {
		if (WIDTH == 4 && at < in) {
			Vec<T, 4> v;
			narrow(v.at, x);
			store(y + (long long)r * in + at, 0, v);
		}
		for (int k = 0; WIDTH == 1 && k < 4 && at + k < in; k++) {
			const float one[1] = {x[k]};
			T rounded[1];
			narrow(rounded, one);
			y[(long long)r * in + at + k] = rounded[0];
		}
	};
	// Codes of less than 8 bits belong to four elements, and to the four that are 64 further.
	const int first = BITS == 8 ? 4 * word : word / 16 * 128 + word % 16 * 4;
	unsigned high = 0;
	if constexpr (HIGH > 0) {
		const unsigned char *const more = row + headOf(in) + lowBytes(in) + word / 16 * HIGH_BYTES;
		high = *(const unsigned *)(more + highByte(first % 128)) >> highShift(first % 128);
	}
	auto groupOf = [&](int far) { return GROUP ? (first + 64 * far) / max(GROUP, 1) : 0; };
	const float scales[2] = {scaleOf(row, in, groupOf(0)), scaleOf(row, in, groupOf(BITS < 8))};
	const float offsets[2] = {offsetOf(row, in, groupOf(0)), offsetOf(row, in, groupOf(BITS < 8))};
	const int zero = ZEROS ? row[zerosAt(in) + groupOf(0)] : ZERO;
#pragma unroll
	for (int far = 0; far < (BITS == 8 ? 1 : 2); far++) {
		const unsigned four = fourCodes(codes, high, far);
		float x[4];
#pragma unroll
		for (int k = 0; k < 4; k++) {
			if (BITS == 8) x[k] = (float)(signed char)(codes >> 8 * k) * scales[far];
			else x[k] = codeValue(four >> 8 * k & 255, zero) * scales[far];
			if (OFFSETS) x[k] += offsets[far]; // the product was exact
		}
		put(first + 64 * far, x);
	}
}
