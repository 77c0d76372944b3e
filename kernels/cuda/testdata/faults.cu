// Kernels with a fault each, which the emulated GPU names as the line above it says, and right ones. FROM is 64 words that are written,
// TO 64 that are not; each is launched with 2 blocks of 64 threads and 512 bytes of dynamic shared memory. … is anything.
#include "mma.cuh"

extern __shared__ uint4 vectors[];

// right
extern "C" __global__ void right_barriers(unsigned *to, const unsigned *from) {
	__shared__ unsigned there[64];
	for (int i = 0; i < 3; i++) {
		there[threadIdx.x] = from[threadIdx.x];
		__syncthreads();
		if (blockIdx.x == 0) to[threadIdx.x] = there[63 - threadIdx.x];
		__syncthreads();
	}
}
// right
extern "C" __global__ void right_warps(unsigned *to, const unsigned *from) {
	__shared__ unsigned there[64];
	there[threadIdx.x] = from[threadIdx.x];
	__syncwarp();
	const unsigned x = there[threadIdx.x ^ 31];
	__syncwarp();
	there[threadIdx.x ^ 1] = x;
}
// right
extern "C" __global__ void right_halves(unsigned *to, const unsigned *from) {
	__shared__ unsigned there[64];
	there[threadIdx.x] = from[threadIdx.x];
	if (threadIdx.x % 32 < 16) __syncwarp(0xFFFF);
	else __syncwarp(0xFFFF0000);
	there[threadIdx.x] += __shfl_xor_sync(~0u, there[threadIdx.x ^ 15], 15);
}
// right
extern "C" __global__ void right_copies(unsigned *to, const unsigned *from) {
	if (threadIdx.x >= 16) return;
	for (int i = 0; i < 2; i++) {
		copyAsync(vectors + 16 * i + threadIdx.x, (const uint4 *)from + threadIdx.x, i == 0);
		copyCommit();
	}
	copyWait<1>();
	if (blockIdx.x == 1) ((uint4 *)to)[threadIdx.x] = vectors[threadIdx.x];
}
// right
extern "C" __global__ void right_reads(unsigned *to, const unsigned *from) { // a shuffle does not end before all lanes have read
	extern __shared__ unsigned words[];
	if (threadIdx.x == 0) words[0] = words[1] = 0;
	__syncthreads();
	const unsigned x = __shfl_xor_sync(~0u, words[threadIdx.x / 32], 1);
	if (threadIdx.x % 32 == 0) words[threadIdx.x / 32] = x;
}
// right
extern "C" __global__ void right_matrices(unsigned *to, const unsigned *from) { // no lane goes on before all have their words
	unsigned r[4];
	if (threadIdx.x >= 32) return;
	vectors[threadIdx.x] = {};
	__syncwarp();
	ldmatrix(r, vectors + threadIdx.x);
	vectors[threadIdx.x ^ 1] = {r[0], r[1], r[2], r[3]};
}
// right
extern "C" __global__ void right_sums(unsigned *to, const unsigned *from) {
	__shared__ int sum;
	if (threadIdx.x == 0) sum = 0;
	__syncthreads();
	atomicAdd(&sum, 1);
	atomicAdd((unsigned *)from, 1u);
	__syncthreads();
	if (threadIdx.x == 5) to[blockIdx.x] = sum;
}

// block 0,0,0: thread 0 waits at the barrier of line 74 for thread 32, which has ended
extern "C" __global__ void half_a_barrier(unsigned *to, const unsigned *from) {
	if (threadIdx.x < 32) __syncthreads();
}
// block 0,0,0: thread 0 waits at the barrier of line 78 for thread 32, which is at that of line 79
extern "C" __global__ void two_barriers(unsigned *to, const unsigned *from) {
	if (threadIdx.x < 32) __syncthreads();
	else __syncthreads();
}
// block 0,0,0: thread 0 waits at the barrier of line 83 for thread 32, which has ended
extern "C" __global__ void one_more_barrier(unsigned *to, const unsigned *from) {
	for (int i = threadIdx.x / 32; i < 2; i++) __syncthreads();
}

