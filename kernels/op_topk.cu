// The largest elements of rows. The formulas are in op_topk.go.
#include "common.cuh"
#include "block.cuh"
#include "topk_rank.cuh"

// best returns the largest rank below another of those that a thread has of a row of n elements.
inline Rank best(const T *row, int n, Rank below) {
	Rank most = 0;
#pragma unroll 4
	for (int k = threadIdx.x; k < n / WIDTH; k += BLOCK_DIM) {
		const Vector v = loadCached(row, k);
#pragma unroll
		for (int i = 0; i < WIDTH; i++) {
			const Rank r = rank(v[i], k * WIDTH + i);
			if (r < below && r > most) most = r;
		}
	}
	return most;
}

// GROUPS groups of adjacent lanes have a largest rank each. At least k elements are not below the kth largest of
// these, and hardly more in a row that is in no order: they are found in one more reading of the row if there is ROOM
// for them.
constexpr int LANES = 4, GROUPS = BLOCK_DIM / LANES, ROOM = 2 * BLOCK_DIM;

struct Found {
	Rank ranks[ROOM], bound;
	int count;
};

// find collects the k largest ranks, up to GROUPS of them, and a few more. It returns false if there is no room.
inline bool find(Found &found, const T *row, int n, int k) {
	Rank most = best(row, n, ~0ull);
#pragma unroll
	for (int i = 1; i < LANES; i *= 2) most = larger(most, neighbor(most, i));
	if (threadIdx.x == 0) found.bound = 0, found.count = 0; // less than k groups may have elements
	if (threadIdx.x % LANES == 0) found.ranks[threadIdx.x / LANES] = most;
	__syncthreads();
	if (threadIdx.x < GROUPS) {
		const Rank mine = found.ranks[threadIdx.x];
		int above = 0;
#pragma unroll 8
		for (int i = 0; i < GROUPS; i++) above += found.ranks[i] > mine;
		if (above == k - 1 && mine > 0) found.bound = mine;
	}
	__syncthreads();
	const Rank bound = found.bound;
#pragma unroll 4
	for (int v = threadIdx.x; v < n / WIDTH; v += BLOCK_DIM) {
		const Vector x = loadCached(row, v);
#pragma unroll
		for (int i = 0; i < WIDTH; i++) {
			const Rank r = rank(x[i], v * WIDTH + i);
			if (r < bound) continue;
			const int at = atomicAdd(&found.count, 1);
			if (at < ROOM) found.ranks[at] = r;
		}
	}
	__syncthreads();
	return found.count <= ROOM;
}

// topk has a thread block per row. Each of the ranks that it has found goes to the place that the number of larger ones
// tells. Without them, it looks for one element after the other.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) topk(T *values, int *indices, const T *x, int n, int k) {
	waitForPrerequisites();
	__shared__ Found found;
	const T *row = x + (long long)blockIdx.x * n;
	auto put = [&](int i, Rank r) {
		const long long to = (long long)blockIdx.x * k + i;
		indices[to] = indexOf(r);
		if (values) values[to] = row[indexOf(r)];
	};
	if (k > 1 && k <= GROUPS && find(found, row, n, k)) {
		for (int at = threadIdx.x; at < found.count; at += BLOCK_DIM) {
			const Rank mine = found.ranks[at];
			int above = 0;
			for (int i = 0; i < found.count; i++) above += found.ranks[i] > mine;
			if (above < k) put(above, mine);
		}
		return;
	}
	Rank last = ~0ull;
	for (int i = 0; i < k; i++) {
		last = fold(best(row, n, last), larger);
		if (threadIdx.x == 0) put(i, last);
	}
}

// topk_backward has a thread for each vector of dx, which looks for its elements among the k of its row.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	topk_backward(T *dx, const T *dvalues, const int *indices, int n, int k, long long vectors) {
	waitForPrerequisites();
	const long long at = thread();
	if (at >= vectors) return;
	const long long from = at * WIDTH / n * k;
	const int column = (int)(at * WIDTH % n);
	Vector out;
	for (int i = 0; i < k; i++) {
		const int index = indices[from + i] - column;
#pragma unroll
		for (int j = 0; j < WIDTH; j++) {
			if (index == j) out.at[j] = dvalues[from + i];
		}
	}
	store(dx, at, out);
}
