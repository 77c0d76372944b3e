// Attention of a single query to a KV cache. A thread block has BLOCK_DIM keys of one key head, and HEADS of the query
// heads that share it; attention_combine combines the results of a head's thread blocks. DIM is the head dimension.
#include "common.cuh"

// of a head and a key block: the largest score, the sum of weights relative to it, and the sums of values
constexpr int PART = DIM + 2;

// across combines the values of all threads of the block, for each head, and returns the result to all of them.
template <typename F> inline void across(float (&x)[HEADS], F f) {
	__shared__ float parts[HEADS][BLOCK_DIM / 32];
	__syncthreads(); // all threads have read what an earlier call left
#pragma unroll
	for (int h = 0; h < HEADS; h++) {
#pragma unroll
		for (int i = 1; i < 32; i *= 2) x[h] = f(x[h], __shfl_xor_sync(~0u, x[h], i));
		if (threadIdx.x % 32 == 0) parts[h][threadIdx.x / 32] = x[h];
	}
	__syncthreads();
#pragma unroll
	for (int h = 0; h < HEADS; h++) {
		x[h] = parts[h][0];
#pragma unroll
		for (int i = 1; i < BLOCK_DIM / 32; i++) x[h] = f(x[h], parts[h][i]);
	}
}

// A Cached is n rows of a cache, apart elements from one to the next. The query's own row may be elsewhere.
struct Cached {
	const T *rows;
	int apart, own; // own is the index of the query's row, or negative
	const T *there;
	const T *operator[](int i) const { return i == own ? there : rows + (long long)i * apart; }
};

// attend lets HEADS consecutive queries see n keys, at most BLOCK_DIM. parts is [heads, blocks, PART].
inline void attend(float *parts, const T *q, Cached k, Cached v, int n, float scale) {
	__shared__ float weights[HEADS][BLOCK_DIM];
	const int thread = threadIdx.x;

	float score[HEADS] = {}, top[HEADS], total[HEADS];
	if (thread < n) {
#pragma unroll 8
		for (int c = 0; c < VECTORS; c++) {
			const Vector key = loadCached(k[thread], c);
#pragma unroll
			for (int h = 0; h < HEADS; h++) {
				const Vector query = loadCached(q + h * DIM, c);
#pragma unroll
				for (int i = 0; i < WIDTH; i++) score[h] += query[i] * key[i];
			}
		}
	}
#pragma unroll
	for (int h = 0; h < HEADS; h++) top[h] = score[h] = thread < n ? score[h] * scale : -INFINITY;
	across(top, [](float a, float b) { return fmaxf(a, b); });
#pragma unroll
	for (int h = 0; h < HEADS; h++) weights[h][thread] = total[h] = expf(score[h] - top[h]);
	across(total, [](float a, float b) { return a + b; });
	if (thread == 0) {
#pragma unroll
		for (int h = 0; h < HEADS; h++) {
			parts[h * gridDim.x * PART] = top[h];
			parts[h * gridDim.x * PART + 1] = total[h];
		}
	}

	// The threads of a slice share the columns; each slice has its share of the keys.
	constexpr int SLICES = BLOCK_DIM > VECTORS ? BLOCK_DIM / VECTORS : 1;
	__shared__ float sums[SLICES][HEADS][WIDTH * (BLOCK_DIM < VECTORS ? BLOCK_DIM : VECTORS)];
	const int slice = thread / VECTORS % SLICES;
	for (int c0 = 0; c0 < VECTORS; c0 += BLOCK_DIM) {
		const int c = SLICES > 1 ? thread % VECTORS : c0 + thread;
		const bool mine = SLICES > 1 ? thread < SLICES * VECTORS : c < VECTORS;
		float sum[HEADS][WIDTH] = {};
		if (mine) {
#pragma unroll 4
			for (int key = slice; key < n; key += SLICES) {
				const Vector value = loadCached(v[key], c);
#pragma unroll
				for (int h = 0; h < HEADS; h++) {
#pragma unroll
					for (int i = 0; i < WIDTH; i++) sum[h][i] += weights[h][key] * value[i];
				}
			}
#pragma unroll
			for (int h = 0; h < HEADS; h++) {
#pragma unroll
				for (int i = 0; i < WIDTH; i++) sums[slice][h][(c - c0) * WIDTH + i] = sum[h][i];
			}
		}
		__syncthreads();
		for (int column = thread; column < min(WIDTH * BLOCK_DIM, DIM - c0 * WIDTH); column += BLOCK_DIM) {
#pragma unroll
			for (int h = 0; h < HEADS; h++) {
				float all = 0;
#pragma unroll
				for (int s = 0; s < SLICES; s++) all += sums[s][h][column];
				parts[h * gridDim.x * PART + 2 + c0 * WIDTH + column] = all;
			}
		}
		__syncthreads();
	}
}

