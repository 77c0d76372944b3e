// What only sm_90 has, on the emulated GPU: barriers with phases, copies of tiles, and products of a warpgroup. All of
// them happen as late as they may, so that a kernel that does not wait for them computes something else.
#include "emulator.h"

#include <map>
#include <vector>

// A tile_copy is a started copy of a tile. A tile that a thread stores is read when the thread waits for it.
struct tile_copy {
	tile_map map;
	int row, column;
	char *shared;
	int group;
};

// How a warpgroup multiplies: above these bits are the rows of a transposed operand's block.
enum { ADD = 1, TRANSPOSED_A = 2, TRANSPOSED_B = 4, OF_F16 = 8, OF_BYTES = 16, HELD_A = 32, BLOCK_ROWS = 64 };

// A product that a thread's warpgroup has started. It is computed when a thread waits for it.
struct group_product {
	void *d; // float, or int32_t of bytes
	int columns;
	const char *a, *b; // a is NULL if threads hold it
	int how;           // ADD and others
	int group;
	uint32_t held[4]; // the thread's part of a
	bool operator==(const group_product &o) const {
		return columns == o.columns && a == o.a && b == o.b && how == o.how && group == o.group;
	}
};

// What each thread has started, and the number of groups of each kind so far.
static struct {
	std::vector<tile_copy> stores;
	std::vector<uintptr_t> unfenced; // words of 16 bytes that it wrote since its last fence
	std::vector<group_product> products;
	int store_groups, product_groups;
} started[MAX_THREADS];

struct phased {
	int arrivals, missing; // of each phase, and still missing in this one
	int64_t bytes;         // announced and still missing
	int phase;
};
static std::map<uintptr_t, phased> barriers;
struct tile_coming {
	tile_copy copy;
	uintptr_t barrier;
};
static std::vector<tile_coming> coming;
static struct {
	int here, threads;
	uint32_t warps;
	uint64_t round;
} some[16];

void start_tiles() {
	barriers.clear(), coming.clear();
	memset(some, 0, sizeof some);
	for (int i = 0; i < threads; i++) {
		auto &f = started[i];
		f.stores.clear(), f.unfenced.clear(), f.products.clear(), f.store_groups = f.product_groups = 0;
	}
}

void check_stores() {
	if (!started[running].stores.empty()) end_with("ends without waiting for the tiles that it stores");
}

static phased &barrier_at(void *b) {
	const auto found = barriers.find((uintptr_t)b);
	if (found == barriers.end()) end_with("uses a barrier that is not initialized");
	return found->second;
}

static void end_phase(phased &p) {
	if (p.missing || p.bytes) return;
	p.missing = p.arrivals, p.phase++, changes++;
}

void barrier_init(void *b, int arrivals) {
	check_shared(b, 8, 8);
	barriers[(uintptr_t)b] = {arrivals, arrivals, 0, 0};
}

void barrier_arrive(void *b, int bytes) {
	phased &p = barrier_at(b);
	if (p.missing == 0) end_with("arrives at a barrier at which all have arrived");
	p.missing--, p.bytes += bytes;
	end_phase(p);
}

void tile_load(void *to, const void *map_, int row, int column, void *b) {
	const tile_map map = *(const tile_map *)map_;
	const size_t bytes = map.row_bytes() * map.tile_rows;
	check_shared(to, bytes, map.row_bytes() * 8), barrier_at(b);
	for (int r = 0; r < (int)map.tile_rows; r++) {
		if (const int n = map.inside(row + r, column)) access_of(map.at(row + r, column), n, EMULATED_READ);
	}
	memset(to, NAN_BYTE, bytes);
	coming.push_back({{map, row, column, (char *)to, 0}, (uintptr_t)b}), changes++;
}

// arrived does the copies of a barrier.
static void arrived(void *b) {
	phased &p = barrier_at(b);
	for (size_t i = 0; i < coming.size();) {
		if (coming[i].barrier != (uintptr_t)b) {
			i++;
			continue;
		}
		const tile_copy c = coming[i].copy;
		coming.erase(coming.begin() + i);
		for (int r = 0; r < (int)c.map.tile_rows; r++) {
			char line[128] = {};
			if (const int n = c.map.inside(c.row + r, c.column)) memcpy(line, c.map.at(c.row + r, c.column), n);
			for (int w = 0; w < c.map.row_bytes() / 16; w++) memcpy(c.map.place(c.shared, r, w), line + 16 * w, 16);
		}
		p.bytes -= c.map.row_bytes() * c.map.tile_rows;
		if (p.bytes < 0) end_with("copies more bytes than a barrier expects");
		end_phase(p);
	}
}

