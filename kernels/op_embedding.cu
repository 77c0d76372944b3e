// The gradient of an embedding. The formula is in op_embedding.go. DIM is the length of a row.
//
//   PIECE   maximum rows that a thread block adds up: one id may have all rows
#include "common.cuh"
#include "block.cuh"
#include "sort_key.cuh"

// ends reports whether a run of rows ends before index i.
inline bool ends(const Key *sorted, int i, int n, int id) { return i >= n || i % PIECE == 0 || idOf(sorted[i]) != id; }

// embedding_backward adds up a run of at most PIECE rows of one id, and adds the sum to that row of dtable or, if the
// rows before it have the same id, stores it in partials [(n - 1) / PIECE, DIM]. There is a thread block for every key:
// most runs are one row.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	embedding_backward(float *dtable, float *partials, const T *dy, const Key *sorted, int n) {
	waitForPrerequisites();
	const int first = blockIdx.x, id = idOf(sorted[first]);
	const bool more = first > 0 && idOf(sorted[first - 1]) == id;
	if (id < 0 || (more && first % PIECE != 0)) return;
	int end = first + 1;
	while (!ends(sorted, end, n, id)) end++;
	float *to = more ? partials + (long long)(first / PIECE - 1) * DIM : dtable + (long long)id * DIM;
	for (int v = threadIdx.x; v < VECTORS; v += BLOCK_DIM) {
		const Vec<float, WIDTH> before = more ? Vec<float, WIDTH>() : loadStreaming(to, v);
		float sum[WIDTH] = {};
#pragma unroll 4
		for (int i = first; i < end; i++) {
			const Vector d = loadStreaming(dy, (long long)rowOf(sorted[i]) * VECTORS + v);
#pragma unroll
			for (int k = 0; k < WIDTH; k++) sum[k] += d[k];
		}
		store(to, v, each<float>([&](int k) { return before[k] + sum[k]; }));
	}
}

// embedding_backward_rest adds to dtable what embedding_backward stored in partials. A thread block handles one run; if
// it is the first that an id has in partials, the block adds up all of them, in 32 columns of vectors.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	embedding_backward_rest(float *dtable, const float *partials, const Key *sorted, int n) {
	waitForPrerequisites();
	constexpr int PARTS = BLOCK_DIM / 32;
	const int first = (blockIdx.x + 1) * PIECE, id = idOf(sorted[first]);
	auto left = [&](int i) { return i < n && idOf(sorted[i]) == id && idOf(sorted[i - 1]) == id; };
	if (id < 0 || !left(first) || (first > PIECE && left(first - PIECE))) return;
	const int column = blockIdx.y * 32 + threadIdx.x % 32, part = threadIdx.x / 32;
	float sum[WIDTH] = {};
	if (column < VECTORS) {
#pragma unroll 4
		for (int i = first + part * PIECE; left(i); i += PARTS * PIECE) {
			const Vec<float, WIDTH> p = loadStreaming(partials, (long long)(i / PIECE - 1) * VECTORS + column);
#pragma unroll
			for (int k = 0; k < WIDTH; k++) sum[k] += p[k];
		}
	}
	sumWarps(sum);
	if (part > 0 || column >= VECTORS) return;
	const long long at = (long long)id * VECTORS + column;
	const Vec<float, WIDTH> before = loadStreaming(dtable, at);
	store(dtable, at, each<float>([&](int k) { return before[k] + sum[k]; }));
}
