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
	const int words = (BITS == 8 ? padded(in) : 64 * groupsOf(in)) / 4;
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
	float x[4];
	if constexpr (BITS == 8) {
		const float scale = *(const float *)row;
		for (int k = 0; k < 4; k++) x[k] = (float)(signed char)(codes >> 8 * k) * scale;
		put(4 * word, x);
		return;
	}
	const int g = word / 16, at = g * 128 + word % 16 * 4;
#if TABLE
	for (int half = 0; half < 2; half++) {
		const float scale = ((const float *)row)[2 * g + half]; // of the padding: 0
		for (int k = 0; k < 4; k++) x[k] = lookUp(codes >> (8 * k + 4 * half)) * scale;
		put(at + 64 * half, x);
	}
	return;
#endif
	const float scale = value(((const f16 *)row)[g]);
	const int zero = ZEROS ? row[padded(2 * groupsOf(in)) + g] : 8;
	for (int k = 0; k < 4; k++) x[k] = (float)((int)(codes >> 8 * k & 15) - zero) * scale;
	put(at, x);
	for (int k = 0; k < 4; k++) x[k] = (float)((int)(codes >> (8 * k + 4) & 15) - zero) * scale;
	put(at + 64, x);
}