void barrier_wait(void *b, int parity) {
	sleep_until([&] {
		if ((barrier_at(b).phase & 1) == parity) arrived(b);
		return (barrier_at(b).phase & 1) != parity;
	});
}

void stmatrix(void *row, const uint32_t *r) {
	if ((uintptr_t)row % 16) end_with("stmatrix to a row whose address is no multiple of 16");
	access_of(row, 16, EMULATED_WRITE);
	const emulated_lanes *all = meet(~0u, r, 4);
	const int lane = running % 32;
	for (int t = 0; t < 4; t++) memcpy((char *)row + 4 * t, &all->given[lane % 8 * 4 + t][lane / 8], 4);
	started[running].unfenced.push_back((uintptr_t)row);
}

// Nothing checks which thread wrote what these read and write, but a tile that has not come is NaN.
void tile_read(uint32_t *to, const void *from) {
	check_shared(from, 8, 8);
	memcpy(to, from, 8);
}
void tile_matrices(uint32_t *r, const void *row) {
	check_shared(row, 16, 16);
	matrices(r, row, false);
}
void tile_write(void *to, const uint32_t *from) {
	check_shared(to, 16, 16);
	memcpy(to, from, 16);
	started[running].unfenced.push_back((uintptr_t)to);
}

void tile_fence() { started[running].unfenced.clear(); }

// check_fenced checks that no thread has written to a tile since its last fence.
static void check_fenced(const char *does, const void *tile, size_t bytes) {
	for (int i = 0; i < threads; i++) {
		for (const uintptr_t p : started[i].unfenced) {
			if (p - (uintptr_t)tile < bytes)
				end_with(does + (" a tile that " + thread_text(i)) + " wrote to without a fence since");
		}
	}
}

void tile_store(const void *map_, int row, int column, const void *from) {
	const tile_map map = *(const tile_map *)map_;
	const size_t bytes = map.row_bytes() * map.tile_rows;
	check_shared(from, bytes, map.row_bytes() * 8);
	check_fenced("stores", from, bytes);
	for (int r = 0; r < (int)map.tile_rows; r++) {
		if (const int n = map.inside(row + r, column)) access_of(map.at(row + r, column), n, EMULATED_WRITE);
	}
	started[running].stores.push_back({map, row, column, (char *)from, started[running].store_groups});
}
void tile_commit() { started[running].store_groups++; }
void tile_wait(int newest) {
	auto &f = started[running];
	size_t n = 0;
	for (; n < f.stores.size() && f.stores[n].group < f.store_groups - newest; n++) {
		const tile_copy &c = f.stores[n];
		for (int r = 0; r < (int)c.map.tile_rows; r++) {
			char line[128];
			for (int w = 0; w < c.map.row_bytes() / 16; w++) memcpy(line + 16 * w, c.map.place(c.shared, r, w), 16);
			if (const int bytes = c.map.inside(c.row + r, c.column)) memcpy(c.map.at(c.row + r, c.column), line, bytes);
		}
	}
	f.stores.erase(f.stores.begin(), f.stores.begin() + n);
}

// meet_some counts a thread at a barrier, and reports whether it was the last one.
static bool meet_some(int barrier, int count) {
	auto &s = some[barrier];
	if (s.here && s.threads != count) end_with("waits at a barrier for another number of threads than others");
	s.threads = count, s.warps |= 1u << running / 32;
	if (++s.here < count) return false;
	note_some(s.warps);
	s.here = 0, s.warps = 0, s.round++, changes++;
	return true;
}
void sync_some(int barrier, int count) {
	const uint64_t round = some[barrier].round;
	if (!meet_some(barrier, count)) sleep_until([&] { return some[barrier].round != round; });
}
void arrive_some(int barrier, int count) { meet_some(barrier, count); }

void group_multiply(void *d, int columns, const void *a, const void *b, int how) {
	auto &f = started[running];
	const bool held = how & HELD_A;
	f.products.push_back({d, columns, held ? NULL : (const char *)a, (const char *)b, how, f.product_groups, {}});
	if (held) memcpy(f.products.back().held, a, sizeof f.products.back().held);
}
void group_commit() { started[running].product_groups++, changes++; }