// block 0,0,0: thread 0: reads 4 bytes at +… of static shared memory, which are uninitialized
extern "C" __global__ void unwritten_static(unsigned *to, const unsigned *from) {
	__shared__ unsigned there[64];
	to[threadIdx.x] = there[threadIdx.x];
	there[threadIdx.x] = 0;
}
// block 0,0,0: thread 0: reads 16 bytes at +16 of dynamic shared memory, which are uninitialized
extern "C" __global__ void unwritten_dynamic(unsigned *to, const unsigned *from) {
	vectors[0] = vectors[1];
}
// block 1,0,0: thread 0: reads 4 bytes at +0 of dynamic shared memory, which are uninitialized
extern "C" __global__ void left_by_a_block(unsigned *to, const unsigned *from) {
	extern __shared__ unsigned words[];
	if (blockIdx.x == 0) words[threadIdx.x] = 0;
	else to[threadIdx.x] = words[threadIdx.x];
}
// block 0,0,0: thread 0: reads 4 bytes at TO+4, which are uninitialized
extern "C" __global__ void unwritten_global(unsigned *to, const unsigned *from) {
	to[0] = to[1];
}

// block 1,0,0: thread 0: reads 4 bytes at FROM+256, where no memory is
extern "C" __global__ void read_beyond(unsigned *to, const unsigned *from) {
	if (blockIdx.x == 1) to[0] = from[64];
}
// block 0,0,0: thread 7: writes 4 bytes at TO+-4, where no memory is
extern "C" __global__ void write_before(unsigned *to, const unsigned *from) {
	if (threadIdx.x == 7) to[-1] = 0;
}
// block 0,0,0: thread 0: writes 4 bytes at 0, where no memory is
extern "C" __global__ void null(unsigned *to, const unsigned *from) {
	*(unsigned *)0 = 1;
}
// block 0,0,0: thread 63: writes 4 bytes at +512 of dynamic shared memory, which has 512
extern "C" __global__ void dynamic_beyond(unsigned *to, const unsigned *from) {
	extern __shared__ unsigned words[];
	words[threadIdx.x + 65] = 0;
}

