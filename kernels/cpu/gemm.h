// Matrix products: the arguments of a product, and what a level provides to gemm.c, which divides products.
#ifndef RESTYLE_GEMM_H
#define RESTYLE_GEMM_H

#include <stdint.h>
#include <time.h>

#include "tensor.h"

// A cpu_gemm_args is one product: C = alpha·(A·B + A2·B2) (+ bias) (+ C). A is [m, k], B is [k, n], C is [m, n],
// row-major; their rows are lda, ldb and ldc elements apart. With trans_a A is stored as [k, m], with trans_b B as [n,
// k]. The second pair of operands is as the first, with k2 instead of k; 0: there is none.
typedef struct {
	int64_t m, n, k;
	uintptr_t a, b, c; // addresses; C must not overlap A and B
	uintptr_t bias;    // n elements of A's and B's type, added to each row of C; 0: none
	int64_t lda, ldb, ldc;
	int64_t k2;
	uintptr_t a2, b2;
	int64_t lda2, ldb2;
	int trans_a, trans_b;
	dtype type;        // of A, B and bias: F32, BF16 or F16
	dtype c_type;      // of C: one of the same
	int accumulate;    // add to C
	float alpha;
	activation act;    // what is stored is act of all that; accumulate must be 0
	uintptr_t pre;     // what act gets is stored here, rows of n elements of c_type; 0: not stored
	int alone;         // a row has the same bits whatever m is
	dtype coded;       // of B, if it is quantized: transposed, and ldb is in bytes; 0: it is not
} cpu_gemm_args;

// cpu_gemm computes a product on the threads of the pool. Sums are in fp32 whatever the types are. Their order depends
// on k, on the level, and unless rows are alone, on whether there are more than GEMM_FEW rows. It returns 0, or ENOMEM,
// or ENOTSUP if B is coded and rows are too long, or at the level AMX, too many.
int cpu_gemm(const cpu_gemm_args *args);

// cpu_column_sums adds the sum of each column of x to sums, which are fp32 or of x's type.
void cpu_column_sums(tensor sums, matrix x);

// cpu_gemm_workspace returns the bytes that each thread uses for packed operands, from its first product on.
int64_t cpu_gemm_workspace(void);

// cpu_gemm_peak returns the floating-point operations per second that all threads reach in a loop that stays in
// registers, with the instructions of products of that type at this level: the ceiling of cpu_gemm.
double cpu_gemm_peak(dtype type, double seconds);

// cpu_copy_rate returns the bytes per second that all threads together read and write when they copy memory outside all
// caches.
double cpu_copy_rate(double seconds);

// A gemm_unit is 32 bits of a packed operand: one fp32, or two bf16 that are adjacent along k.
typedef uint32_t gemm_unit;

enum {
	GEMM_DEPTH = 256,              // units along k that are packed at a time
	GEMM_GROUP = 16,               // they are padded with zeros to a multiple of this
	// units between rows of packed A; a power of two would put all rows in one set of the L1 cache
	GEMM_STRIDE = GEMM_DEPTH + 16,
	GEMM_COLUMNS = 32,             // maximum columns of a panel of packed B
	GEMM_FEW = 8,                  // packing B is not worthwhile for this many rows or fewer
};

// A gemm_source is part of an operand in memory: lanes, which are rows of A or columns of B, times k. Its lines run
// along k, or else along the lanes.
typedef struct {
	const char *at;
	int64_t stride; // bytes from one line to the next
	int64_t lanes, k;
	int along_k;
} gemm_source;

static inline int64_t gemm_lines(const gemm_source *s) { return s->along_k ? s->lanes : s->k; }

static inline int64_t gemm_length(const gemm_source *s) { return s->along_k ? s->k : s->lanes; }

// A gemm_walk prefetches memory that will be needed, one cache line per step.
typedef struct {
	const char *at;
	int64_t stride, length, lines; // bytes between lines, bytes of a line, number of lines left
	int64_t done;                  // bytes of this line
} gemm_walk;

enum { GEMM_WALKS = 3 }; // walks of a micro-kernel while it multiplies: through A, B and C

static inline void gemm_step(gemm_walk *w) {
	if (w->lines <= 0) return;
	__builtin_prefetch(w->at + w->done, 0, 2);
	w->done += 64;
	if (w->done < w->length) return;
	w->done = 0, w->at += w->stride, w->lines--;
}

// A gemm_target says what becomes of the sums of a micro-kernel: C = alpha · sums + partial + bias + C.
typedef struct {
	char *c;
	int64_t stride; // bytes
	dtype type;     // of C
	int add;        // add C
	float alpha;
	const float *partial;
	int64_t partial_stride; // floats
	const float *bias;
	activation act; // C = act of all that, and pre gets what act does, unless NULL
	char *pre;
	int64_t pre_stride; // bytes
} gemm_target;

// gemm_below returns the target of the sums that many rows below.
static inline gemm_target gemm_below(gemm_target to, int64_t rows) {
	to.c += rows * to.stride;
	if (to.partial) to.partial += rows * to.partial_stride;
	if (to.pre) to.pre += rows * to.pre_stride;
	return to;
}

// A gemm_level holds a product's inner loops for one level: those with dot products or tiles of bf16 only for bf16.
typedef struct {
	int rows, columns; // that product handles at most
	int side;          // rows of packed A that lie side by side, unit by unit, instead of one after the other
	int group;         // rows of A that are packed at once; a multiple of side
	int pairs;         // bf16 is packed as pairs; otherwise all types become fp32
	int packing;       // cost of packing a line of one operand, in products with a line of the other
	// pack_a writes row-major, GEMM_STRIDE units between rows, or side rows in the memory of as many; pack_b k-major,
	// columns units between units of k.
	void (*pack_a)(gemm_unit *dst, gemm_source src, dtype type);
	void (*pack_b)(gemm_unit *dst, gemm_source src, dtype type);
	// product stores rows × width products of packed A and B; sums has room for them.
	void (*product)(float *sums, gemm_target to, const gemm_unit *a, const gemm_unit *b, int64_t units, int64_t rows,
		int64_t width, gemm_walk walks[GEMM_WALKS]);
	// turned is product with the operands in each other's places, Cᵀ = B·Aᵀ: b are lines of B, stride bytes apart, as
	// many as there are columns at most, and a is A, packed as B is. If next, as many lines follow in memory that will
	// be needed. NULL: the level has none.
	void (*turned)(float *sums, gemm_target to, const char *b, int64_t stride, const gemm_unit *a, int64_t units,
		int64_t rows, int64_t width, int next);
	void (*store)(const float *sums, gemm_target to, int64_t rows, int64_t width);
	// few computes columns lo to hi of a product with transposed B as dot products: of few rows, or of rows that are
	// alone.
	void (*few)(const cpu_gemm_args *g, int64_t lo, int64_t hi);
	void (*sum_columns)(float *sums, const char *matrix, int64_t stride, dtype type, int64_t rows, int64_t columns);
	// peak runs the loop of multiply without memory and returns the number of operations.
	double (*peak)(int64_t rounds);
	void (*begin)(void), (*end)(void); // before and after all multiplications of a thread; NULL: nothing
} gemm_level;

// gemm_level_for returns a level's loops for operands of a type.
const gemm_level *gemm_level_for(dtype type, int level);

// gemm_dots_pay returns whether dot products of bf16 are faster than multiply-adds of fp32. The machine must have the
// level AVX512BF16.
int gemm_dots_pay(void);

// gemm_now returns the seconds since some moment.
static inline double gemm_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
