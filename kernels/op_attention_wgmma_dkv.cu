// FlashAttention-2 (Dao 2023), the gradients of the keys and values, on the tensor cores of sm_90. The formulas are in
// op_attention.go, and what both kernels of gradients share is in flash_wgmma_backward.cuh.
//
// A thread block has keys of one key head and one sequence at a time. It goes through the queries that see these, of
// all heads that share them, COLUMNS at a time, so that nothing else adds to their sums.
#define BY_COLUMN 1
#include "flash_wgmma_backward.cuh"

// Queries are what the copying warp knows of a tile's queries: base and of, four of each for a lane. Queries that do
// not exist have weights of 0.
struct Queries {
	float base[4], of[4];

	void load(const float *lse, const float *delta, int query, int length) {
		query += threadIdx.x % 32 * 4;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			const bool exists = threadIdx.x % 32 * 4 < COLUMNS && query + i < length;
			base[i] = exists ? lse[query + i] * LOG2E : INFINITY;
			of[i] = exists ? delta[query + i] : 0;
		}
	}
	void write(float *to) const {
		if (threadIdx.x % 32 * 4 >= COLUMNS) return;
		unsigned bases[4], minus[4];
#pragma unroll
		for (int i = 0; i < 4; i++) bases[i] = __float_as_uint(base[i]), minus[i] = __float_as_uint(-of[i]);
		char *const at = (char *)to + threadIdx.x % 32 * 16;
		tileWrite(at, bases);
		tileWrite(at + COLUMNS * 4, minus);
	}
};

// pairOf reads the numbers of two queries: columns 8n + t%4·2 and the next.
inline float2 pairOf(const float *from, int n) {
	unsigned pair[2];
	tileRead(pair, (const char *)(from + n * 8 + threadIdx.x % 4 * 2));
	return {__uint_as_float(pair[0]), __uint_as_float(pair[1])};
}

extern "C" __global__ void __launch_bounds__(BLOCK_DIM, 1) attention_wgmma_dkv(const __grid_constant__ TileMap qMap,
	const __grid_constant__ TileMap kMap, const __grid_constant__ TileMap vMap, const __grid_constant__ TileMap dyMap,
	T *dk, T *dv, const float *lse, const float *delta, const int *offsets, int sequences, int places, int rows,
	int kvHeads, int stride, int share, int window, int causal, float scale) {
	extern __shared__ uint4 room[];
	const Memory memory(room);
	memory.begin();
	const int group = warpgroup();
	// tiles of queries that see the keys of a place
	auto walkOf = [&](const Place &at) {
		const int begin = causal ? at.first / COLUMNS * COLUMNS : 0;
		return Walk(begin, window ? min(at.length, at.first + ROWS - 1 + window) : at.length, share);
	};
	if (group == GROUPS) {
		giveRegisters<COPYING>();
		if (threadIdx.x / 32 % 4) return;
		Copier copier(memory);
		eachNumber(places, [&](int number) {
			const Place at(number, offsets, sequences, kvHeads);
			if (!at.exists()) return;
			const int row = at.begin + at.first;
			copier.copyOwn({&kMap, row, at.head * DIM}, {&vMap, row, at.head * DIM});
			Walk walk = walkOf(at);
			Queries queries;
			auto load = [&] {
				const long long first = (long long)(at.head * share + walk.head) * rows + at.begin;
				if (walk.left > 0) queries.load(lse + first, delta + first, walk.at, at.length);
			};
			load();
			while (walk.left > 0) {
				const int column = (at.head * share + walk.head) * DIM, exist = at.length - walk.at;
				const Source q = {&qMap, at.begin + walk.at, column}, dy = {&dyMap, at.begin + walk.at, column};
				copier.copy(q, dy, exist, [&](int stage) { queries.write(memory.floatsOf(stage)); });
				walk.next();
				load(); // long before it is written
			}
		});
		return;
	}
	takeRegisters<MULTIPLYING>();
	Multiplier multiplier(memory, group);
	const float steps = scale * LOG2E; // from scores to exponents of 2
	eachNumber(places, [&](int number) {
		const Place at(number, offsets, sequences, kvHeads);
		if (!at.exists()) return;
		Sums outK = {}, outV = {};
		const int mine = at.first + group * 64; // the warpgroup's first key
		auto sees = [&](int query) {
			if (mine >= at.length || causal && query + COLUMNS - 1 < mine) return false;
			return !window || query < mine + 63 + window;
		};
		auto start = [&](Scores &gradients, int stage) {
			const float *const of = memory.floatsOf(stage) + COLUMNS;
#pragma unroll
			for (int n = 0; n < COLUMNS / 8; n++) {
				const float2 pair = pairOf(of, n);
#pragma unroll
				for (int e = 0; e < 4; e++) gradients[4 * n + e] = e % 2 ? pair.y : pair.x;
			}
		};
		auto weigh = [&](Scores &scores, int stage, int query) {
			if (causal && query < mine + 63 || window && query + COLUMNS - 1 >= mine + window) {
				const int key = mine + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
				for (int e = 0; e < 2; e++) {
					const int first = key + e * 8 - query - threadIdx.x % 4 * 2; // of the columns that see the key
					const int last = window ? first + window - 1 : COLUMNS, from = causal ? first : 0;
#pragma unroll
					for (int i = 0; i < COLUMNS / 4; i++) {
						const int column = i / 2 * 8 + i % 2;
						if (column < from || column > last) scores[i / 2 * 4 + e * 2 + i % 2] = -INFINITY;
					}
				}
			}
			const float *const base = memory.floatsOf(stage);
#pragma unroll
			for (int n = 0; n < COLUMNS / 8; n++) {
				const float2 pair = pairOf(base, n);
#pragma unroll
				for (int e = 0; e < 4; e++)
					scores[4 * n + e] = weight(scores[4 * n + e] * steps - (e % 2 ? pair.y : pair.x));
			}
		};
		auto add = [&](int stage, const Left &weights, const Left &gradients) {
			multiplyColumns(outV, weights, Operand<COLUMNS>(memory.tile(stage, 1)), 1);
			multiplyColumns(outK, gradients, Operand<COLUMNS>(memory.tile(stage, 0)), 1);
		};
		multiplier.arrive();
		multiplier.run(walkOf(at), sees, start, weigh, add);
		multiplier.sync();
		const long long to = (long long)(at.begin + mine) * stride + at.head * DIM;
		multiplier.write(dk + to, stride, at.length - mine, outK, scale, 0);
		multiplier.write(dv + to, stride, at.length - mine, outV, 1, 1);
		multiplier.leave();
	});
}