// attention_decode lets the query see keys first to last, of rows that are kvRow elements apart.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) attention_decode(
	float *parts, const T *q, const T *k, const T *v, int first, int last, int kvRow, int share, float scale) {
	const int head = blockIdx.y * HEADS, from = first + blockIdx.x * BLOCK_DIM, n = min(BLOCK_DIM, last - from + 1);
	k += (long long)from * kvRow + head / share * DIM;
	v += (long long)from * kvRow + head / share * DIM;
	parts += ((long long)head * gridDim.x + blockIdx.x) * PART;
	attend(parts, q + head * DIM, {k, kvRow, -1, nullptr}, {v, kvRow, -1, nullptr}, n, scale);
}

// attention_next rotates the queries and the key of a token by its position, as rope.cu does, stores its key and value
// in the KV cache, and lets the queries see the keys up to that position. The grid has thread blocks for the maximum
// number of keys, because a graph keeps it.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) attention_next(float *parts, const T *qkv, T *k, T *v,
	const int *position, const float *cos, const float *sin, int heads, int kvHeads, int window, float scale) {
	constexpr int HALF = DIM / 2;
	const int last = *position, from = (window > 0 ? max(0, last - window + 1) : 0) + blockIdx.x * BLOCK_DIM;
	if (from > last) return;
	const int share = heads / kvHeads, head = blockIdx.y * HEADS, kvHead = head / share, kvRow = kvHeads * DIM;
	const int own = last - from < BLOCK_DIM ? last - from : -1, thread = threadIdx.x;
	__shared__ __align__(16) T q[HEADS * DIM];
	__shared__ __align__(16) T key[DIM];
	const T *const newKey = qkv + (heads + kvHead) * DIM, *const newValue = newKey + kvHeads * DIM;
	for (int i = thread; i < (HEADS + 1) * HALF; i += BLOCK_DIM) {
		const int h = i / HALF, c = i % HALF;
		const T *const x = h < HEADS ? qkv + (head + h) * DIM : newKey;
		const float a = value(x[c]), b = value(x[c + HALF]);
		const float cosine = cos[(long long)last * HALF + c], sine = sin[(long long)last * HALF + c];
		T turned[2];
		narrow(turned, {a * cosine - b * sine, b * cosine + a * sine});
		T *const to = h < HEADS ? q + h * DIM : key;
		to[c] = turned[0], to[c + HALF] = turned[1];
	}
	__syncthreads();
	k += kvHead * DIM;
	v += kvHead * DIM;
	if (own >= 0 && head % share == 0) { // of the thread blocks that have this key, one stores it
		for (int c = thread; c < DIM; c += BLOCK_DIM) {
			k[(long long)last * kvRow + c] = key[c];
			v[(long long)last * kvRow + c] = newValue[c];
		}
	}
	k += (long long)from * kvRow;
	v += (long long)from * kvRow;
	parts += ((long long)head * gridDim.x + blockIdx.x) * PART;
	attend(parts, q, {k, kvRow, own, key}, {v, kvRow, own, newValue}, min(BLOCK_DIM, last - from + 1), scale);
}

// attention_combine computes a head's row from its n parts, or, if there is a position, from as many as its keys have.
// A thread block has one head.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM)
	attention_combine(T *y, const float *parts, int n, const int *position, int window) {
	parts += (long long)blockIdx.x * n * PART;
	if (position) {
		const int seen = *position + 1;
		n = ((window > 0 ? min(seen, window) : seen) + BLOCK_DIM - 1) / BLOCK_DIM;
	}
	float top = -INFINITY, total = 0;
	for (int i = 0; i < n; i++) top = fmaxf(top, parts[i * PART]);
	for (int i = 0; i < n; i++) total += parts[i * PART + 1] * expf(parts[i * PART] - top);
	for (int column = threadIdx.x; column < DIM; column += BLOCK_DIM) {
		float sum = 0;
		for (int i = 0; i < n; i++) sum += parts[i * PART + 2 + column] * expf(parts[i * PART] - top);
		T rounded[1];
		narrow(rounded, {sum / total});
		y[blockIdx.x * DIM + column] = rounded[0];
	}
}