// operand reads 16 elements, or 32 signed bytes, of each of some rows of a tile. If it is transposed, these are 16 rows
// in memory, of blocks of 64 elements.
static void operand(std::vector<float> &to, int rows, const char *from, bool transposed, int how) {
	to.resize((how & OF_BYTES ? 32 : 16) * rows);
	const int lines = transposed ? rows / 64 * 16 : rows, words = transposed ? 8 : 2, block = how / BLOCK_ROWS * 128;
	for (int l = 0; l < lines; l++) {
		const char *const line = from + (transposed ? l / 16 * block + l % 16 * 128 : l * 128);
		check_fenced("multiplies", (const void *)((uintptr_t)line & -128ul), 128);
		for (int w = 0; w < words; w++) {
			uintptr_t p = (uintptr_t)line + 16 * w;
			p ^= (p >> 7 & 7) << 4;
			check_shared((void *)p, 16, 16);
			uint32_t word[4];
			memcpy(word, (void *)p, 16);
			for (int i = 0; how & OF_BYTES && i < 16; i++) to[32 * l + 16 * w + i] = (int8_t)(word[i / 4] >> i % 4 * 8);
			for (int i = 0; !(how & OF_BYTES) && i < 8; i++) {
				const int at = transposed ? (l / 16 * 64 + 8 * w + i) * 16 + l % 16 : 16 * l + 8 * w + i;
				to[at] = element(word[i / 2], i % 2, how & OF_F16);
			}
		}
	}
}

// held_operand is operand of 64 rows that the threads of a warpgroup hold: lane 4g + c has the words of columns 2c and
// 2c + 8 of rows g and g + 8.
static void held_operand(std::vector<float> &to, int first_thread) {
	const int each = started[first_thread].products[0].how & OF_BYTES ? 4 : 2; // elements of a word
	to.resize(8 * each * 64);
	for (int t = 0; t < 128; t++) {
		const group_product &p = started[first_thread + t].products[0];
		for (int i = 0; i < 4 * each; i++) {
			const int word = i / each, row = t / 32 * 16 + t % 32 / 4 + word % 2 * 8;
			const int column = (t % 4 + word / 2 * 4) * each + i % each;
			const uint32_t bits = p.held[word];
			to[8 * each * row + column] =
				each == 4 ? (float)(int8_t)(bits >> i % 4 * 8) : element(bits, i % 2, p.how & OF_F16);
		}
	}
}

template <typename T> static void add_to(T *d, T sum, bool add) { *d = add ? *d + sum : sum; }

// multiply computes the first product of a warpgroup, for all of its threads.
static void multiply(int first_thread) {
	auto *const group = started + first_thread;
	static std::vector<float> a, b;
	const group_product first = group->products[0];
	for (int t = 0; t < 128; t++) {
		if (group[t].products.empty() || !(group[t].products[0] == first))
			end_with("threads of a warpgroup multiply differently");
	}
	if (first.how & HELD_A) held_operand(a, first_thread);
	else operand(a, 64, first.a, first.how & TRANSPOSED_A, first.how);
	operand(b, first.columns, first.b, first.how & TRANSPOSED_B, first.how);
	const int depth = first.how & OF_BYTES ? 32 : 16;
	for (int t = 0; t < 128; t++) {
		void *const d = group[t].products[0].d;
		for (int i = 0; i < first.columns / 2; i++) {
			const int row = t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8, column = t % 4 * 2 + i % 2 + i / 4 * 8;
			double sum = 0; // exact for bytes; otherwise as mma's
			for (int k = 0; k < depth; k++) sum += (double)a[depth * row + k] * b[depth * column + k];
			if (first.how & OF_BYTES) add_to((int32_t *)d + i, (int32_t)sum, first.how & ADD);
			else add_to((float *)d + i, (float)sum, first.how & ADD);
		}
		group[t].products.erase(group[t].products.begin());
	}
}

void group_wait(int newest) {
	auto *const group = started + running / 128 * 128;
	const int until = started[running].product_groups - newest;
	sleep_until([&] {
		for (int t = 0; t < 128; t++) {
			if (group[t].product_groups < until) return false;
		}
		return true;
	});
	while (!group->products.empty() && group->products[0].group < until) multiply(running / 128 * 128);
}