// block 0,0,0: thread 32: reads 4 bytes at +124 of dynamic shared memory, a race with thread 31, which writes it
extern "C" __global__ void race_of_warps(unsigned *to, const unsigned *from) {
	extern __shared__ unsigned words[];
	words[threadIdx.x] = 0;
	if (threadIdx.x == 32) to[0] = words[31];
}
// block 0,0,0: thread 1: reads 4 bytes at +0 of dynamic shared memory, a race with thread 0, which writes it
extern "C" __global__ void race_in_a_warp(unsigned *to, const unsigned *from) {
	extern __shared__ unsigned words[];
	words[threadIdx.x] = 0;
	__shfl_xor_sync(~0u, 1, 1); // orders nothing
	if (threadIdx.x == 1) to[0] = words[0];
}
// block 0,0,0: thread 16: reads 4 bytes at +0 of dynamic shared memory, a race with thread 0, which writes it
extern "C" __global__ void race_of_halves(unsigned *to, const unsigned *from) {
	extern __shared__ unsigned words[];
	words[threadIdx.x] = 0;
	if (threadIdx.x % 32 < 16) __syncwarp(0xFFFF);
	else __syncwarp(0xFFFF0000);
	if (threadIdx.x == 16) to[0] = words[0];
}
// block 0,0,0: thread 1: writes 4 bytes at +4 of dynamic shared memory, a race with thread 0, which reads it
extern "C" __global__ void write_after_read(unsigned *to, const unsigned *from) {
	extern __shared__ unsigned words[];
	words[threadIdx.x] = 0;
	__syncthreads();
	if (threadIdx.x == 0) to[0] = words[1];
	if (threadIdx.x == 1) words[1] = 1;
}
// block 0,0,0: thread 32: writes 4 bytes at +0 of dynamic shared memory, a race with another warp, which reads it
extern "C" __global__ void write_after_warp(unsigned *to, const unsigned *from) {
	extern __shared__ unsigned words[];
	if (threadIdx.x == 0) words[0] = 0;
	__syncthreads();
	const unsigned x = __shfl_xor_sync(~0u, words[0], 1);
	if (threadIdx.x == 32) words[0] = x;
}
// block 0,0,0: thread 1: reads 16 bytes at +0 of dynamic shared memory, a race with thread 0, which writes it
extern "C" __global__ void matrix_of_another(unsigned *to, const unsigned *from) {
	unsigned r[4];
	if (threadIdx.x >= 32) return;
	vectors[threadIdx.x] = {};
	ldmatrix(r, vectors + threadIdx.x / 2);
}
// block 0,0,0: thread 1: writes 4 bytes at TO+0, a race with thread 0, which writes it
extern "C" __global__ void race_of_threads(unsigned *to, const unsigned *from) {
	to[0] = 0;
}
// block 1,0,0: thread 3: writes 4 bytes at TO+0, a race with thread 3 of block 0,0,0, which writes it
extern "C" __global__ void race_of_blocks(unsigned *to, const unsigned *from) {
	if (threadIdx.x == 3) to[0] = 0;
}
// block 1,0,0: thread 3: writes 4 bytes at FROM+8, a race with thread 2 of block 0,0,0, which reads it
extern "C" __global__ void race_with_a_reader(unsigned *to, unsigned *from) {
	if (threadIdx.x == 2 + blockIdx.x) blockIdx.x ? from[2] = 0 : to[0] = from[2];
}
// block 0,0,0: thread 1: writes 4 bytes at FROM+0, a race with thread 0, which writes it
extern "C" __global__ void race_with_a_sum(unsigned *to, unsigned *from) {
	if (threadIdx.x == 1) from[0] = 1;
	else atomicAdd(from, 1u);
}

// block 0,0,0: thread 0: an access at FROM+4, which is no multiple of 16 (faults.cu:…)
extern "C" __global__ void odd_struct(unsigned *to, const unsigned *from) { // Clang does not see it
	*(uint4 *)to = *(const uint4 *)(from + 1);
}
// block 0,0,0: thread 0: an access at FROM+4, which is no multiple of 16
extern "C" __global__ void odd_load(unsigned *to, const unsigned *from) {
	*(uint4 *)to = __ldcs((const uint4 *)(from + 1));
}
// block 0,0,0: thread 0: an access at TO+4, which is no multiple of 16
extern "C" __global__ void odd_store(unsigned *to, const unsigned *from) {
	__stcs((uint4 *)(to + 1), uint4{});
}
// block 0,0,0: thread 0: an access at FROM+4, which is no multiple of 8 (faults.cu:…)
extern "C" __global__ void odd_number(unsigned *to, const unsigned *from) {
	*(long long *)to = *(const long long *)(from + 1);
}
// block 0,0,0: thread 5: ldmatrix of a row whose address is no multiple of 16
extern "C" __global__ void odd_row(unsigned *to, const unsigned *from) {
	unsigned r[4];
	if (threadIdx.x < 32) vectors[threadIdx.x] = {};
	__syncthreads();
	ldmatrix(r, (char *)vectors + (threadIdx.x == 5 ? 8 : 16 * (threadIdx.x % 32)));
}
// block 0,0,0: thread 1: an asynchronous copy whose address is no multiple of 16
extern "C" __global__ void odd_copy(unsigned *to, const unsigned *from) {
	if (threadIdx.x < 8) copyAsync(vectors + threadIdx.x, from + 4 * threadIdx.x + (threadIdx.x == 1), true);
}

