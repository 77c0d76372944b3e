// product_wgmma.cu for quantized weights, whose values are computed in shared memory: codes of b are copied, and two
// more warpgroups compute their values, each the values of every second piece of codes. See wgmma_loop.cuh for the main
// loop and its macros. Further ones:
//
//   BITS …        how weights are stored: see quantized.cuh
//   PIECES        pieces of codes in shared memory at a time, each of 64 bytes per row of b in the tile
#define TURNS 0 // registers are too few for more
#include "wgmma_loop.cuh"
#include "quantized.cuh"

constexpr int CONVERTERS = 2; // warpgroups
constexpr int PIECE = TILE_N * 64, PIECE_STEPS = BITS == 8 ? 1 : 2;
static_assert(BLOCK_DIM == (3 + CONVERTERS) * 128 && TRANS_B && !TRANS_A && !GROUPED && PIECE % 1024 == 0, "");

// Scales are the scales of a thread's columns if a row of b has one, so that it follows the product.
constexpr bool ONE_SCALE = BITS == 8 && !FINE;
struct Scales {
	static constexpr bool AFTER_PARTS = false;
	const unsigned char *w;
	float at[ONE_SCALE ? TILE_N / 4 : 1];

	Scales(const unsigned char *w) : w(w) {}
	void load(const Job &job, const Place &place) {
#pragma unroll
		for (int i = 0; ONE_SCALE && i < TILE_N / 4; i++) {
			const int row = rowOfB(place.column, threadIdx.x % 4 * 2 + i / 2 * 8 + i % 2, job.n);
			at[i] = *(const float *)(w + row * rowOf(job.depth));
		}
	}
	float (&multiply(float (&sums)[TILE_N / 2], float (&)[TILE_N / 2], int) const)[TILE_N / 2] {
#pragma unroll
		for (int i = 0; ONE_SCALE && i < TILE_N / 2; i++) sums[i] = __fmul_rn(sums[i], at[i / 4 * 2 + i % 2]);
		return sums;
	}
};

// A Converter is a thread of the warpgroup that computes values of b from codes, in each step the values of eight codes
// of some rows of a tile. 4-bit codes are multiplied by their scales, and the products rounded. 8-bit codes are exact.
// Values of fine groups are computed in float, and rounded.
struct Converter {
	static constexpr int ROWS = TILE_N / 16;
	const unsigned char *const w;
	const int depth, n;
	const int lane = threadIdx.x % 128;
	int column = 0;
	Scaled of[ROWS]; // 4 bits
	f16 scale[ROWS]; // of the next group
	unsigned char zero[ROWS];
	unsigned codes[ROWS][2];
	// fine groups: the scales and offsets of the codes of a step, and their high bits
	float scales[ROWS], offsets[ROWS];
	unsigned more[ROWS][2];

	Converter(const unsigned char *w, int depth, int n) : w(w), depth(depth), n(n) {}

	// fetch starts loading the scales of a group, if it is there, and take makes them the scales of the codes.
	void fetch(int group) {
		if constexpr (BITS == 8 || FINE) return;
		if (group >= groupsOf(depth)) return;
#pragma unroll
		for (int i = 0; i < ROWS; i++) {
			const unsigned char *const head = w + rowOfB(column, lane / 8 + 16 * i, n) * rowOf(depth);
			scale[i] = ((const f16 *)head)[group];
			zero[i] = ZEROS ? head[zerosAt(depth) + group] : 8;
		}
	}
	void take() {
#pragma unroll
		for (int i = 0; i < ROWS; i++) of[i] = Scaled(scale[i], zero[i]);
	}
	// takeFine loads what values of fine groups in a step are made of. Registers are too few to do so earlier.
	void takeFine(int step) {
		const int at = lane % 8 * 8; // of this thread's codes in the step
#pragma unroll
		for (int i = 0; i < ROWS; i++) {
			const unsigned char *const row = w + rowOfB(column, lane / 8 + 16 * i, n) * rowOf(depth);
			const int group = (64 * step + at) / max(GROUP, 1);
			scales[i] = scaleOf(row, depth, group), offsets[i] = offsetOf(row, depth, group);
			const unsigned char *const high = row + headOf(depth) + lowBytes(depth) + step / 2 * HIGH_BYTES + highByte(at);
#pragma unroll
			for (int j = 0; j < 2; j++) more[i][j] = HIGH ? ((const unsigned *)high)[j] >> highShift(at) : 0;
		}
	}
	// finePair returns the values of codes 2j and 2j + 1 of row i.
	unsigned finePair(int i, int j, int half) const {
		const unsigned four = BITS == 8 ? codes[i][j / 2] ^ 0x80808080 : fourCodes(codes[i][j / 2], more[i][j / 2], half);
		return pack(fineValue(four, j % 2 * 2, scales[i], offsets[i]), fineValue(four, j % 2 * 2 + 1, scales[i], offsets[i]));
	}
	// pair returns the values of two codes of row i of its rows, which x has at the lower ends of both halves, with
	// 0x43 above: the bits of 128 + a code of 4 bits, or of the low seven of a signed code of 8 bits. For the highest
	// bit they are the bits of 128, or of 256 if it is set. pair4 and pair8 do so without the 0x43, for codes that stay
	// two bytes apart.
	unsigned pair(unsigned x, int i) const {
		if (BITS == 8) return addPairs(x & 0xFF80FF80, 0xBF80BF80, x & 0xFF7FFF7F);
		return of[i].pair(x & 0xFF0FFF0F);
	}
	// read reads the codes of a step, and write writes their values. half: which bits they are, the low or the high ones
	void read(const char *piece) {
#pragma unroll
		for (int i = 0; i < ROWS; i++) readRow(piece, i);
	}
	void readRow(const char *piece, int i) { tileRead(codes[i], piece + swizzled(lane * 8, 64) + 16 * 64 * i); }
	void write(const char *piece, char *to, int half) {
#pragma unroll
		for (int i = 0; i < ROWS; i++) {
			if (FINE) readRow(piece, i);
			unsigned pairs[4];
#pragma unroll
			for (int j = 0; j < 4; j++) {
				const unsigned four = codes[i][j / 2] >> (BITS == 4 ? 4 * half : 0);
				pairs[j] = FINE ? finePair(i, j, half) : pair(permute(four, 0x43434343, j % 2 ? 0x4342 : 0x4140), i);
			}
			tileWrite(to + swizzled(lane * 16, 128) + 16 * 128 * i, pairs);
		}
		tileFence();
	}
};

