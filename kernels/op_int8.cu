// Activations in 8 bits times weights in 8 bits. The formulas are in op_int8.go.
#include "mma.cuh"
#include "block.cuh"

// quantize_int8 computes the codes of rows, padded with zeros to stride, and their scales. Each thread block has a row.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	quantize_int8(signed char *codes, float *scales, const T *x, int in, int stride) {
	waitForPrerequisites();
	typedef Vec<signed char, WIDTH> Codes;
	x += (long long)blockIdx.x * in;
	codes += (long long)blockIdx.x * stride;
	constexpr unsigned SPECIAL = 0x7F800000; // the bits of infinity; a NaN's are above
	unsigned largest = 0;
#pragma unroll 4
	for (int i = threadIdx.x; i < in / WIDTH; i += BLOCK_DIM) {
		const Vector v = loadCached(x, i);
#pragma unroll
		for (int j = 0; j < WIDTH; j++) largest = max(largest, __float_as_uint(v[j]) & 0x7FFFFFFF);
	}
	largest = fold(largest, [](unsigned a, unsigned b) { return max(a, b); });
	const float scale = largest < SPECIAL ? __uint_as_float(largest) / 127 : __uint_as_float(SPECIAL + 0x400000);
#pragma unroll 4
	for (int i = threadIdx.x; i < stride / WIDTH; i += BLOCK_DIM) {
		Codes c;
		if (i < in / WIDTH && scale > 0) {
			const Vector v = loadCached(x, i);
#pragma unroll
			for (int j = 0; j < WIDTH; j++) // beyond 127 only if the scale is subnormal
				c.at[j] = (signed char)rintf(fminf(127, fmaxf(-127, v[j] / scale)));
		}
		((Codes::Word *)codes)[i] = c.words[0];
	}
	if (threadIdx.x == 0) scales[blockIdx.x] = scale;
}

constexpr int TILE = 64, STEP = 64, STAGES = 3; // rows and columns of c, and bytes along k of a stage
constexpr int WORDS = STEP / 16;

// A Stage is a step's part of a tile's rows. With one word more per row, eight rows are in different banks.
typedef uint4 Stage[TILE][WORDS + 1];

// linear_int8 multiplies codes on tensor cores: c = a·bᵀ · scales + bias, or adds that to c. Each of four warps has a
// quarter of a tile.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	linear_int8(C *c, long long cRow, const signed char *a, const float *scales, long long aRow, const unsigned char *b,
		long long bRow, const T *bias, int m, int n, int add) {
	waitForPrerequisites();
	__shared__ Stage as[STAGES], bs[STAGES];
	const int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
	const int warpRow = warp / 2 * 32, warpColumn = warp % 2 * 32;
	auto copy = [&](int stage, int k) {
		for (int i = threadIdx.x; i < TILE * WORDS; i += BLOCK_DIM) {
			const int r = i / WORDS, word = i % WORDS, at = k + 16 * word;
			copyAsync(&as[stage][r][word], a + (row + r) * aRow + at, row + r < m && at < aRow);
			copyAsync(&bs[stage][r][word], b + (column + r) * bRow + 16 + at, column + r < n && 16 + at < bRow);
		}
		copyCommit();
	};
	int sums[2][4][4] = {};
	for (int i = 0; i < STAGES - 1; i++) copy(i, i * STEP);
	for (int k = 0, stage = 0; k < aRow; k += STEP, stage = (stage + 1) % STAGES) {
		copyWait<STAGES - 2>();
		__syncthreads(); // all have multiplied the stage before, whose memory the next copies need
		copy((stage + STAGES - 1) % STAGES, k + (STAGES - 1) * STEP);
#pragma unroll
		for (int half = 0; half < STEP; half += 32) {
			unsigned x[2][4], w[2][4]; // of w, the words of two operands
#pragma unroll
			for (int i = 0; i < 2; i++) {
				ldmatrix(x[i], &as[stage][warpRow + 16 * i + lane % 16][half / 16 + lane / 16]);
				ldmatrix(w[i], &bs[stage][warpColumn + 16 * i + lane / 16 * 8 + lane % 8][half / 16 + lane / 8 % 2]);
			}
#pragma unroll
			for (int i = 0; i < 8; i++)
				mmaBytes(sums[i / 4][i % 4], x[i / 4], {w[i % 4 / 2][i % 2 * 2], w[i % 4 / 2][i % 2 * 2 + 1]});
		}
	}
	copyWait<0>();
#pragma unroll
	for (int i = 0; i < 32; i++) {
		const int r = row + warpRow + 16 * (i / 16) + g + i % 4 / 2 * 8;
		const int s = column + warpColumn + 8 * (i / 4 % 4) + 2 * t + i % 2;
		if (r >= m || s >= n) continue;
		const float scale = scales[r] * *(const float *)(b + s * bRow);
		put(c + r * cRow + s, (float)sums[i / 16][i / 4 % 4][i % 4] * scale, bias, s, add);
	}
}

// sum_int8 adds up the sums of the parts that k was divided into, each [m, n], for the same result.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	sum_int8(C *c, long long cRow, const int *parts, const float *scales, const unsigned char *b, long long bRow,
		const T *bias, int m, int n, int count, int add) {
	waitForPrerequisites();
	const long long at = thread(), size = (long long)m * n, r = at / n, s = at % n;
	if (at >= size) return;
	int sum = 0;
#pragma unroll 4
	for (int i = 0; i < count; i++) sum += parts[i * size + at];
	const float scale = scales[r] * *(const float *)(b + s * bRow);
	put(c + r * cRow + s, (float)sum * scale, bias, s, add);
}
