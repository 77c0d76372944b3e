// The factors of low-rank adapters: see op_pair.go.
#include "common.cuh"

// A Factor of the list: rows·columns floats of x become columns of w, whose rows are stride elements apart. Thread
// blocks from first on are its own.
struct Factor {
	T *w;
	const float *x;
	int first, stride, columns, rows;
	float scale;
	int unused;
};
static_assert(sizeof(Factor) == 40, "op_pair.go says how much memory a list takes");

// pair_factors rounds scale·x to w, for every factor of a list.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) pair_factors(const Factor *list, int count) {
	waitForPrerequisites();
	int at = 0;
	for (int step = 1 << 30; step > 0; step /= 2) {
		if (at + step < count && list[at + step].first <= blockIdx.x) at += step;
	}
	const Factor f = list[at];
	const long long i = (long long)(blockIdx.x - f.first) * BLOCK_DIM + threadIdx.x;
	const int vectors = f.columns / WIDTH, row = i / vectors;
	if (row >= f.rows) return;
	const Vec<float, WIDTH> v = loadStreaming(f.x, i);
	store(f.w, (long long)row * (f.stride / WIDTH) + i % vectors, each([&](int e) { return f.scale * v[e]; }));
}
