// The AMX micro-kernel: 32 × 32 sums of bf16 products in four tiles. Everything else is as without tiles.

BEGIN_TARGET("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,amx-tile,amx-bf16")

#include "tiles.h"

enum { AMX_ROWS = 2 * TILE };

static void product_amx(float *sums, gemm_target to, const gemm_unit *a, const gemm_unit *b, int64_t units,
	int64_t rows, int64_t width, gemm_walk walks[GEMM_WALKS]) {
	IN_MEMORY();
	_tile_zero(0);
	_tile_zero(1);
	_tile_zero(2);
	_tile_zero(3);
	for (int64_t k = 0; k < units; k += TILE) {
		for (int i = 0; i < 4 * GEMM_WALKS; i++) gemm_step(&walks[i % GEMM_WALKS]);
		_tile_loadd(4, a + k, 4 * GEMM_STRIDE);
		_tile_loadd(5, a + k + TILE * GEMM_STRIDE, 4 * GEMM_STRIDE);
		_tile_loadd(6, b + k * GEMM_COLUMNS, 4 * GEMM_COLUMNS);
		_tile_loadd(7, b + k * GEMM_COLUMNS + TILE, 4 * GEMM_COLUMNS);
		_tile_dpbf16ps(0, 4, 6);
		_tile_dpbf16ps(1, 4, 7);
		_tile_dpbf16ps(2, 5, 6);
		_tile_dpbf16ps(3, 5, 7);
	}
	_tile_stored(0, sums, 4 * GEMM_COLUMNS);
	_tile_stored(1, sums + TILE, 4 * GEMM_COLUMNS);
	_tile_stored(2, sums + TILE * GEMM_COLUMNS, 4 * GEMM_COLUMNS);
	_tile_stored(3, sums + TILE * GEMM_COLUMNS + TILE, 4 * GEMM_COLUMNS);
	store_avx512bf16(sums, to, rows, width);
}

// turn_tiles transposes two tiles one below the other, 16 columns of 32 rows.
static void turn_tiles(float *to, float *from) {
	for (int i = 0; i < 2; i++) {
		vu16 r[TILE];
		for (int y = 0; y < TILE; y++) memcpy(&r[y], from + (i * TILE + y) * GEMM_COLUMNS, sizeof r[y]);
		transpose_avx512bf16(r);
		for (int y = 0; y < TILE; y++) memcpy(to + y * GEMM_COLUMNS + i * TILE, &r[y], sizeof r[y]);
	}
}

static void turned_amx(float *sums, gemm_target to, const char *b, int64_t stride, const gemm_unit *a, int64_t units,
	int64_t rows, int64_t width, int next) {
	float turned[AMX_ROWS * GEMM_COLUMNS] __attribute__((aligned(64)));
	const char *ahead = b + AMX_ROWS * stride;
	IN_MEMORY();
	_tile_zero(0);
	_tile_zero(1);
	_tile_zero(2);
	_tile_zero(3);
	for (int64_t k = 0; k < units; k += TILE, ahead += 4 * TILE) {
		for (int64_t i = 0; next && i < AMX_ROWS; i++) __builtin_prefetch(ahead + i * stride, 0, 2);
		_tile_loadd(4, b + 4 * k, stride);
		_tile_loadd(5, b + 4 * k + TILE * stride, stride);
		_tile_loadd(6, a + k * GEMM_COLUMNS, 4 * GEMM_COLUMNS);
		_tile_dpbf16ps(0, 4, 6);
		_tile_dpbf16ps(2, 5, 6);
		if (rows <= TILE) continue;
		_tile_loadd(7, a + k * GEMM_COLUMNS + TILE, 4 * GEMM_COLUMNS);
		_tile_dpbf16ps(1, 4, 7);
		_tile_dpbf16ps(3, 5, 7);
	}
	_tile_stored(0, turned, 4 * GEMM_COLUMNS);
	_tile_stored(2, turned + TILE * GEMM_COLUMNS, 4 * GEMM_COLUMNS);
	turn_tiles(sums, turned);
	if (rows > TILE) {
		_tile_stored(1, turned + TILE, 4 * GEMM_COLUMNS);
		_tile_stored(3, turned + TILE * GEMM_COLUMNS + TILE, 4 * GEMM_COLUMNS);
		turn_tiles(sums + TILE * GEMM_COLUMNS, turned + TILE);
	}
	store_avx512bf16(sums, to, rows, width);
}

static double peak_amx(int64_t rounds) {
	begin_amx();
	for (int64_t k = 0; k < rounds; k++) {
		_tile_dpbf16ps(0, 4, 6);
		_tile_dpbf16ps(1, 4, 7);
		_tile_dpbf16ps(2, 5, 6);
		_tile_dpbf16ps(3, 5, 7);
	}
	end_amx();
	return 2.0 * 4 * TILE * TILE * 2 * TILE * (double)rounds;
}

static const gemm_level gemm_amx = {
	.rows = AMX_ROWS, .columns = GEMM_COLUMNS, .side = 1, .group = GEMM_GROUP, .pairs = 1, .packing = 64,
	.pack_a = pack_a_avx512bf16, .pack_b = pack_b_avx512bf16, .product = product_amx, .turned = turned_amx,
	.store = store_avx512bf16,
	.few = few_avx512bf16, .sum_columns = sum_columns_avx512bf16, .peak = peak_amx,
	.begin = begin_amx, .end = end_amx,
};

END_TARGET