// block 0,0,0: thread 0: reads 16 bytes at +0 of dynamic shared memory, which an asynchronous copy writes that is not waited for
extern "C" __global__ void copy_not_waited_for(unsigned *to, const unsigned *from) {
	if (threadIdx.x >= 8) return;
	copyAsync(vectors + threadIdx.x, from + 4 * threadIdx.x, true);
	copyCommit();
	copyWait<1>();
	vectors[8] = vectors[threadIdx.x];
}
// block 0,0,0: thread 0: reads 16 bytes at +0 of dynamic shared memory, which an asynchronous copy writes that is not waited for
extern "C" __global__ void copy_not_committed(unsigned *to, const unsigned *from) {
	if (threadIdx.x >= 8) return;
	copyAsync(vectors + threadIdx.x, from + 4 * threadIdx.x, true);
	copyWait<0>();
	vectors[8] = vectors[threadIdx.x];
}
// block 0,0,0: thread 1: reads 16 bytes at +0 of dynamic shared memory, a race with thread 0, which writes it
extern "C" __global__ void copy_of_another(unsigned *to, const unsigned *from) {
	if (threadIdx.x >= 8) return;
	copyAsync(vectors + threadIdx.x, from + 4 * threadIdx.x, true);
	copyCommit();
	copyWait<0>();
	if (threadIdx.x == 1) vectors[8] = vectors[0];
}
// block 0,0,0: thread 0: reads 16 bytes at FROM+256, where no memory is
extern "C" __global__ void copy_beyond(unsigned *to, const unsigned *from) {
	copyAsync(vectors, from + 64, true);
}

// block 0,0,0: thread 0 waits for lanes of its warp that never come
extern "C" __global__ void missing_lanes(unsigned *to, const unsigned *from) {
	if (threadIdx.x % 2 == 0) to[threadIdx.x] = __shfl_xor_sync(~0u, 1, 2);
}
// block 0,0,0: thread 0 waits for lanes of its warp that never come
extern "C" __global__ void crossed(unsigned *to, const unsigned *from) { // each half of a warp waits where the other is not
	if (threadIdx.x < 16) to[threadIdx.x] = __shfl_xor_sync(~0u, 1, 16);
	__syncthreads();
	if (threadIdx.x >= 16) to[threadIdx.x] = __shfl_xor_sync(~0u, 1, 16);
}
// block 0,0,0: thread 0: a shuffle reads a lane that is not there
extern "C" __global__ void wrong_lane(unsigned *to, const unsigned *from) {
	if (threadIdx.x < 16) to[threadIdx.x] = __shfl_sync(0xFFFF, 1, 16 + threadIdx.x);
}
// block 0,0,0: thread 16: meets lanes of its warp by a mask that it is not in
extern "C" __global__ void wrong_mask(unsigned *to, const unsigned *from) {
	__ballot_sync(0xFFFF, 1);
}
// block 0,0,0: thread 16: meets lanes of its warp that are at another operation
extern "C" __global__ void other_operation(unsigned *to, const unsigned *from) {
	if (threadIdx.x < 16) __syncwarp();
	else __ballot_sync(~0u, 1);
}
// block 0,0,0: thread 0 waits for lanes of its warp that never come
extern "C" __global__ void half_a_product(unsigned *to, const unsigned *from) {
	const unsigned a[4] = {}, b[2] = {};
	float d[4] = {};
	if (threadIdx.x < 16) mma(d, a, b);
}

