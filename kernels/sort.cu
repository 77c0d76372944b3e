// Sorting by ids. sort.go describes it.
//
//   TILE   keys that a thread block sorts: a power of two
#include "common.cuh"
#include "keys.cuh"

// sort_ids sorts the keys of every TILE rows. The last tile is padded with keys that come after all others.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) sort_ids(Key *tiles, const int *ids, int n, int pad) {
	__shared__ Key keys[TILE];
	const int first = blockIdx.x * TILE;
	for (int i = threadIdx.x; i < TILE; i += BLOCK_DIM) {
		const int row = first + i, id = row < n && ids[row] != pad ? ids[row] : -1;
		keys[i] = keyOf(id, row);
	}
	// Bitonic sort (Batcher 1968).
	for (int run = 2; run <= TILE; run *= 2) {
		for (int apart = run / 2; apart > 0; apart /= 2) {
			__syncthreads();
			for (int pair = threadIdx.x; pair < TILE / 2; pair += BLOCK_DIM) {
				const int i = pair / apart * 2 * apart + pair % apart, j = i + apart;
				const Key a = keys[i], b = keys[j];
				if ((a > b) == !(i & run)) keys[i] = b, keys[j] = a;
			}
		}
	}
	__syncthreads();
	for (int i = threadIdx.x; i < TILE; i += BLOCK_DIM) tiles[first + i] = keys[i];
}

// merge_ids puts every key of the sorted tiles into its place among all: after the keys of each tile that are smaller.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) merge_ids(Key *sorted, const Key *tiles, int n) {
	const int at = (int)thread(), count = (n + TILE - 1) / TILE;
	if (at >= count * TILE) return;
	const Key key = tiles[at];
	int place = 0;
#pragma unroll 4
	for (int t = 0; t < count; t++) {
		const Key *tile = tiles + t * TILE;
		int less = 0;
#pragma unroll
		for (int step = TILE / 2; step > 0; step /= 2) less += tile[less + step - 1] < key ? step : 0;
		place += less + (tile[less] < key);
	}
	if (place < n) sorted[place] = key;
}
