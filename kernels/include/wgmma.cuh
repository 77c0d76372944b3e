// Products of a warpgroup, and copies of whole tiles between global and shared memory, as only sm_90 has them.
//
// A warpgroup is four warps, the first of which has a number that is a multiple of four. A tile in shared memory is
// rows of 64 Half, 128 bytes, and starts at a multiple of 1,024 bytes. The order of the eight words of 16 bytes in a
// row differs from row to row, so that a column of words is in different banks: see swizzled.
#pragma once
#include "mma.cuh"
#ifdef ACT
#include "activation.cuh"
#endif

// same returns a number that is the same in all lanes, so that the compiler sees that it is the warp's.
inline int same(int x) { return __shfl_sync(~0u, x, 0); }

// warpgroup returns the number of a thread's warpgroup.
inline int warpgroup() { return same((int)threadIdx.x / 128); }

// first reports whether this is the first thread of its warpgroup.
inline bool first() { return threadIdx.x % 128 == 0; }

// A Ring counts what goes through N stages: the stage of the next one, and the parity of that stage's phase.
template <int N> struct Ring {
	int stage = 0, parity = 0;
	void skip(int steps) {
		stage += steps;
		parity ^= stage / N & 1;
		stage %= N;
	}
	void next() {
		if (++stage == N) stage = 0, parity ^= 1;
	}
};

// A TileMap describes a matrix in global memory, and the tile of it that is copied at once. The driver makes it.
struct alignas(64) TileMap {
	unsigned long long opaque[16];
};

// swizzled returns where the byte at an offset from the start of a tile is, for rows of 128 bytes or of 64.
constexpr int swizzled(int offset, int row) { return offset ^ (row == 128 ? offset >> 7 & 7 : offset >> 7 & 3) << 4; }

// prefetchMap prefetches a map, which would otherwise be read when the first tile is copied.
inline void prefetchMap(const TileMap *map) {
#ifndef EMULATED
	asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#endif
}

// A Barrier in shared memory has phases. One ends when all arrivals, and all bytes that were announced, have come.
typedef unsigned long long Barrier;

inline void barrierInit(Barrier *b, int arrivals) {
#ifdef EMULATED
	emulated.barrier_init(b, arrivals);
#else
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared(b)), "r"(arrivals) : "memory");
#endif
}

// barrierFence shows initialized barriers to tile copies. A barrier of the thread block follows.
inline void barrierFence() {
#ifndef EMULATED
	asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

inline void barrierArrive(Barrier *b) {
#ifdef EMULATED
	emulated.barrier_arrive(b, 0);
#else
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared(b)) : "memory");
#endif
}

// barrierExpect arrives and announces bytes that tile copies will write.
inline void barrierExpect(Barrier *b, int bytes) {
#ifdef EMULATED
	emulated.barrier_arrive(b, bytes);
#else
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared(b)), "r"(bytes) : "memory");
#endif
}

// barrierWait waits until a phase has ended: the first one has parity 0, the next one 1, and so on alternately. Before
// any has ended, waiting for parity 1 returns at once.
inline void barrierWait(Barrier *b, int parity) {
#ifdef EMULATED
	emulated.barrier_wait(b, parity);
#else
	unsigned ended;
	do {
		asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
			: "=r"(ended) : "r"(shared(b)), "r"(parity) : "memory");
	} while (!ended);
#endif
}

// tileLoad starts copying the tile whose first element is at a row and a column of the matrix to shared memory. What is
// outside of the matrix becomes zeros, and counts as bytes of the barrier too.
inline void tileLoad(void *to, const TileMap *map, int row, int column, Barrier *b) {
#ifdef EMULATED
	emulated.tile_load(to, map, row, column, b);
#else
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
		::"r"(shared(to)), "l"(map), "r"(column), "r"(row), "r"(shared(b)) : "memory");
#endif
}

// tileStore starts copying a tile from shared memory. What is outside of the matrix is dropped. Every thread that wrote
// to the tile has called tileFence before, and a barrier came between.
inline void tileStore(const TileMap *map, int row, int column, const void *from) {
#ifdef EMULATED
	emulated.tile_store(map, row, column, from);
#else
	asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
		::"l"(map), "r"(column), "r"(row), "r"(shared(from)) : "memory");
