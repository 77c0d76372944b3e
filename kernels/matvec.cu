// A few rows by a matrix in BF16, as decoding has them: c = a·bᵀ + bias, or added to what c holds, for up to eight rows of a.
// Each weight is read once, which is all that takes time.
#include "common.cuh"
#include "mma.cuh"

constexpr int WARPS = BLOCK / 32, OUTPUTS = 16, MOST = 8; // of a block; and rows of a
constexpr int AHEAD = 4; // words of 16 bytes that a thread has on their way of each of its two rows of b

// A block has 16 rows of b, and its warps take turns along them. Each product is of 16 by 8 sums. The order of k is another
// than mma's, the same for both operands: where mma wants columns 2t and 2t+8 and the next of lane t, it is given those that
// the lane has loaded at once.
extern "C" __global__ void __launch_bounds__(BLOCK, 2) matvec(C *c, long long cRow, const bf16 *a, long long aRow, const bf16 *b,
	long long bRow, const bf16 *bias, int m, int n, int depth, int add) {
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, first = blockIdx.x * OUTPUTS;
	// Where there is no such row, another is read, and its sums go nowhere.
	const bf16 *const low = b + min(first + g, n - 1) * bRow, *const high = b + min(first + g + 8, n - 1) * bRow;
	const bf16 *const x = a + min(g, m - 1) * aRow;
	typedef Vec<bf16, 8> Words;
	float sums[4] = {};
	for (int k = warp * AHEAD * 32; k < depth; k += WARPS * AHEAD * 32) {
		Words u[AHEAD], v[AHEAD];
#pragma unroll
		for (int i = 0; i < AHEAD; i++) {
			const int at = k + 32 * i + lane % 4 * 8;
			if (at >= depth) continue;
			u[i] = loadOf<8>(low + at, 0);
			v[i] = loadOf<8>(high + at, 0);
		}
		__syncwarp(); // or the compiler has the first product wait for its words before it asks for the others
#pragma unroll
		for (int i = 0; i < AHEAD; i++) {
			const int at = k + 32 * i + lane % 4 * 8;
			const uint4 p = u[i].words[0], q = v[i].words[0], r = at < depth ? fetchOf<8>(x + at, 0).words[0] : uint4();
			mma(sums, {p.x, q.x, p.y, q.y}, {r.x, r.y});
			mma(sums, {p.z, q.z, p.w, q.w}, {r.z, r.w});
		}
	}
	__shared__ float parts[WARPS][MOST][OUTPUTS];
#pragma unroll
	for (int i = 0; i < 4; i++) parts[warp][lane % 4 * 2 + i % 2][g + i / 2 * 8] = sums[i];
	__syncthreads();
	for (int i = threadIdx.x; i < m * OUTPUTS; i += BLOCK) {
		const int r = i / OUTPUTS, s = first + i % OUTPUTS;
		if (s >= n) continue;
		float sum = 0;
		for (int j = 0; j < WARPS; j++) sum += parts[j][r][i % OUTPUTS];
		put(c + r * cRow + s, sum, bias, s, add);
	}
}
