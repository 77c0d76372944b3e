// Products on tensor cores, and copies that a thread need not wait for.
//
// mma, ldmatrix and ldmatrixTransposed belong to a warp: all of its lanes call them together. With g = lane / 4 and t = lane % 4, a
// lane holds these elements of a matrix, two BF16 a word, the one of the lower column or row in the lower half:
//
//   a [16, 16]   rows g, g+8, g, g+8 at columns 2t, 2t, 2t+8, 2t+8 and the next
//   b [16, 8]    column g at rows 2t and 2t+8 and the next
//   d [16, 8]    row g at columns 2t and 2t+1, row g+8 at the same
#pragma once

#ifdef EMULATED
inline float emulated_half(unsigned pair, int i) { return __uint_as_float(i ? pair & 0xFFFF0000 : pair << 16); }

// emulated_rows gives the row that this lane names, and returns those of all.
inline const emulated_lanes *emulated_rows(const void *row) {
	if ((size_t)row % 16) emulated->fault("ldmatrix of a row whose address is no multiple of 16");
	const uint4 r = *(const uint4 *)row;
	const unsigned given[4] = {r.x, r.y, r.z, r.w};
	return emulated->meet(~0u, given, 4);
}
#else
// sharedAddress is p as the instructions that know only shared memory want it.
inline unsigned sharedAddress(const void *p) {
	return (unsigned)__cvta_generic_to_shared(p);
}
#endif

// mma adds a·b to d, in float.
inline void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#ifdef EMULATED
	const unsigned mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
	const emulated_lanes *lanes = emulated->meet(~0u, mine, 6);
	const int g = emulated_lane() / 4, t = emulated_lane() % 4;
	for (int i = 0; i < 4; i++) {
		const int low = i / 2, column = 2 * t + i % 2; // low: of the rows from 8 on
		float sum = 0;
		for (int k = 0; k < 16; k++) {
			const unsigned x = lanes->given[4 * g + k % 8 / 2][low + k / 8 * 2], y = lanes->given[4 * column + k % 8 / 2][4 + k / 8];
			sum += emulated_half(x, k % 2) * emulated_half(y, k % 2);
		}
		d[i] += sum;
	}
#else
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// ldmatrix loads four matrices of 8 rows of 8 BF16 from shared memory. Lane i names row i % 8 of number i / 8, at a multiple of 16
// bytes. Word i of r is row g of number i, columns 2t and 2t+1.
inline void ldmatrix(unsigned (&r)[4], const void *row) {
#ifdef EMULATED
	const emulated_lanes *lanes = emulated_rows(row);
	for (int i = 0; i < 4; i++) r[i] = lanes->given[8 * i + emulated_lane() / 4][emulated_lane() % 4];
#else
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(sharedAddress(row)) : "memory");
#endif
}

// ldmatrixTransposed loads the transposes of such matrices: word i of r is column g of number i, rows 2t and 2t+1.
inline void ldmatrixTransposed(unsigned (&r)[4], const void *row) {
#ifdef EMULATED
	const emulated_lanes *lanes = emulated_rows(row);
	const int g = emulated_lane() / 4, t = emulated_lane() % 4;
	for (int i = 0; i < 4; i++) {
		const unsigned x = lanes->given[8 * i + 2 * t][g / 2], y = lanes->given[8 * i + 2 * t + 1][g / 2];
		r[i] = g % 2 ? x >> 16 | (y & 0xFFFF0000) : (x & 0xFFFF) | y << 16;
	}
#else
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(sharedAddress(row)) : "memory");
#endif
}

// copyAsync begins to copy 16 bytes to shared memory, or zeros if they are not there. Both addresses are multiples of 16.
inline void copyAsync(void *shared, const void *global, bool there) {
#ifdef EMULATED
	emulated->copy_async(shared, global, there);
#else
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedAddress(shared)), "l"(global), "r"(there ? 16 : 0)
		: "memory");
#endif
}

// copyCommit makes a group of the copies that this thread began since the last one.
inline void copyCommit() {
#ifdef EMULATED
	emulated->copy_commit();
#else
	asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// copyWait waits for this thread's groups except the last N. Other threads see the bytes after a barrier.
template <int N> inline void copyWait() {
#ifdef EMULATED
	emulated->copy_wait(N);
#else
	asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

// pack is two floats, each rounded to the nearest BF16.
inline unsigned pack(float lo, float hi) {
#ifdef EMULATED
	return emulated_bf16(lo) | (unsigned)emulated_bf16(hi) << 16;
#else
	unsigned pair;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
	return pair;
#endif
}
