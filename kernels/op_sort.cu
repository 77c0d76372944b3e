// Sorting by ids. op_sort.go describes it.
//
//   TILE   keys that a thread block sorts: a power of two
#include "common.cuh"
#include "sort_key.cuh"

// sort_ids sorts the keys of every TILE rows. The last tile is padded with keys that come after all others.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) sort_ids(Key *tiles, const int *ids, int n, int pad) {
	waitForPrerequisites();
	__shared__ Key keys[TILE];
	const int first = blockIdx.x * TILE;
	for (int i = threadIdx.x; i < TILE; i += BLOCK_DIM) {
		const int row = first + i, id = row < n && ids[row] != pad ? ids[row] : -1;
		keys[i] = keyOf(id, row);
	}
	__syncthreads();
	// Bitonic sort (Batcher 1968). If keys are up to 32 apart, the pairs of a warp are 64 adjacent keys. So at
	// distances up to 16 a warp waits only for itself. At 32, other warps wrote its keys, except in runs of up to 64.
	for (int run = 2; run <= TILE; run *= 2) {
		for (int apart = run / 2; apart > 0; apart /= 2) {
			if (apart < 32 || run <= 64) __syncwarp();
			else __syncthreads();
			for (int pair = threadIdx.x; pair < TILE / 2; pair += BLOCK_DIM) {
				const int i = 2 * pair - (pair & (apart - 1)), j = i + apart;
				const Key a = keys[i], b = keys[j];
				if ((a > b) == !(i & run)) keys[i] = b, keys[j] = a;
			}
		}
	}
	__syncthreads();
	for (int i = threadIdx.x; i < TILE; i += BLOCK_DIM) tiles[first + i] = keys[i];
}

// merge_ids puts every key of the sorted tiles into its place among all: after the keys of each tile that are smaller.
// It searches several tiles at a time, because each step of a search waits for memory.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) merge_ids(Key *sorted, const Key *tiles, int n) {
	waitForPrerequisites();
	constexpr int AT_ONCE = 8;
	const int at = (int)thread(), count = (n + TILE - 1) / TILE;
	if (at >= count * TILE) return;
	const Key key = tiles[at];
	int place = 0;
	for (int first = 0; first < count; first += AT_ONCE) {
		int less[AT_ONCE] = {};
		auto tile = [&](int t) { return tiles + min(first + t, count - 1) * TILE; };
#pragma unroll
		for (int step = TILE / 2; step > 0; step /= 2) {
#pragma unroll
			for (int t = 0; t < AT_ONCE; t++) less[t] += tile(t)[less[t] + step - 1] < key ? step : 0;
		}
#pragma unroll
		for (int t = 0; t < AT_ONCE; t++) place += first + t < count ? less[t] + (tile(t)[less[t]] < key) : 0;
	}
	if (place < n) sorted[place] = key;
}
