// Products on tensor cores, and asynchronous copies.
//
// All lanes of a warp call mma, ldmatrix and ldmatrixTransposed together. With g = lane / 4 and t = lane % 4, a lane
// holds these elements of a matrix, two Half per word, the one of the lower column or row in the lower half:
//
//   a [16, 16]   rows g, g+8, g, g+8 at columns 2t, 2t, 2t+8, 2t+8 and the next
//   b [16, 8]    column g at rows 2t and 2t+8 and the next
//   d [16, 8]    row g at columns 2t and 2t+1, row g+8 at the same
#pragma once
#include "common.cuh"

// mma adds a·b to d, in float. Before sm_80, it takes two products of half the depth.
inline void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#ifdef EMULATED
	emulated.mma(d, a, b, !IsBF16<Half>);
#elif !defined F16
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
		"{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif __CUDA_ARCH__ >= 800
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
		"{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
#pragma unroll
	for (int k = 0; k < 2; k++)
		asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
			: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
			: "r"(a[2 * k]), "r"(a[2 * k + 1]), "r"(b[k]));
#endif
}

// mmaTF32 adds a·b to d for TF32, of whose words the low 13 bits do not count: a is [16, 8] and b [8, 8], with one
// element per word, so rows g, g+8, g, g+8 of a at columns t, t, t+4, t+4, and column g of b at rows t and t+4. From
// sm_80 on.
inline void mmaTF32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#ifdef EMULATED
	emulated.mma_tf32(d, a, b);
#else
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
		"{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// mmaBytes adds a·b to d for signed bytes: a is [16, 32] and b [32, 8], with four bytes per word, so columns 4t, 4t+16
// of a and rows 4t, 4t+16 of b and the next three. Before sm_80, it takes four products of a quarter.
inline void mmaBytes(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#ifdef EMULATED
	emulated.mma_bytes(d, a, b);
#elif __CUDA_ARCH__ >= 800
	asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, "
		"{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
#pragma unroll
	for (int i = 0; i < 4; i++)
		asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
			: "+r"(d[i % 2 * 2]), "+r"(d[i % 2 * 2 + 1])
			: "r"(a[i]), "r"(b[i / 2]));
#endif
}

// ldmatrix loads four matrices of 8 rows of 8 elements from shared memory. Lane i passes row i % 8 of matrix i / 8, at
// a multiple of 16 bytes. Word i of r is row g of matrix i, columns 2t and 2t+1.
inline void ldmatrix(unsigned (&r)[4], const void *row) {
#ifdef EMULATED
	emulated.ldmatrix(r, row, false);
#else
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared(row)) : "memory");
#endif
}

// ldmatrixTransposed loads the transposes of such matrices: word i of r is column g of matrix i, rows 2t and 2t+1.
inline void ldmatrixTransposed(unsigned (&r)[4], const void *row) {
#ifdef EMULATED
	emulated.ldmatrix(r, row, true);
#else
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared(row)) : "memory");
#endif
}

// copyAsync starts copying 16 bytes to shared memory, or zeros if there is false. Both addresses are multiples of 16.
// Before sm_80, which copies asynchronously, it has copied them when it returns, and there is nothing to wait for.
inline void copyAsync(void *to, const void *global, bool there) {
#ifdef EMULATED
	emulated.copy_async(to, global, there);
#elif __CUDA_ARCH__ < 800
	*(uint4 *)to = there ? *(const uint4 *)global : uint4();
#else
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared(to)), "l"(global), "r"(there ? 16 : 0)
		: "memory");
#endif
}

// copyCommit puts the copies that this thread started since the last call into a group.
inline void copyCommit() {
#ifdef EMULATED
	emulated.copy_commit();
#elif __CUDA_ARCH__ >= 800
	asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// copyWait waits for this thread's groups, except the last N. Other threads see the bytes after a barrier.
template <int N> inline void copyWait() {
#ifdef EMULATED
	emulated.copy_wait(N);
#elif __CUDA_ARCH__ >= 800
	asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

// pack returns two floats, each rounded to the nearest Half.
inline unsigned pack(float lo, float hi) { return pairRounded(Half(), lo, hi); }
