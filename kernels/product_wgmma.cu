// A product of matrices on the tensor cores of sm_90, c = a·b, and what follows it. See wgmma_loop.cuh for the main
// loop and its macros. One more:
//
//   GRADIENT   if it is defined, the gradient of ACT follows instead of ACT
#include "wgmma_loop.cuh"
static_assert(BLOCK_DIM == 3 * 128, "");

#ifdef GRADIENT
// An End is how a tile ends: with the derivative of ACT where it got job.other, [m, n] or with SwiGLU [m, 2n], gates
// and then ups. Then pre gets the gradient of ups, [m, n].
struct End {
	static constexpr int SWIGLU = 4, PAIRS = OUT_N / 4;
	const Half *const at;
	const long long stride;
	const int m, n, column;

	End(const Job &job, const Place &place, int group)
		: at(job.other), stride(job.otherRow), m(job.m), n(job.n), column(place.column) {
		fetch(place.row + (TURNS ? 0 : 64 * group), TURNS ? TILE_M : 64);
	}
	void load() {}

	// pair returns pair i of this thread's of 64 rows and OUT_N columns, which start at a row and a column.
	Vec<Half, 2> pair(int row, int column, int i, int right) const {
		const int r = row + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + i % 2 * 8;
		const int s = column + threadIdx.x % 4 * 2 + i / 2 * 8; // n is even
		return r < m && s < n ? loadCachedOf<2>(at + r * stride + right + s, 0) : Vec<Half, 2>{};
	}
	// fetch starts to bring what some rows of a tile need of job.other into the L2 cache, before the product, so that
	// none waits long.
	void fetch(int row, int rows) const {
		constexpr int LINES = COLUMNS / 64;
		for (int i = threadIdx.x % 128; i < rows * LINES; i += 128) {
			const int r = row + i / LINES, s = column + i % LINES * 64;
			if (r >= m || s >= n) continue;
			prefetchLine(at + r * stride + s);
			if (ACT == SWIGLU) prefetchLine(at + r * stride + n + s);
		}
	}
	// finish writes the sums of 64 rows times the derivative of ACT to c or, with SwiGLU, the gates' gradients to c and
	// the ups' gradients to pre.
	void finish(Output &out, const float (&sums)[TILE_N / 2], int, int row, int, const Result &c, const Result &pre)
		const {
#pragma unroll
		for (int part = 0; part < COLUMNS; part += OUT_N) {
			if (column + part >= n) continue;
			Vec<Half, 2> x[PAIRS], up[PAIRS];
			unsigned dx[PAIRS], dup[PAIRS];
#pragma unroll
			for (int i = 0; i < PAIRS; i++) {
				x[i] = pair(row, column + part, i, 0);
				if (ACT == SWIGLU) up[i] = pair(row, column + part, i, n);
			}
#pragma unroll
			for (int i = 0; i < PAIRS; i++) {
				float d[2], u[2];
#pragma unroll
				for (int e = 0; e < 2; e++) {
					const float dy = sums[part / 2 + 2 * i + e], at = x[i][e];
					if (ACT < 3) d[e] = dy * geluSlope(at, ACT == 2);
					if (ACT < 3) continue;
					const float s = roughSigmoid(at);
					d[e] = dy * siluSlope(at, s);
					if (ACT == SWIGLU) d[e] *= up[i][e], u[e] = dy * at * s;
				}
				dx[i] = pack(d[0], d[1]);
				if (ACT == SWIGLU) dup[i] = pack(u[0], u[1]);
			}
			out.put(c, row, column + part, [&](int j, int i) { return dx[4 * j + i]; });
			if (ACT == SWIGLU) out.put(pre, row, column + part, [&](int j, int i) { return dup[4 * j + i]; });
		}
	}
};
#else
// NoScales multiplies no sums.
struct NoScales {
	static constexpr bool AFTER_PARTS = false;
	void load(const Job &, const Place &) {}
	float (&multiply(float (&sums)[TILE_N / 2], float (&)[TILE_N / 2], int) const)[TILE_N / 2] { return sums; }
};
typedef Forward<NoScales> End;
#endif

// The parameters are Job's. With GROUPED, b has the rows of one expert after the other, an expert's rows of a are from
// offsets[expert] to offsets[expert + 1], and other is where pre is.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM, 1) product_wgmma(const __grid_constant__ TileMap a,
	const __grid_constant__ TileMap b, const __grid_constant__ TileMap cMap, const __grid_constant__ TileMap pre,
	const __grid_constant__ TileMap a2, const __grid_constant__ TileMap b2,
	C *c, long long cRow, const Half *bias, float *parts, int m, int n, int depth, int partSteps, int keep, int add,
	Half *other, long long otherRow, const int *offsets, int experts, int depth2) {
	extern __shared__ uint4 memory[];
	const Job job{&a, &b, &cMap, &pre, c, cRow, bias, parts, m, n, depth, partSteps, keep, add, other, otherRow, &a2, &b2,
		depth2};
	const Memory room(memory, 0);
	room.begin(job, 1, [] {});
	Tiles all(job, 1, offsets, experts);
	const int group = warpgroup();
	if (group == 2) {
		giveRegisters<40>();
		copyTiles(job, room, all);
		return;
	}
	takeRegisters<232>();
#ifdef GRADIENT
	multiplyTiles<End>(job, room, all, group);
#else
	multiplyTiles<End>(job, room, all, group, NoScales());
#endif
}
