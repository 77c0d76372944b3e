// The end of a product of few rows, in product_one_row*.cu: a thread block has OUTPUTS rows of b, and its warps have
// sums over different parts of them.
//
//   PAIR    1: a second pair of operands is multiplied too, without a norm
//   GATED   1: a is one row; the first half of the outputs are gates, and the others the values that they gate
//   GROUPED if it is defined: along y, a thread block has a row of a and c, and the n rows of b of that row's expert,
//           which has the rows of a from offsets[expert] to offsets[expert + 1]
#pragma once
#ifndef PAIR
#define PAIR 0
#endif

constexpr int WARPS = BLOCK_DIM / 32, OUTPUTS = 16, MAX_ROWS = 8; // per thread block; and maximum rows of a

// expertOf returns the expert of a row of a.
inline int expertOf(int row, const int *offsets, int experts) {
	int expert = 0, end = experts;
	while (end - expert > 1) {
		const int middle = (expert + end) / 2;
		if (offsets[middle] <= row) expert = middle;
		else end = middle;
	}
	return expert;
}

// addPair adds the products of a second pair of operands, in 16-byte words, to a lane's sums of two rows of b. a is
// the row of the lane's column, or NULL.
inline void addPair(float (&sums)[4], const Half *a, const Half *b, long long bRow, int lowRow, int highRow,
	bool lowThere, bool highThere, int depth) {
	for (int k = threadIdx.x / 32 * 32 + threadIdx.x % 4 * 8; k / 32 * 32 < depth; k += WARPS * 32) {
		auto word = [&](const Half *row, bool there) {
			return (there && k < depth ? loadCachedOf<8>(row + k, 0) : Vec<Half, 8>()).words[0];
		};
		const uint4 u = word(b + lowRow * bRow, lowThere), v = word(b + highRow * bRow, highThere);
		const uint4 w = word(a, a != nullptr);
		mma(sums, {u.x, v.x, u.y, v.y}, {w.x, w.y});
		mma(sums, {u.z, v.z, u.w, v.w}, {w.z, w.w});
	}
}

// finish adds up what the warps have and stores it. Each lane has mma's sums for rows lane / 4 and lane / 4 + 8 of b
// and two of the rows of a, the first COLUMNS of which count. first is the first column of c. A thread block that calls
// it again and again counts the calls and has two BUFFERS: that takes one barrier per call, and the warps take turns
// with what comes behind it.
template <int COLUMNS = MAX_ROWS, int BUFFERS = 1, typename E>
inline void finish(
	C *c, long long cRow, const E *bias, const float (&sums)[4], int first, int m, int n, int add, unsigned call = 0) {
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const int thread = (threadIdx.x + BLOCK_DIM - call % WARPS * 32) % BLOCK_DIM;
	__shared__ float buffers[BUFFERS][WARPS][COLUMNS][OUTPUTS];
	auto &parts = buffers[call % BUFFERS];
#pragma unroll
	for (int i = 0; i < 4; i++) {
		const int r = lane % 4 * 2 + i % 2;
		if (r < COLUMNS) parts[warp][r][lane / 4 + i / 2 * 8] = sums[i];
	}
	__syncthreads();
	auto total = [&](int r, int i) {
		float sum = 0;
		for (int j = 0; j < WARPS; j++) sum += parts[j][r][i];
		return sum;
	};
	if constexpr (GATED) {
		const int s = first + thread;
		if (thread >= 8 || s >= n) return;
		const float gate = total(0, thread) + (bias ? value(bias[s]) : 0);
		const float up = total(0, thread + 8) + (bias ? value(bias[n + s]) : 0);
		put(c + s, gate * __fdividef(1, 1 + expf(-gate)) * up, (const E *)nullptr, 0, add);
	} else {
#pragma unroll 1
		for (int i = thread; i < m * OUTPUTS; i += BLOCK_DIM) {
			const int r = i / OUTPUTS, s = first + i % OUTPUTS;
			if (s < n) put(c + r * cRow + s, total(r, i % OUTPUTS), bias, s, add);
		}
	}
}