// The parameters are Job's, but b maps the codes of w.
extern "C" __global__ void __launch_bounds__(BLOCK_DIM, 1) product_wgmma_quantized(const __grid_constant__ TileMap a,
	const __grid_constant__ TileMap b, const __grid_constant__ TileMap cMap, const __grid_constant__ TileMap pre,
	C *c, long long cRow, const Half *bias, const unsigned char *w, float *parts, int m, int n, int depth, int partSteps,
	int keep, int add) {
	extern __shared__ uint4 memory[];
	const Job job{&a, &b, &cMap, &pre, c, cRow, bias, parts, m, n, depth, partSteps, keep, add};
	const Memory room(memory, PIECES * PIECE);
	char *const pieces = room.further;
	Barrier *const come = room.others, *const gone = come + PIECES; // a piece is there; it has been converted
	// a stage is filled by the thread that copies, and the warps of a converting warpgroup
	room.begin(job, 1 + 4, [&] {
#pragma unroll
		for (int i = 0; i < PIECES; i++) barrierInit(come + i, 1), barrierInit(gone + i, 4);
	});
	Tiles all(job, PIECE_STEPS, nullptr, 0);
	const int group = warpgroup();
	Ring<STAGES> ring;
	Ring<PIECES> piece;
	if (group == 2 + CONVERTERS) {
		giveRegisters<32>();
		// Two threads copy, so that codes do not wait for room for a.
		const bool copiesA = threadIdx.x % 128 == 0, copiesB = threadIdx.x % 128 == 32;
		Copier copier(job, room);
		for (int tile = blockIdx.x; (copiesA || copiesB) && all.has(tile); tile += gridDim.x) {
			const Place at(tile, all, n);
			if (copiesA) copier.copy(at, 0, [](char *, int, Barrier *) {});
			for (int step = 0; copiesB && step < at.steps; step += PIECE_STEPS, piece.next()) {
				Barrier *const there = come + piece.stage;
				barrierWait(gone + piece.stage, piece.parity ^ 1);
				barrierExpect(there, PIECE);
				copyTile(job, at, pieces + piece.stage * PIECE, PIECE, (at.begin + step) / PIECE_STEPS * 32, there);
			}
		}
		return;
	}
	if (group >= 2) {
		giveRegisters<88>();
		Converter converter(w, depth, n);
		int next = group - 2; // piece: each of the two has every second one
		ring.skip(next * PIECE_STEPS), piece.skip(next);
		for (int tile = blockIdx.x; all.has(tile); tile += gridDim.x) {
			const Place at(tile, all, n);
			const int end = at.steps / PIECE_STEPS, begin = at.begin / PIECE_STEPS;
			converter.column = at.column;
			converter.fetch(begin + next);
			for (; next < end; next += 2, piece.skip(2)) {
				if (BITS == 4 && !FINE) converter.take();
				converter.fetch(begin + next + 2);
				barrierWait(come + piece.stage, piece.parity);
				const char *const from = pieces + piece.stage * PIECE;
				if (!FINE) converter.read(from);
#pragma unroll
				for (int half = 0; half < PIECE_STEPS; half++, ring.next()) {
					if (FINE) converter.takeFine((begin + next) * PIECE_STEPS + half);
					barrierWait(room.empty + ring.stage, ring.parity ^ 1);
					converter.write(from, room.stages + ring.stage * STAGE + A_BYTES, half);
					__syncwarp();
					if (threadIdx.x % 32 == 0) barrierArrive(room.full + ring.stage);
				}
				if (threadIdx.x % 32 == 0) barrierArrive(gone + piece.stage);
				ring.skip(PIECE_STEPS);
			}
			next -= end;
		}
		return;
	}
	takeRegisters<136>();
	multiplyTiles<Forward<Scales>>(job, room, all, group, Scales(w));
}
