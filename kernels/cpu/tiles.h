// The tile registers of AMX.
#ifndef RESTYLE_TILES_H
#define RESTYLE_TILES_H

enum { TILE = 16 }; // rows of a tile, and units of 32 bits in each

// The intrinsics do not tell the compiler everything that they read: gcc 12's _tile_loadconfig names 8 of the 64 bytes,
// and _tile_loadd none. So the configuration is a constant, which no optimization takes apart, and what tiles are
// loaded from is stored in memory before.
#define IN_MEMORY() __asm__ volatile("" ::: "memory")

// begin_amx sets all eight tiles to the maximum size.
static void begin_amx(void) {
	static const struct {
		uint8_t palette, start, reserved[14];
		uint16_t row_bytes[16];
		uint8_t rows[16];
	} __attribute__((aligned(64))) config = {
		.palette = 1,
		.row_bytes = {4 * TILE, 4 * TILE, 4 * TILE, 4 * TILE, 4 * TILE, 4 * TILE, 4 * TILE, 4 * TILE},
		.rows = {TILE, TILE, TILE, TILE, TILE, TILE, TILE, TILE},
	};
	_tile_loadconfig(&config);
}

static void end_amx(void) { _tile_release(); }

#endif
