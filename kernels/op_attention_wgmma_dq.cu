// FlashAttention-2 (Dao 2023), the gradient of the queries, on the tensor cores of sm_90. The formulas are in
// op_attention.go, and what both kernels of gradients share is in flash_wgmma_backward.cuh.
//
// Queries have a kernel of their own so that no thread block adds to another's sums: that would take atomics, whose
// order changes the last bits from run to run. In return, scores and their gradients are computed here and again in
// op_attention_wgmma_dkv.cu: together these compute seven products, and one kernel would compute five.
//
// A thread block has queries of one head and one sequence at a time, and goes through the keys that these see.
#define BY_COLUMN 0
#include "flash_wgmma_backward.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK_DIM, 1) attention_wgmma_dq(const __grid_constant__ TileMap qMap,
	const __grid_constant__ TileMap kMap, const __grid_constant__ TileMap vMap, const __grid_constant__ TileMap dyMap,
	T *dq, const float *lse, const float *delta, const int *offsets, int sequences, int places, int rows, int heads,
	int stride, int share, int window, int causal, float scale) {
	extern __shared__ uint4 room[];
	const Memory memory(room);
	memory.begin();
	const int group = warpgroup();
	// The last queries of a sequence see most: they start first.
	auto placeOf = [&](int number) { return Place(places - 1 - number, offsets, sequences, heads); };
	// tiles of keys that the queries of a place see
	auto walkOf = [&](const Place &at) {
		const int begin = window ? max(0, at.first - window + 1) / COLUMNS * COLUMNS : 0;
		return Walk(begin, causal ? min(at.first + ROWS, at.length) : at.length, 1);
	};
	if (group == GROUPS) {
		giveRegisters<COPYING>();
		if (threadIdx.x / 32 % 4) return;
		Copier copier(memory);
		eachNumber(places, [&](int number) {
			const Place at = placeOf(number);
			if (!at.exists()) return;
			const int column = at.head / share * DIM;
			const int row = at.begin + at.first;
			copier.copyOwn({&qMap, row, at.head * DIM}, {&dyMap, row, at.head * DIM});
			for (Walk walk = walkOf(at); walk.left > 0; walk.next()) {
				const Source k = {&kMap, at.begin + walk.at, column}, v = {&vMap, at.begin + walk.at, column};
				copier.copy(k, v, at.length - walk.at, [](int) {});
			}
		});
		return;
	}
	takeRegisters<MULTIPLYING>();
	Multiplier multiplier(memory, group);
	const float steps = scale * LOG2E; // from scores to exponents of 2
	eachNumber(places, [&](int number) {
		const Place at = placeOf(number);
		if (!at.exists()) return;
		Sums out = {};
		const Seen seen = {at.length, window, causal};
		const int mine = at.first + group * 64; // the warpgroup's first query
		const int query = mine + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4; // the thread's first one
		float base[2], of[2];
#pragma unroll
		for (int e = 0; e < 2; e++) {
			const long long i = (long long)at.head * rows + at.begin + query + e * 8;
			const bool exists = query + e * 8 < at.length;
			base[e] = exists ? lse[i] * LOG2E : 0;
			of[e] = exists ? delta[i] : 0;
		}
		auto sees = [&](int key) {
			if (mine >= at.length || causal && key > mine + 63) return false;
			return !window || key + COLUMNS > mine - window + 1;
		};
		auto start = [&](Scores &gradients, int) {
#pragma unroll
			for (int i = 0; i < COLUMNS / 2; i++) gradients[i] = -of[i / 2 % 2];
		};
		auto weigh = [&](Scores &scores, int, int key) {
			if (!seen.all(mine, key, COLUMNS)) hide(scores, seen, mine, key);
#pragma unroll
			for (int i = 0; i < COLUMNS / 2; i++) scores[i] = weight(scores[i] * steps - base[i / 2 % 2]);
		};
		auto add = [&](int stage, const Left &, const Left &gradients) {
			multiplyColumns(out, gradients, Operand<COLUMNS>(memory.tile(stage, 0)), 1);
		};
		multiplier.arrive();
		multiplier.run(walkOf(at), sees, start, weigh, add);
		multiplier.sync();
		T *const to = dq + (long long)(at.begin + mine) * stride + at.head * DIM;
		multiplier.write(to, stride, at.length - mine, out, scale, 0);
		multiplier.leave();
	});
}