#endif
}
inline void tileFence() {
#ifdef EMULATED
	emulated.tile_fence();
#else
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// tileRead reads eight bytes of a tile that has come, and tileWrite writes 16 bytes of a tile that is multiplied or
// stored: tileFence comes before.
inline void tileRead(unsigned (&to)[2], const char *from) {
#ifdef EMULATED
	emulated.tile_read(to, from);
#else
	asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(shared(from)));
#endif
}
inline void tileWrite(char *to, const unsigned (&from)[4]) {
#ifdef EMULATED
	emulated.tile_write(to, from);
#else
	asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared(to)), "r"(from[0]), "r"(from[1]), "r"(from[2]),
		"r"(from[3]) : "memory");
#endif
}

// tileMatrices is ldmatrix of a tile that has come.
inline void tileMatrices(unsigned (&r)[4], const char *row) {
#ifdef EMULATED
	emulated.tile_matrices(r, row);
#else
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared(row)));
#endif
}

// tileCommit puts the stores that this thread started since the last call into a group. tileWait waits until the groups
// of this thread, except the last N, have read shared memory. A thread ends only after tileWait<0>.
inline void tileCommit() {
#ifdef EMULATED
	emulated.tile_commit();
#else
	asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}
template <int N> inline void tileWait() {
#ifdef EMULATED
	emulated.tile_wait(N);
#else
	asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
#endif
}

// syncSome waits for a number of threads, whole warps, that wait at the barrier of that number, 1 to 15.
inline void syncSome(int barrier, int threads) {
#ifdef EMULATED
	emulated.sync_some(barrier, threads);
#else
	asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
#endif
}

// arriveSome arrives at such a barrier without waiting.
inline void arriveSome(int barrier, int threads) {
#ifdef EMULATED
	emulated.arrive_some(barrier, threads);
#else
	asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
#endif
}

// takeRegisters and giveRegisters set the number of registers of the warpgroup's threads: takeRegisters waits until
// others have given enough.
template <int N> inline void takeRegisters() {
#ifndef EMULATED
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
#endif
}
template <int N> inline void giveRegisters() {
#ifndef EMULATED
	asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
#endif
}

// stmatrix is the reverse of ldmatrix: lane i passes the address of row i % 8 of matrix i / 8.
inline void stmatrix(void *row, const unsigned (&r)[4]) {
#ifdef EMULATED
	emulated.stmatrix(row, r);
#else
	asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared(row)), "r"(r[0]),
		"r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
#endif
}

