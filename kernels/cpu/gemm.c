// A product is divided into tiles of C, which threads claim one after the other, a tile into strips of rows, and k into
// k-blocks; a step is one k-block of one strip. During a step, A's k-block is packed in the L2 cache, and B's comes in
// panels, as wide as a micro-kernel, that fit into the L1 cache: each panel is multiplied by all rows of A. The first
// strip packs the panels, and the tile's others use them again, from the L2 or L3 cache, before the next k-block.
//
// A second pair of operands is k-blocks of its own, or if the last one has room for it, units behind that one's. Then
// the sums need not go through memory once more, but are the same if the pair's are zero.
//
// While a step multiplies, it packs what comes next little by little: the next panel of B, and A's k-block of the next
// step. It prefetches each part a while before it packs it. So the multiplier never waits for memory, and no prefetched
// line stays unused for long: if rows are a power of two apart, few lines of a column fit into a cache.
#include "gemm.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "level.h"
#include "pool.h"

void cpu_dequantize_rows(tensor y, tensor w, tensor index); // of ops_quant.c

enum {
	TURNED_ROWS = 64,     // maximum for operands that change places: with more, packing B pays
	TURNED_COLUMNS = 256, // maximum of a tile then
	// maximum: twice as many packed rows fit into an L2 cache of 1 MiB together with everything else
	STRIP_ROWS = 312,
	TILE_ROWS = 8 * STRIP_ROWS, // maximum: enough to make packing B a small part of the work
	TILE_COLUMNS = 2048,        // maximum: enough to make packing A a small part of the work
	PARTIAL_ROWS = 624,         // maximum, if partial sums of earlier k-blocks are kept
	PARTIAL_GAP = 16,           // between their rows; a power of two would put a column in one set of a cache
	PARTIAL = PARTIAL_ROWS * (512 + PARTIAL_GAP),
	LARGE_PAGE = 2 << 20,
};

// A workspace is the memory of a thread.
typedef struct {
	gemm_unit a[2][(STRIP_ROWS + 16) * GEMM_STRIDE]; // whole micro-kernels and vectors; one is packed meanwhile
	gemm_unit b[(TILE_COLUMNS + GEMM_COLUMNS) * GEMM_DEPTH]; // one panel is packed meanwhile
	float sums[32 * GEMM_COLUMNS];
	float bias[GEMM_COLUMNS];
	float partial[PARTIAL]; // sums over the k-blocks so far, if C is not F32
} workspace;

// TURNED is how many of the partial sums operands that change places need. Behind them is room for values of B.
enum { TURNED = TURNED_ROWS * (TURNED_COLUMNS + PARTIAL_GAP) };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static void make_key(void) { pthread_key_create(&key, free); }