// What the compiler does not have call anybody meets a page that nobody may touch.
__attribute__((noinline)) EMULATED_UNSEEN unsigned unseen(const unsigned *p) { return *(const volatile unsigned *)p; }
// block 0,0,0: thread 0: no memory at FROM+256
extern "C" __global__ void unseen_beyond(unsigned *to, const unsigned *from) {
	to[0] = unseen(from + 64);
}
// block 0,0,0: thread 0: no memory at …
extern "C" __global__ void unseen_beyond_dynamic(unsigned *to, const unsigned *from) {
	to[0] = unseen((unsigned *)vectors + 128);
}
// right
extern "C" __global__ void right_last(unsigned *to, unsigned *from) {
	__shared__ bool last;
	if (threadIdx.x < 32) to[32 * blockIdx.x + threadIdx.x] = 1;
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0) {
		last = atomicInc(from, 1) == 1;
		__threadfence();
	}
	__syncthreads();
	if (last && to[63 - threadIdx.x] == 2) to[0] = 3;
}
// right
extern "C" __global__ void right_last_fence(unsigned *to, unsigned *from) {
	__shared__ bool last;
	if (threadIdx.x < 32) to[32 * blockIdx.x + threadIdx.x] = 1;
	__syncthreads();
	if (threadIdx.x == 0) {
		__threadfence();
		last = atomicInc(from, 1) == 1;
		__threadfence();
	}
	__syncthreads();
	if (last && to[63 - threadIdx.x] == 2) to[0] = 3;
}
// block 1,0,0: thread 32: reads 4 bytes at TO+124, a race with thread 31 of block 0,0,0, which writes it
extern "C" __global__ void last_without_fence(unsigned *to, unsigned *from) {
	__shared__ bool last;
	if (threadIdx.x < 32) to[32 * blockIdx.x + threadIdx.x] = 1;
	__syncthreads();
	if (threadIdx.x == 0) {
		last = atomicInc(from, 1) == 1;
		__threadfence();
	}
	__syncthreads();
	if (last && to[63 - threadIdx.x] == 2) to[0] = 3;
}
// block 1,0,0: thread 32: reads 4 bytes at TO+124, a race with thread 31 of block 0,0,0, which writes it
extern "C" __global__ void last_without_fence_after(unsigned *to, unsigned *from) {
	__shared__ bool last;
	if (threadIdx.x < 32) to[32 * blockIdx.x + threadIdx.x] = 1;
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0) {
		last = atomicInc(from, 1) == 1;
	}
	__syncthreads();
	if (last && to[63 - threadIdx.x] == 2) to[0] = 3;
}
// block 1,0,0: thread 32: reads 4 bytes at TO+124, a race with thread 31 of block 0,0,0, which writes it
extern "C" __global__ void last_with_a_fence_of_one(unsigned *to, unsigned *from) {
	__shared__ bool last;
	if (threadIdx.x < 32) to[32 * blockIdx.x + threadIdx.x] = 1;
	if (threadIdx.x == 0) __threadfence();
	__syncthreads();
	if (threadIdx.x == 0) {
		last = atomicInc(from, 1) == 1;
		__threadfence();
	}
	__syncthreads();
	if (last && to[63 - threadIdx.x] == 2) to[0] = 3;
}
// block 1,0,0: thread 32: reads 4 bytes at TO+124, a race with thread 31 of block 0,0,0, which writes it
extern "C" __global__ void last_without_barrier(unsigned *to, unsigned *from) {
	__shared__ bool last;
	if (threadIdx.x < 32) to[32 * blockIdx.x + threadIdx.x] = 1;
	__threadfence();
	if (threadIdx.x == 0) {
		last = atomicInc(from, 1) == 1;
		__threadfence();
	}
	__syncthreads();
	if (last && to[63 - threadIdx.x] == 2) to[0] = 3;
}
// block 1,0,0: thread 32: reads 4 bytes at TO+124, a race with thread 31 of block 0,0,0, which writes it
extern "C" __global__ void last_after_fences_without_barrier(unsigned *to, unsigned *from) {
	__shared__ bool last;
	if (threadIdx.x < 32) to[32 * blockIdx.x + threadIdx.x] = 1;
	__threadfence();
	if (threadIdx.x == 63) {
		last = atomicInc(from, 1) == 1;
		__threadfence();
	}
	__syncthreads();
	if (last && to[63 - threadIdx.x] == 2) to[0] = 3;
}
// block 0,0,0: thread 32: reads 4 bytes at +0 of dynamic shared memory, a race with thread 0, which writes it
extern "C" __global__ void race_of_warps_that_meet(unsigned *to, const unsigned *from) {
	extern __shared__ unsigned words[];
	if (threadIdx.x == 0) words[0] = 0;
	__syncwarp();
	__syncwarp();
	if (threadIdx.x == 32) to[0] = words[0];
}