// Products of a warpgroup. Those that start one after the other are added up in order; groupCommit puts them into a
// group, and groupWait waits for all groups except the last N. Before that, no thread reads the sums, and the tiles
// stay as they are. groupFence comes before the first product after sums were set.
inline void groupFence() {
#ifndef EMULATED
	asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
inline void groupCommit() {
#ifdef EMULATED
	emulated.group_commit();
#else
	asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
template <int N> inline void groupWait() {
#ifdef EMULATED
	emulated.group_wait(N);
#else
	asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
#endif
}

// With INT8, two signed bytes take the place of an element, and sums are whole numbers. No operand is transposed.
#ifndef INT8
#define INT8 0
#endif
#if INT8
typedef int Sum;
#else
typedef float Sum;
#endif
// If a kernel's products are all alike: which of the operands is transposed.
#ifndef TRANS_A
#define TRANS_A 0
#define TRANS_B 1
#endif
// groupStep returns the bytes from 16 elements along k to the next in a block of an operand.
constexpr int groupStep(bool transposed) { return transposed ? 16 * 128 : 16 * 2; }

#ifndef EMULATED
#if INT8
#define GROUP_REGISTER "+r"
#define GROUP_TYPES "k32.s32.s8.s8"
#define GROUP_HOW(how) ""
#else
#define GROUP_REGISTER "+f"
#ifdef F16
#define GROUP_TYPES "k16.f32.f16.f16"
#else
#define GROUP_TYPES "k16.f32.bf16.bf16"
#endif
#define GROUP_HOW(how) ", 1, 1, " how
#endif
// The registers of the sums of a product, as operands 0 and on of the instruction.
#define TEN(tens) "%" #tens "0, %" #tens "1, %" #tens "2, %" #tens "3, %" #tens "4, %" #tens "5, %" #tens "6, %" #tens \
	"7, %" #tens "8, %" #tens "9"
#define THIRTY TEN() ", " TEN(1) ", " TEN(2)
#define SIXTY THIRTY ", " TEN(3) ", " TEN(4) ", " TEN(5)
#define SUMS_64 THIRTY ", %30, %31"
#define SUMS_96 THIRTY ", " TEN(3) ", %40, %41, %42, %43, %44, %45, %46, %47"
#define SUMS_128 SIXTY ", %60, %61, %62, %63"
#define SUMS_192 SIXTY ", " TEN(6) ", " TEN(7) ", " TEN(8) ", %90, %91, %92, %93, %94, %95"
#define SUM(i) GROUP_REGISTER(d[i])
#define EIGHT(i) SUM(i), SUM(i + 1), SUM(i + 2), SUM(i + 3), SUM(i + 4), SUM(i + 5), SUM(i + 6), SUM(i + 7)
#define THIRTY_TWO(i) EIGHT(i), EIGHT(i + 8), EIGHT(i + 16), EIGHT(i + 24)
#define GROUP_D_64 THIRTY_TWO(0)
#define GROUP_D_96 THIRTY_TWO(0), EIGHT(32), EIGHT(40)
#define GROUP_D_128 THIRTY_TWO(0), THIRTY_TWO(32)
#define GROUP_D_192 THIRTY_TWO(0), THIRTY_TWO(32), THIRTY_TWO(64)
#define GROUP_PRODUCT(n, left, right, add, how)                                                                      \
	"{\n.reg .pred p;\nsetp.ne.b32 p, %" #add ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n GROUP_TYPES " {" SUMS_##n \
	"}, " left ", %" #right ", p" GROUP_HOW(how) ";\n}"

// A Group has the products of a number of columns, by the descriptors of tiles.
template <int N> struct Group;
// operands a and on are those after the sums
#define GROUP_COLUMNS(n, a, b, c, e, f, g, h)                                                                        \
	template <> struct Group<n> {                                                                                    \
		template <bool TRANSPOSED_A, bool TRANSPOSED_B>                                                              \
		static inline void multiply(Sum (&d)[n / 2], unsigned long long left, unsigned long long right, int add) {   \
			asm volatile(GROUP_PRODUCT(n, "%" #a, b, c, "%" #e ", %" #f) : GROUP_D_##n                               \
				: "l"(left), "l"(right), "r"(add), "n"((int)TRANSPOSED_A), "n"((int)TRANSPOSED_B) : "memory");       \
		}                                                                                                            \
		template <bool TRANSPOSED_B>                                                                                 \
		static inline void multiply(Sum (&d)[n / 2], const unsigned (&left)[4], unsigned long long right, int add) { \
			asm volatile(GROUP_PRODUCT(n, "{%" #a ", %" #b ", %" #c ", %" #e "}", f, g, "%" #h) : GROUP_D_##n        \
				: "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(add),                      \
				"n"((int)TRANSPOSED_B) : "memory");                                                                  \
		}                                                                                                            \
	}
GROUP_COLUMNS(64, 32, 33, 34, 35, 36, 37, 38);
GROUP_COLUMNS(96, 48, 49, 50, 51, 52, 53, 54);
GROUP_COLUMNS(128, 64, 65, 66, 67, 68, 69, 70);
GROUP_COLUMNS(192, 96, 97, 98, 99, 100, 101, 102);

// groupTile describes a tile whose blocks have ROWS rows: its address and, between groups of eight rows, 1,024 bytes,
// and between blocks all rows, each in words of 16 bytes. Rows are swizzled by 128 bytes.
template <int ROWS> inline unsigned long long groupTile(const char *p) {
	return 1ull << 62 | (1024ull >> 4) << 32 | (ROWS * 128ull >> 4) << 16 | (shared(p) & 0x3FFFF) >> 4;
}
#endif

// An Operand is a place in a tile whose blocks have ROWS rows, described once: other places are a number of bytes
// further.
template <int ROWS> struct Operand {
#ifdef EMULATED
	const char *at;
	inline explicit Operand(const char *p) : at(p) {}
	inline Operand operator+(int bytes) const { return Operand(at + bytes); }
#else
	unsigned low; // of its description
	inline explicit Operand(const char *p) : low(ROWS * 128 >> 4 << 16 | shared(p) >> 4) {}
	inline Operand operator+(int bytes) const {
		Operand o = *this;
		o.low += bytes >> 4; // shared memory has less than 2^18 bytes
		return o;
	}
	inline unsigned long long all() const { return 1ull << 62 | (1024ull >> 4) << 32 | low; }
#endif
};

// groupMultiply starts d = a·b, or d += a·b if add is set, for 64 rows of a and 2·N columns of b, of 16 elements each.
// An operand's tile is rows of 64 elements along k, or if it is transposed, blocks of rows along k of 64 elements each,
// one block after the other; such a block has ROWS rows, which may be more than are multiplied. Both point into a tile,
// see groupStep. Thread t of the warpgroup has element i of d in row t/32·16 + t%32/4 + i/2%2·8 and column
// t%4·2 + i%2 + i/4·8.
template <bool TRANSPOSED_A, bool TRANSPOSED_B, int ROWS_A, int ROWS, int N>
inline void groupMultiply(Sum (&d)[N], Operand<ROWS_A> a, Operand<ROWS> b, int add) {
	static_assert(!TRANSPOSED_A || ROWS_A == ROWS, "");
#ifdef EMULATED
	emulated.group_multiply(d, 2 * N, a.at, b.at, add | TRANSPOSED_A << 1 | TRANSPOSED_B << 2 | !IsBF16<Half> << 3 |
		INT8 << 4 | ROWS << 6);
#else
	Group<2 * N>::template multiply<TRANSPOSED_A, TRANSPOSED_B>(d, a.all(), b.all(), add);
#endif
}
template <bool TRANSPOSED_A = TRANS_A, bool TRANSPOSED_B = !TRANS_B, int ROWS = 64, int N>
inline void groupMultiply(Sum (&d)[N], const char *a, const char *b, int add) {
#ifdef EMULATED
	emulated.group_multiply(d, 2 * N, a, b, add | TRANSPOSED_A << 1 | TRANSPOSED_B << 2 | !IsBF16<Half> << 3 |
		INT8 << 4 | ROWS << 6);
#else
	Group<2 * N>::template multiply<TRANSPOSED_A, TRANSPOSED_B>(d, groupTile<ROWS>(a), groupTile<ROWS>(b), add);
#endif
}

// groupMultiplyHeld is groupMultiply for 16 columns of a that threads hold in registers, as mma of mma.cuh takes it: a
// warp has 16 of the rows. So a thread's elements 8i to 8i + 7 of sums, rounded and in pairs, are its a of the columns
// 16i and on. Until the product is over, a stays as it is.
template <bool TRANSPOSED_B, int ROWS, int N>
inline void groupMultiplyHeld(Sum (&d)[N], const unsigned (&a)[4], Operand<ROWS> b, int add) {
#ifdef EMULATED
	emulated.group_multiply(d, 2 * N, a, b.at, add | TRANSPOSED_B << 2 | !IsBF16<Half> << 3 | INT8 << 4 | 1 << 5 |
		ROWS << 6);
#else
	Group<2 * N>::template multiply<TRANSPOSED_B>(d, a, b.all(), add);
#endif
}

#ifdef ACT
inline float roughSigmoid(float x) { return reciprocal(1 + exp2Rough(-1.442695041f * x)); }

// activated applies ACT, an activation numbered as in package cpu or 0, to what a product of these kernels is.
inline float activated(float x) {
	if (ACT == 0) return x;
	if (ACT < 3) return geluOf(x, ACT == 2);
	return x * roughSigmoid(x);
}
#endif