int64_t cpu_gemm_workspace(void) { return ((int64_t)sizeof(workspace) + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE; }

// my_workspace returns the thread's workspace, allocated when it is first needed and freed when the thread ends, or
// NULL if there is no memory.
static workspace *my_workspace(void) {
	pthread_once(&once, make_key);
	workspace *w = pthread_getspecific(key);
	if (w) return w;
	size_t bytes = (size_t)cpu_gemm_workspace();
	w = aligned_alloc(LARGE_PAGE, bytes);
	if (!w) return NULL;
#if defined(MADV_HUGEPAGE)
	madvise(w, bytes, MADV_HUGEPAGE);
#endif
	pthread_setspecific(key, w);
	return w;
}

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t parts(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t up(int64_t a, int64_t b) { return parts(a, b) * b; }

// A plan says how a product is divided.
typedef struct plan {
	cpu_gemm_args g;
	const gemm_level *level;
	int64_t size, c_size;  // bytes of an element
	int64_t per_unit;      // elements along k
	int64_t blocks, depth; // of k: number of k-blocks, and elements of each but the last
	int64_t second;        // k-blocks of the second pair of operands, which follow, of deepest elements each
	int64_t deepest;
	int64_t joined; // the second pair's units behind the units of the last k-block, which then has room for all of them
	int64_t rows, columns; // of a tile
	int64_t strip, panels; // rows of a strip; panels of B that have places
	int64_t down, tiles;
	const gemm_unit *turned; // all of A as panels, if the operands change places
	void (*run)(struct plan *);
	_Atomic int64_t claimed;
} plan;

// A step is a k-block of a strip.
typedef struct {
	int64_t tile, block, strip;
} step;

// tile_rows returns the rows of a step's tile from its strip on.
static int64_t tile_rows(const plan *p, step s) {
	return min(p->rows, p->g.m - s.tile % p->down * p->rows) - s.strip * p->strip;
}

// An operand is A or B of one of the pairs, and the part of k that a k-block has.
typedef struct {
	const char *at;
	int64_t stride; // elements
	int64_t k, length;
} operand;

static operand operand_of(const plan *p, int64_t block, int is_b) {
	const cpu_gemm_args *g = &p->g;
	if (block < p->blocks) {
		int64_t k = block * p->depth;
		return (operand){(const char *)(is_b ? g->b : g->a), is_b ? g->ldb : g->lda, k, min(p->depth, g->k - k)};
	}
	int64_t k = (block - p->blocks) * p->deepest;
	return (operand){(const char *)(is_b ? g->b2 : g->a2), is_b ? g->ldb2 : g->lda2, k, min(p->deepest, g->k2 - k)};
}

static gemm_source a_part(const plan *p, step s, int64_t block) {
	operand a = operand_of(p, block, 0);
	int64_t m = s.tile % p->down * p->rows + s.strip * p->strip;
	return (gemm_source){
		.at = a.at + (p->g.trans_a ? a.k * a.stride + m : m * a.stride + a.k) * p->size,
		.stride = a.stride * p->size,
		.lanes = min(p->strip, tile_rows(p, s)), .k = a.length,
		.along_k = !p->g.trans_a,
	};
}

// b_part returns the panel of a step that starts at a column of its tile.
static gemm_source b_part(const plan *p, step s, int64_t block, int64_t column) {
	operand b = operand_of(p, block, 1);
	int64_t n = s.tile / p->down * p->columns, left = min(p->columns, p->g.n - n) - column;
	n += column;
	return (gemm_source){
		.at = b.at + (p->g.trans_b ? n * b.stride + b.k : b.k * b.stride + n) * p->size,
		.stride = b.stride * p->size,
		.lanes = min(left, p->level->columns), .k = b.length,
		.along_k = p->g.trans_b,
	};
}

// A source is what a step packs of an operand, and what follows it of the second pair, if that is joined.
typedef struct {
	gemm_source first, joined;
} source;

static int joins(const plan *p, step s) { return p->joined && s.block == p->blocks - 1; }

static source a_source(const plan *p, step s) {
	return (source){a_part(p, s, s.block), joins(p, s) ? a_part(p, s, p->blocks) : (gemm_source){0}};
}

static source b_source(const plan *p, step s, int64_t column) {
	return (source){b_part(p, s, s.block, column), joins(p, s) ? b_part(p, s, p->blocks, column) : (gemm_source){0}};
}

// A feed packs a source little by little, over a number of turns, and at the end what is joined to it, which is little.
typedef struct {
	const plan *p;
	gemm_source src, joined;
	gemm_unit *dst;
	int is_b;
	int64_t lines, group;       // of the source; packed at once
	int64_t asked, due, packed; // lines
	int64_t turns, credit;
	gemm_walk *walk;
} feed;

static feed begin(const plan *p, source of, gemm_unit *dst, int is_b, int64_t turns, gemm_walk *walk) {
	gemm_source src = of.first;
	*walk = (gemm_walk){.at = src.at, .stride = src.stride, .length = gemm_length(&src) * p->size};
	return (feed){
		.p = p, .src = src, .joined = of.joined, .dst = dst, .is_b = is_b, .turns = turns, .walk = walk,
		.lines = gemm_lines(&src),
		.group = !src.along_k ? GEMM_GROUP * p->per_unit : is_b ? GEMM_GROUP : p->level->group,
	};
}

static void pack_at(const feed *f, gemm_source s, int64_t lane, int64_t unit) {
	const gemm_level *l = f->p->level;
	if (f->is_b) l->pack_b(f->dst + unit * l->columns + lane, s, f->p->g.type);
	else l->pack_a(f->dst + lane * GEMM_STRIDE + unit * l->side, s, f->p->g.type);
}

static void pack_to(feed *f, int64_t line) {
	if (line == f->packed) return;
	gemm_source s = f->src;
	int64_t lane = 0, unit = 0;
	s.at += f->packed * s.stride;
	if (s.along_k) lane = f->packed, s.lanes = line - f->packed;
	else unit = f->packed / f->p->per_unit, s.k = line - f->packed;
	pack_at(f, s, lane, unit);
	f->packed = line;
	// Packing writes whole groups: what is joined comes after all that it could write over.
	if (line == f->lines && f->joined.k > 0) pack_at(f, f->joined, 0, parts(f->src.k, f->p->per_unit));
}

// turn packs what is due, and lets the walk prefetch one more group.
static void turn(feed *f) {
	if (f->packed == f->lines) return;
	for (f->credit += f->lines; f->credit >= f->turns; f->credit -= f->turns) f->due++;
	int64_t ask = min(f->due + f->group, f->lines);
	f->walk->lines += ask - f->asked;
	f->asked = ask;
	pack_to(f, f->due == f->lines ? f->lines : f->due / f->group * f->group);
}

// fill packs a whole source at once.
static void fill(const plan *p, source of, gemm_unit *dst, int is_b) {
	gemm_walk walk;
	feed f = begin(p, of, dst, is_b, 1, &walk);
	pack_to(&f, f.lines);
}

// keeps_partial says whether C cannot hold the sums of the k-blocks so far exactly.
static int keeps_partial(const plan *p) { return p->g.c_type != F32 && p->blocks + p->second > 1; }

// target returns where the sums of a panel go: to C, or to the partial sums.
static gemm_target target(const plan *p, workspace *w, step s, int64_t column, int64_t width) {
	const cpu_gemm_args *g = &p->g;
	int64_t m = s.tile % p->down * p->rows + s.strip * p->strip, n = s.tile / p->down * p->columns + column;
	int last = s.block == p->blocks + p->second - 1;
	int64_t stride = p->columns + PARTIAL_GAP;
	float *partial = keeps_partial(p) ? w->partial + s.strip * p->strip * stride + column : NULL;
	if (partial && !last)
		return (gemm_target){.c = (char *)partial, .stride = 4 * stride, .type = F32, .add = s.block > 0,
			.alpha = g->alpha};
	gemm_target to = {
		.c = (char *)g->c + (m * g->ldc + n) * p->c_size, .stride = g->ldc * p->c_size,
		.type = g->c_type, .add = g->accumulate || (!partial && s.block > 0), .alpha = g->alpha,
		.partial = partial, .partial_stride = partial ? stride : 0,
	};
	if (last) {
		to.act = g->act, to.pre_stride = g->n * p->c_size;
		if (g->pre) to.pre = (char *)g->pre + (m * g->n + n) * p->c_size;
	}
	if (g->bias && (partial ? last : s.block == p->blocks - 1)) { // which a second pair does not change
		for (int64_t i = 0; i < width; i++) w->bias[i] = element((void *)g->bias, n + i, g->type);
		to.bias = w->bias;
	}
	return to;
}

static step claim(plan *p) { return (step){.tile = atomic_fetch_add(&p->claimed, 1)}; }

static step after(plan *p, step s) {
	if (tile_rows(p, s) > p->strip) return (step){s.tile, s.block, s.strip + 1};
	if (s.block + 1 < p->blocks + p->second) return (step){s.tile, s.block + 1, 0};
	return claim(p);
}

// panel returns the place of a panel of B, counted over all k-blocks.
static gemm_unit *panel(const plan *p, workspace *w, int64_t i) {
	return w->b + i % p->panels * p->level->columns * GEMM_DEPTH;
}

// next_panel returns what is packed while the panel at a column is multiplied: nothing if the strips before have.
static source next_panel(const plan *p, step now, step next, int64_t column) {
	if (column < min(p->columns, p->g.n - now.tile / p->down * p->columns))
		return now.strip == 0 ? b_source(p, now, column) : (source){0};
	return next.tile < p->tiles && next.strip == 0 ? b_source(p, next, 0) : (source){0};
}

// run executes steps until no tile is left.
static void run(plan *p) {
	const gemm_level *l = p->level;
	workspace *w = my_workspace();
	if (!w) return; // other threads will do its work
	step now = claim(p);
	if (now.tile >= p->tiles) return;
	if (l->begin) l->begin();
	int in_a = 0;      // which of the two buffers is in use
	int64_t first = 0; // panel of this k-block
	fill(p, a_source(p, now), w->a[in_a], 0);
	fill(p, b_source(p, now, 0), panel(p, w, first), 1);
	for (;;) {
		int64_t n = now.tile / p->down * p->columns, columns = min(p->columns, p->g.n - n), in_b = first;
		gemm_source a = a_part(p, now, now.block);
		int64_t units = parts(a.k, p->per_unit) + (joins(p, now) ? p->joined : 0), kernels = parts(a.lanes, l->rows);
		step next = after(p, now);
		int more = next.tile < p->tiles;
		gemm_walk walks[GEMM_WALKS];
		feed next_a = begin(p, more ? a_source(p, next) : (source){0}, w->a[!in_a], 0,
			kernels * parts(columns, l->columns), &walks[0]);
		for (int64_t column = 0; column < columns; column += l->columns, in_b++) {
			int64_t width = min(l->columns, columns - column);
			feed next_b = begin(p, next_panel(p, now, next, column + l->columns), panel(p, w, in_b + 1), 1, kernels,
				&walks[1]);
			if (now.strip > 0 && column + l->columns < columns)
				walks[1] = (gemm_walk){.at = (char *)panel(p, w, in_b + 1), .length = 4 * l->columns * units, .lines = 1};
			gemm_target to = target(p, w, now, column, width);
			for (int64_t i = 0; i < a.lanes; i += l->rows) {
				int64_t rows = min(l->rows, a.lanes - i);
				turn(&next_a);
				turn(&next_b);
				walks[2] = (gemm_walk){.at = to.c, .stride = to.stride, .length = width * size_of(to.type), .lines = rows};
				l->product(w->sums, to, w->a[in_a] + i * GEMM_STRIDE, panel(p, w, in_b), units, rows, width, walks);
				to = gemm_below(to, l->rows);
			}
		}
		if (!more) break;
		if (next.strip == 0) first = in_b;
		in_a = !in_a;
		now = next;
	}
	if (l->end) l->end();
}

// turned_panel returns the place of a panel of A, which has a strip's rows as columns.
static int64_t turned_panel(const plan *p, step s) {
	return (s.strip * (p->blocks + p->second) + s.block) * p->level->columns * GEMM_DEPTH;
}

// decode computes the values of n columns of B, which are rows of codes, from one on.
static void decode(const plan *p, float *to, int64_t column, int64_t n) {
	tensor values = {.at = (uintptr_t)to, .rows = n, .cols = p->g.k, .stride = p->g.k, .type = p->g.type};
	tensor codes = {.at = p->g.b + column * p->g.ldb, .rows = n, .cols = p->g.k, .stride = p->g.k, .type = p->g.coded};
	cpu_dequantize_rows(values, codes, (tensor){0});
}

// run_turned computes tiles of a product of few rows and B transposed, until none is left, as Cᵀ = B·Aᵀ: B, which is
// large then, is multiplied as it lies in memory, or at its edges from a copy, and only A is packed. The sums are the
// same.
static void run_turned(plan *p) {
	const gemm_level *l = p->level;
	workspace *w = my_workspace();
	if (!w) return; // other threads will do its work
	if (l->begin) l->begin();
	for (step s = claim(p); s.tile < p->tiles; s = claim(p)) {
		int64_t n = s.tile * p->columns, columns = min(p->columns, p->g.n - n);
		for (int64_t column = 0; column < columns; column += l->columns) {
			if (p->g.coded) decode(p, w->partial + TURNED, n + column, min(l->columns, columns - column));
			for (s.block = 0; s.block < p->blocks + p->second; s.block++) {
				source of = b_source(p, s, column);
				if (p->g.coded && s.block < p->blocks) {
					of.first.at = (const char *)(w->partial + TURNED) + s.block * p->depth * p->size;
					of.first.stride = p->g.k * p->size;
				}
				gemm_source b = of.first;
				int64_t units = parts(b.k, p->per_unit) + (joins(p, s) ? p->joined : 0);
				int next = column + 2 * l->columns <= columns && !joins(p, s) && !p->g.coded;
				if (b.lanes < l->columns || b.k % (GEMM_GROUP * p->per_unit) > 0 || joins(p, s)) {
					fill(p, of, w->a[0], 0);
					b.at = (const char *)w->a[0], b.stride = GEMM_STRIDE * sizeof(gemm_unit), next = 0;
				}
				for (s.strip = 0; s.strip * p->strip < p->g.m; s.strip++, next = 0)
					l->turned(w->sums, target(p, w, s, column, b.lanes), b.at, b.stride, p->turned + turned_panel(p, s), units,
						min(p->strip, p->g.m - s.strip * p->strip), b.lanes, next);
				s.strip = 0;
			}
		}
	}
	if (l->end) l->end();
}

// turn_operands plans run_turned, and packs A for all threads. It returns 0 if there is no room for that, or if the
// level cannot, or if there are so many rows that packing B pays.
static int turn_operands(plan *p, workspace *w, int64_t threads) {
	const gemm_level *l = p->level;
	const int64_t blocks = p->blocks + p->second, strips = parts(p->g.m, l->columns);
	if (!l->turned || p->g.m > TURNED_ROWS || p->g.trans_a || !p->g.trans_b || blocks * strips > TILE_COLUMNS / l->columns)
		return 0;
	if (p->g.coded && l->columns * p->g.k * p->size > (int64_t)sizeof(float) * (PARTIAL - TURNED)) return 0;
	p->run = run_turned;
	p->turned = w->b;
	p->strip = l->columns, p->rows = strips * l->columns, p->down = 1;
	p->columns = min(up(parts(p->g.n, 4 * threads), l->columns), TURNED_COLUMNS);
	p->tiles = parts(p->g.n, p->columns);
	for (step s = {0}; s.strip < strips; s.strip++)
		for (s.block = 0; s.block < blocks; s.block++) fill(p, a_source(p, s), w->b + turned_panel(p, s), 1);
	return 1;
}

static void run_item(void *arg, int64_t lo, int64_t hi) {
	plan *p = arg;
	for (int64_t i = lo; i < hi; i++) p->run(p);
}

// cut chooses the tiles: a few large ones pack least, but every thread needs its share. It tries few of the ways to cut
// both rows and columns into many. No sum depends on it.
static void cut(plan *p, int64_t threads) {
	const gemm_level *l = p->level;
	const int partial = keeps_partial(p);
	double min_cost = 0;
	int64_t m = p->g.m, n = p->g.n, max_rows = partial ? PARTIAL_ROWS : TILE_ROWS, down = parts(m, max_rows);
	for (int64_t d = down; d < down + 4 * threads; d += 1 + (d - down) / 4) {
		int64_t rows = min(up(parts(m, d), l->rows), max_rows), max_columns = TILE_COLUMNS;
		if (partial) max_columns = min(max_columns, (PARTIAL / rows - PARTIAL_GAP) / GEMM_COLUMNS * GEMM_COLUMNS);
		int64_t across = parts(n, max_columns);
		for (int64_t a = across; a <= across + 2 * threads / (d - down + 1); a++) {
			int64_t columns = up(parts(n, a), l->columns);
			int64_t rounds = parts(parts(m, rows) * parts(n, columns), threads);
			double cost = (double)rounds * ((double)rows * columns + l->packing * (rows + columns));
			if (min_cost > 0 && cost >= min_cost) continue;
			min_cost = cost, p->rows = rows, p->columns = columns;
		}
	}
	// If a tile is one strip, its panels need not be kept.
	p->strip = up(parts(p->rows, parts(p->rows, STRIP_ROWS)), l->rows);
	p->panels = p->strip < p->rows ? parts(p->columns, l->columns) + 1 : 2;
	p->down = parts(m, p->rows);
	p->tiles = p->down * parts(n, p->columns);
}

// run_alone computes tiles of a product of rows that are alone, until none is left: as dot products, whose order does
// not depend on the number of rows, with lines of B that stay in a cache.
static void run_alone(plan *p) {
	workspace *w = my_workspace();
	if (!w) return; // other threads will do its work
	for (step s = claim(p); s.tile < p->tiles; s = claim(p)) {
		const int64_t n = s.tile * p->columns, columns = min(p->columns, p->g.n - n);
		cpu_gemm_args g = p->g;
		if (g.coded) {
			decode(p, w->partial, n, columns);
			g.b = (uintptr_t)w->partial - n * g.k * p->size, g.ldb = g.k;
		}
		p->level->few(&g, n, n + columns);
	}
}

// plan_alone plans run_alone. It returns 0 if B is coded and k so long that the values of a few lines have no room.
static int plan_alone(plan *p, int64_t threads) {
	enum { CHUNK = 64 << 10, LINES = 8 }; // bytes of B; lines at least
	const int64_t bytes = p->g.k * p->size + 1;
	p->run = run_alone;
	p->columns = up(min(CHUNK / bytes, parts(p->g.n, 4 * threads)) + 1, LINES);
	p->tiles = parts(p->g.n, p->columns);
	return !p->g.coded || LINES * bytes <= (int64_t)(sizeof(float) * PARTIAL);
}

static void few(void *arg, int64_t lo, int64_t hi) {
	const cpu_gemm_args *g = arg;
	gemm_level_for(g->type, cpu_level())->few(g, lo, hi);
}

int cpu_gemm(const cpu_gemm_args *args) {
	plan p = {.g = *args, .level = gemm_level_for(args->type, cpu_level()), .run = run};
	if (p.g.m <= 0 || p.g.n <= 0) return 0;
	p.size = size_of(p.g.type), p.c_size = size_of(p.g.c_type);
	if (p.g.m <= GEMM_FEW && !p.g.alone && !p.g.trans_a && p.g.trans_b) {
		enum { CHUNK = 64 << 10 }; // bytes of B
		cpu_parallel(few, &p.g, p.g.n, CHUNK / (p.g.k * p.size + 1) + 1);
		return 0;
	}
	workspace *w = my_workspace();
	if (!w) return ENOMEM;
	p.per_unit = p.level->pairs ? 2 : 1;
	int64_t units = parts(p.g.k, p.per_unit);
	p.blocks = units > GEMM_DEPTH ? parts(units, GEMM_DEPTH) : 1;
	p.depth = up(parts(units, p.blocks), GEMM_GROUP) * p.per_unit;
	p.deepest = GEMM_DEPTH * p.per_unit;
	int64_t last = units - (p.blocks - 1) * p.depth / p.per_unit, more = parts(p.g.k2, p.per_unit);
	// AVX-512 packs bf16 that becomes fp32 two groups at a time.
	if (last % GEMM_GROUP == 0 && last + up(more, 2 * GEMM_GROUP) <= GEMM_DEPTH) p.joined = more;
	else p.second = parts(p.g.k2, p.deepest);
	int64_t threads = cpu_threads();
	int lines = p.g.alone && !p.g.trans_a && p.g.trans_b && !p.level->turned ? plan_alone(&p, threads) :
		turn_operands(&p, w, threads);
	if (p.g.coded && !lines) return ENOTSUP;
	if (!lines) cut(&p, threads);
	cpu_parallel(run_item, &p, min(threads, p.tiles), 1);
	p.run(&p); // the tiles left if a thread had no memory for its workspace
	return 0;
}

typedef struct {
	tensor sums;
	matrix x;
} sums_job;

enum { SUMS = 512 }; // columns summed at once

// At most SUMS columns from lo on.
static void sum_columns(void *arg, int64_t lo, int64_t hi) {
	const sums_job *j = arg;
	const gemm_level *l = gemm_level_for(j->x.type, cpu_level());
	const int64_t size = size_of(j->x.type), sum_size = size_of(j->sums.type);
	float sums[SUMS] __attribute__((aligned(64))) = {0};
	l->sum_columns(sums, (const char *)j->x.at + lo * size, j->x.stride * size, j->x.type, j->x.rows, hi - lo);
	gemm_target to = {.c = (char *)j->sums.at + lo * sum_size, .type = j->sums.type, .add = 1, .alpha = 1};
	for (int64_t i = 0; i < hi - lo; i += l->columns, to.c += l->columns * sum_size)
		l->store(sums + i, to, 1, min(l->columns, hi - lo - i));
}

void cpu_column_sums(tensor sums, matrix x) {
	sums_job j = {sums, x};
	cpu_parallel(sum_columns, &j, x.cols, SUMS);
}
