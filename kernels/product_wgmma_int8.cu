// product_wgmma.cu for codes of 8 bits: pairs of them are the elements of both operands. Sums are whole numbers, which
// the scales of rows of a and b make products. See wgmma_loop.cuh for the main loop and its macros.
#define INT8 1
#include "wgmma_loop.cuh"
static_assert(BLOCK_DIM == 3 * 128 && TRANS_B && !TRANS_A && !GROUPED, "");

// Scales are the scales of the thread's rows, and lane i has the scales of columns 2i and 2i + 1 of each 64, as
// registers are too few for all that it needs. multiply returns the products of the sums of a half in y.
struct Scales {
	static constexpr bool AFTER_PARTS = true; // parts get the sums
	static constexpr int EACH = (TILE_N + 63) / 64 * 2;
	const unsigned char *w; // rows of b, each of which begins with its scale
	const float *x;         // scales of rows of a
	int group;
	float rows[2 * HALVES], columns[EACH];

	Scales(const unsigned char *w, const float *x, int group) : w(w), x(x), group(group) {}
	void load(const Job &job, const Place &at) {
		const long long rowBytes = 16 + 2 * job.depth;
		const int lane = threadIdx.x % 32;
		int row = at.row + (TURNS ? 0 : 64 * group);
		row += threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
		for (int i = 0; i < 2 * HALVES; i++) rows[i] = x[min(row + i / 2 * 64 + i % 2 * 8, job.m - 1)];
#pragma unroll
		for (int i = 0; i < EACH; i++)
			columns[i] = *(const float *)(w + rowOfB(at.column, i / 2 * 64 + 2 * lane + i % 2, job.n) * rowBytes);
	}
	float (&multiply(int (&sums)[TILE_N / 2], float (&y)[TILE_N / 2], int half) const)[TILE_N / 2] {
#pragma unroll
		for (int i = 0; i < TILE_N / 2; i++) {
			const float column = __shfl_sync(~0u, columns[i / 32 * 2 + i % 2], i / 4 % 8 * 4 + threadIdx.x % 4);
			y[i] = sums[i] * (rows[2 * half + i / 2 % 2] * column);
		}
		return y;
	}
};

// The parameters are Job's. w are the rows of b with their scales, and scales the scales of rows of a. parts gets sums
// of codes.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM, 1) product_wgmma_int8(const __grid_constant__ TileMap a,
	const __grid_constant__ TileMap b, const __grid_constant__ TileMap cMap, const __grid_constant__ TileMap pre,
	C *c, long long cRow, const Half *bias, const unsigned char *w, float *parts, int m, int n, int depth, int partSteps,
	int keep, int add, const float *scales) {
	extern __shared__ uint4 memory[];
	const Job job{&a, &b, &cMap, &pre, c, cRow, bias, parts, m, n, depth, partSteps, keep, add};
	const Memory room(memory, 0);
	room.begin(job, 1, [] {});
	Tiles all(job, 1, nullptr, 0);
	const int group = warpgroup();
	if (group == 2) {
		giveRegisters<40>();
		copyTiles(job, room, all);
		return;
	}
	takeRegisters<232>();
	multiplyTiles<Forward<Scales>>(job, room, all, group, Scales(w, scales, group));
}
