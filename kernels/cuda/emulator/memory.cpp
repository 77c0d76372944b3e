// Memory of the emulated GPU, and what is known about each byte: whether it was written, and which thread last wrote
// and read it. Each access of a kernel is checked against that.
#include "emulator.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

// Threads wait for each other at barriers; epochs are the times between them: each thread block starts one, and each of
// its barriers. A stamp tells when an access was and whose: its epoch, the meetings of its warp in it so far, and the
// thread, with the flags below. Stamps of epochs before the launch no longer matter.
typedef uint64_t stamp;
enum { THREAD_BITS = 10, CLOCK_BITS = 18, CLOCK_AT = 14 };
static const stamp ATOMIC = 1 << 10, NOT_WAITED_FOR = 1 << 11, SEVERAL_WARPS = 1 << 12, SEVERAL_BLOCKS = 1 << 13;
static uint32_t epoch, block_begin, launch_begin;
static uint32_t epoch_of(stamp s) { return s >> 32; }
static int thread_of(stamp s) { return s & (MAX_THREADS - 1); }

static bool watched; // whether accesses of this launch are checked against each other
static std::vector<std::pair<uint32_t, uint3>> blocks_begun; // thread blocks of the launch, by their first epochs

// Lanes of a warp meet in shuffles and the like. No lane continues before all are there, so each has read what it read
// before. What a lane wrote before is visible to the others only after a barrier of the warp. A warp's meetings in an
// epoch are numbered, and a stamp's clock is the number of the next one. For both kinds, READS and WRITES, this keeps
// the last meeting of all lanes, and for each lane the last meeting of some lanes that was over for another lane when
// it met this one. For each warp, it keeps how many meetings it had had when both waited at a barrier of some threads.
enum { READS, WRITES };
struct meetings {
	uint32_t next, all[2];
	bool partial; // whether lane is used
	uint32_t lane[2][32][32];
	uint32_t warp[32];
};
static meetings warps[MAX_THREADS / 32];

static stamp now() {
	const stamp clock = warps[running / 32].next & ((1 << CLOCK_BITS) - 1);
	return (stamp)epoch << 32 | clock << CLOCK_AT | running;
}

void next_epoch() {
	epoch++;
	for (int i = 0; i * 32 < threads; i++) {
		meetings &w = warps[i];
		w.next = 1, w.all[READS] = w.all[WRITES] = 0;
		memset(w.warp, 0, sizeof w.warp);
		if (std::exchange(w.partial, false)) memset(w.lane, 0, sizeof w.lane);
	}
}

void note_meeting(int warp, uint32_t here, bool all, bool barrier) {
	meetings &w = warps[warp];
	const uint32_t number = w.next++;
	for (int kind = READS; kind <= (barrier ? WRITES : READS); kind++) {
		if (all) {
			w.all[kind] = number;
			continue;
		}
		uint32_t joined[32] = {};
		for (int i = 0; i < 32; i++) {
			for (int k = 0; k < 32 && here >> i & 1; k++)
				joined[k] = std::max(joined[k], here >> k & 1 ? number : w.lane[kind][i][k]);
		}
		for (int i = 0; i < 32; i++) {
			if (here >> i & 1) memcpy(w.lane[kind][i], joined, sizeof joined);
		}
		w.partial = true;
	}
}

void note_some(uint32_t some_warps) {
	for (int i = 0; i < 32; i++) {
		for (int k = 0; k < 32 && some_warps >> i & 1; k++) {
			if (some_warps >> k & 1) warps[i].warp[k] = warps[k].next;
		}
	}
	for (int i = 0; i < 32; i++) warps[i].next += some_warps >> i & 1;
}

// Thread blocks are ordered by atomic operations and fences: what a block did before a fence and then an atomic
// operation happened before what another block does after an atomic operation at the same address and then a fence. A
// publication is what a block had fenced when it made an atomic operation: everything in epochs from begin to until,
// and of each thread what it did up to the epoch of its last fence.
struct publication {
	uint32_t begin, until;
	std::vector<uint32_t> fenced;
};
struct acquisition {
	const publication *of;
	uint32_t epoch; // of the fence: it holds for the whole block in later epochs
	int thread;     // it holds for this thread from the fence on
};
static std::map<uintptr_t, std::vector<std::unique_ptr<publication>>> published; // by address, in this launch
static std::vector<acquisition> acquired;                                       // by this block
static std::vector<std::pair<int, const publication *>> unfenced; // by threads of this block that have not fenced since
static std::vector<uint32_t> fenced; // for each thread of this block, the epoch of its last fence; empty: none

void fence() {
	fenced.resize(MAX_THREADS);
	fenced[running] = epoch;
	for (const auto &u : unfenced) {
		if (u.first == running) acquired.push_back({u.second, epoch, running});
	}
	unfenced.erase(std::remove_if(unfenced.begin(), unfenced.end(), [](const auto &u) { return u.first == running; }),
		unfenced.end());
}

static void record_atomic(uintptr_t p) {
	auto &here = published[p];
	for (const auto &one : here) {
		if (one->begin != block_begin) unfenced.push_back({running, one.get()});
	}
	publication own = {block_begin, 0, fenced};
	for (size_t i = 0; i < own.fenced.size(); i++) {
		if (own.fenced[i] == epoch && (int)i != running) own.fenced[i] = 0; // no barrier since that thread's fence
		own.until = std::max(own.until, own.fenced[i]);
	}
	if (own.until > 0) here.push_back(std::make_unique<publication>(own));
}

static bool published_by(const publication &p, stamp s) {
	const uint32_t e = epoch_of(s);
	return e >= p.begin && (e < p.until || p.fenced[thread_of(s)] >= e);
}

// happened reports whether an access of this launch is over for the running thread: whether a barrier is in between.
static bool happened(stamp s, int kind) {
	const uint32_t e = epoch_of(s), clock = s >> CLOCK_AT & ((1 << CLOCK_BITS) - 1);
	if (e < block_begin) { // in another thread block
		for (const acquisition &a : acquired) {
			if ((a.thread == running || a.epoch < epoch) && published_by(*a.of, s)) return true;
		}
		return false;
	}
	if (e < epoch || thread_of(s) == running) return true;
	const meetings &w = warps[running / 32];
	return clock <= w.warp[thread_of(s) / 32] || thread_of(s) / 32 == running / 32 &&
		clock <= std::max(w.all[kind], w.lane[kind][running % 32][thread_of(s) % 32]);
}

// A kernel that was launched early may run concurrently with the kernels of its chain: the last one that was not
// launched early and the early ones after it. Until a thread has waited for them, it must not read what they write, nor
// write what they read or write.
static uint32_t chain_begin;
static bool concurrent(stamp s) {
	return early && !waited[running] && epoch_of(s) >= chain_begin && epoch_of(s) < launch_begin;
}

void chain_begins() { chain_begin = epoch + 1; }

void launch_begins(bool watch) {
	watched = watch;
	next_epoch();
	launch_begin = epoch;
	if (!early) chain_begin = launch_begin;
	blocks_begun.clear();
	published.clear();
}

void block_begins(uint3 at) {
	next_epoch();
	block_begin = epoch;
	blocks_begun.push_back({epoch, at});
	acquired.clear();
	unfenced.clear();
	fenced.clear();
}

struct cell {
	stamp write, read; // the last of each
};

// bits has one bit per byte.
struct bits {
	std::vector<uint64_t> words;
	// each calls f for the words of a range, with the mask of their bits in it: one word, or all whole ones at once.
	template <typename F> static void each(size_t from, size_t n, F f) {
		for (size_t i = from, part; i < from + n; i += part) {
			part = std::min(64 - i % 64, from + n - i);
			if (part < 64) f(i / 64, 1, ((1ull << part) - 1) << i % 64);
			else f(i / 64, (part = (from + n - i) / 64 * 64) / 64, ~0ull);
		}
	}
	void set(size_t from, size_t n, bool x) {
		each(from, n, [&](size_t i, size_t count, uint64_t mask) {
			if (count > 1) std::fill_n(&words[i], count, x ? mask : 0);
			else x ? words[i] |= mask : words[i] &= ~mask;
		});
	}
	bool all(size_t from, size_t n) const {
		bool yes = true;
		each(from, n, [&](size_t i, size_t count, uint64_t mask) { // count equal words are equal to those one further
			yes = yes && (words[i] & mask) == mask && !memcmp(&words[i], &words[i] + 1, (count - 1) * sizeof mask);
		});
		return yes;
	}
	bool get(size_t i) const { return words[i / 64] >> i % 64 & 1; }
};

static size_t up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// nans is a file of NaN, which all memory shares until it is written: most of it never is.
enum { NANS = 16 << 20 };
static int nans() {
	static int file = -1;
	if (file < 0) {
		file = memfd_create("restyle-nan", MFD_CLOEXEC);
		const std::vector<char> part(NANS, NAN_BYTE);
		if (file >= 0 && write(file, part.data(), NANS) != NANS) abort();
	}
	return file;
}

// mapped returns memory of a number of bytes, NaN, between inaccessible pages. It ends where a page ends.
static char *mapped(size_t bytes) {
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *const pages = (char *)mmap(NULL, bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED) return NULL;
	for (size_t at = 0; at < bytes; at += NANS) {
		const size_t part = std::min(bytes - at, (size_t)NANS);
		if (mmap(pages + page + at, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, nans(), 0) != MAP_FAILED) continue;
		munmap(pages, bytes + 2 * page);
		return NULL;
	}
	return pages + page;
}

// An allocation is what one call allocates. It ends where an inaccessible page begins, apart from what makes its
// address a multiple of 256, and starts after another such page.
struct allocation {
	char *pages;
	size_t mapped, bytes, counted; // counted: as in use
	bits written, belongs; // belongs: to something; empty if all of it does
	enum { CHUNK = 4096 };
	std::vector<std::unique_ptr<cell[]>> cells; // of CHUNK bytes each, created when a kernel accesses them
	cell *cell_of(size_t i) {
		std::unique_ptr<cell[]> &c = cells[i / CHUNK];
		if (!c) c.reset(new cell[CHUNK]());
		return &c[i % CHUNK];
	}
	bool belongs_all(size_t from, size_t n) const { return belongs.words.empty() || belongs.all(from, n); }
};
static std::map<uintptr_t, allocation> allocations; // by address
static uint64_t allocations_changed; // number of changes
size_t in_use;

static std::map<uintptr_t, allocation>::iterator allocation_of(uintptr_t p) {
	auto after = allocations.upper_bound(p);
	return after == allocations.begin() ? allocations.end() : --after;
}

uintptr_t allocate(size_t bytes) {
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = up(bytes, page);
	char *const memory = mapped(size);
	if (!memory) return 0;
	char *const at = memory + size - up(bytes, 256);
	allocation &made = allocations[(uintptr_t)at];
	made.pages = memory - page;
	made.mapped = size + 2 * page;
	made.bytes = made.counted = bytes;
	made.written.words.assign((bytes + 63) / 64, 0);
	made.cells.resize((bytes + allocation::CHUNK - 1) / allocation::CHUNK);
	in_use += bytes;
	allocations_changed++;
	return (uintptr_t)at;
}

bool allocated(uintptr_t p) { return allocations.count(p) > 0; }

void release(uintptr_t p) {
	const allocation &a = allocations[p];
	munmap(a.pages, a.mapped);
	in_use -= a.counted;
	allocations_changed++;
	allocations.erase(p);
}

void release_all() {
	while (!allocations.empty()) release(allocations.begin()->first);
}

bool divide(uintptr_t p, size_t bytes) {
	const auto in = allocation_of(p);
	if (in == allocations.end() || p + bytes > in->first + in->second.bytes) return false;
	allocation &all = in->second;
	if (all.belongs.words.empty()) {
		all.belongs.words.assign(all.written.words.size(), ~0ull);
		all.counted = all.bytes / 2;
		in_use -= all.bytes - all.counted;
	}
	return true;
}

// forget makes what was written in part of an allocation NaN again.
static void forget(uintptr_t base, bits &written, size_t from, size_t n) {
	for (size_t i = from, part; i < from + n; i += part) {
		part = std::min(64 - i % 64, from + n - i);
		if (written.words[i / 64]) memset((void *)(base + i), NAN_BYTE, part);
	}
	written.set(from, n, false);
}

void belong(uintptr_t p, size_t bytes, bool to_something) {
	const auto in = allocation_of(p);
	in->second.belongs.set(p - in->first, bytes, to_something);
	forget(in->first, in->second.written, p - in->first, bytes);
}

bool inside(uintptr_t p, size_t bytes) {
	const auto in = allocation_of(p);
	return in != allocations.end() && p + bytes <= in->first + in->second.bytes &&
		in->second.belongs_all(p - in->first, bytes);
}

void wrote(uintptr_t p, size_t bytes) {
	const auto in = allocation_of(p);
	in->second.written.set(p - in->first, bytes, true);
}

void wrote_as(uintptr_t to, uintptr_t from, size_t bytes) {
	allocation &source = allocation_of(from)->second, &target = allocation_of(to)->second;
	const size_t i = from - allocation_of(from)->first, k = to - allocation_of(to)->first;
	if (source.written.all(i, bytes)) return target.written.set(k, bytes, true);
	std::vector<bool> written(bytes);
	for (size_t b = 0; b < bytes; b++) written[b] = source.written.get(i + b);
	for (size_t b = 0; b < bytes; b++) target.written.set(k + b, 1, written[b]);
}

// A part of a thread block's shared memory. The NEAR bytes after it belong to nothing.
enum { NEAR = 4096 };
struct shared_part {
	const char *name;
	uintptr_t from, room;    // where such memory may be, and where an access counts as one to it, even if a wrong one
	uintptr_t at, bytes;     // where it is in this launch
	std::vector<cell> cells; // starting at from
};
static shared_part shared_parts[] = {{"static", 0, 0, 0, 0, {}}, {"dynamic", 0, 0, 0, 0, {}}};

// Memory that is not the GPU's but that the kernel may read: the constants of its module, and what the driver passed to
// the module.
struct readable {
	uintptr_t from, end;
};
static readable readables[3];

std::string text_of(uint3 b) {
	return std::to_string(b.x) + "," + std::to_string(b.y) + "," + std::to_string(b.z);
}

std::string hex(uintptr_t p) {
	char text[32];
	return snprintf(text, sizeof text, "%#zx", (size_t)p), text;
}

// A visit is an access to bytes of one kind of memory.
struct visit {
	uintptr_t p;
	size_t bytes;
	int kind;
	const shared_part *shared; // or NULL

	std::string text() const {
		std::string s = (kind == EMULATED_WRITE           ? "writes "
								: kind == EMULATED_ATOMIC ? "adds to "
														  : "reads ") +
			std::to_string(bytes) + " bytes at ";
		if (!shared) return s + hex(p);
		const bool before = p < shared->at;
		return s + (before ? "-" : "+") + std::to_string(before ? shared->at - p : p - shared->at) + " of " +
			shared->name + " shared memory";
	}
	void race(stamp s, const char *did) const {
		std::string who = "thread " + std::to_string(thread_of(s));
		if (!shared && epoch_of(s) < block_begin) {
			auto b = std::upper_bound(blocks_begun.begin(), blocks_begun.end(), epoch_of(s),
				[](uint32_t e, const auto &x) { return e < x.first; });
			if (b != blocks_begun.begin()) who += " of block " + text_of((--b)->second);
		}
		end_with(text() + ", a race with " + who + ", which " + did + " it");
	}
	// meet checks the access against the last ones of each of its bytes, and records it. since: the first stamps that
	// matter.
	void meet(cell *c, size_t n, uint32_t since) const {
		const stamp mine = now() | (kind == EMULATED_ATOMIC ? ATOMIC : 0);
		for (size_t i = 0; !watched && i < n && kind != EMULATED_READ; i++) c[i].write = mine;
		if (!watched) return;
		cell before = {}, after = {}; // of the byte before: its neighbors mostly have the same stamps, and so the same checks
		for (size_t i = 0; i < n; i++) {
			const stamp w = c[i].write, r = c[i].read;
			if (i > 0 && w == before.write && r == before.read) {
				c[i] = after;
				continue;
			}
			before = c[i];
			if (!shared && concurrent(w)) end_with(text() + ", which an earlier kernel writes, without waiting for it");
			if (!shared && concurrent(r) && kind != EMULATED_READ)
				end_with(text() + ", which an earlier kernel reads, without waiting for it");
			if (epoch_of(w) >= since) {
				if (w & NOT_WAITED_FOR) end_with(text() + ", which an asynchronous copy writes that is not waited for");
				if (!happened(w, WRITES) && !(kind == EMULATED_ATOMIC && w & ATOMIC)) race(w, "writes");
			}
			const bool recent = epoch_of(r) >= since;
			if (kind == EMULATED_READ) {
				stamp flags = 0;
				if (recent) {
					flags = r & SEVERAL_BLOCKS;
					if (epoch_of(r) < block_begin) flags = SEVERAL_BLOCKS;
					else if (epoch_of(r) == epoch)
						flags |= (r & SEVERAL_WARPS) | (thread_of(r) / 32 != running / 32 ? SEVERAL_WARPS : 0);
				}
				c[i].read = mine | flags;
				after = c[i];
				continue;
			}
			if (recent) {
				if (!happened(r, READS)) race(r, "reads");
				if (r & SEVERAL_BLOCKS) end_with(text() + ", a race with another block, which reads it");
				if (epoch_of(r) == epoch && r & SEVERAL_WARPS) end_with(text() + ", a race with another warp, which reads it");
			}
			c[i].write = mine;
			after = c[i];
		}
	}
};

void access_of(const void *address, size_t bytes, int kind) {
	const uintptr_t p = (uintptr_t)address;
	for (shared_part &s : shared_parts) {
		if (p - s.from >= s.room) continue;
		const visit v{p, bytes, kind, &s};
		if (p < s.at || p + bytes > s.at + s.bytes) end_with(v.text() + ", which has " + std::to_string(s.bytes));
		cell *c = &s.cells[p - s.from];
		for (size_t i = 0; i < bytes; i++) {
			if (kind != EMULATED_WRITE && epoch_of(c[i].write) < block_begin) end_with(v.text() + ", which are uninitialized");
		}
		return v.meet(c, bytes, block_begin);
	}
	static uintptr_t last_from, last_bytes;
	static allocation *last;
	static uint64_t last_of;
	const visit v{p, bytes, kind, NULL};
	if (!last || last_of != allocations_changed || p - last_from >= last_bytes) {
		const auto in = allocation_of(p);
		if (in == allocations.end() || p >= in->first + in->second.bytes) {
			for (const readable &r : readables) {
				if (kind == EMULATED_READ && p - r.from < r.end - r.from) return;
			}
			end_with(v.text() + ", where no memory is");
		}
		last_of = allocations_changed, last = &in->second, last_from = in->first, last_bytes = in->second.bytes;
	}
	const size_t i = p - last_from;
	if (kind == EMULATED_ATOMIC && watched) record_atomic(p);
	if (bytes > last_bytes - i) end_with(v.text() + ", " + std::to_string(last_bytes - i) + " before the memory ends");
	const bool writes = kind == EMULATED_WRITE;
	if (writes || !last->written.all(i, bytes)) { // what belongs to nothing is unwritten too
		if (!last->belongs_all(i, bytes)) end_with(v.text() + ", which belongs to no tensor");
		if (!writes) end_with(v.text() + ", which are uninitialized");
		last->written.set(i, bytes, true);
	}
	for (size_t done = 0, part; watched && done < bytes; done += part) {
		part = std::min(bytes - done, allocation::CHUNK - (i + done) % allocation::CHUNK);
		v.meet(last->cell_of(i + done), part, launch_begin);
	}
}

void misaligned(const void *p, size_t multiple, const char *file, unsigned line) {
	const char *base = strrchr(file, '/');
	end_with("an access at " + hex((uintptr_t)p) + ", which is no multiple of " + std::to_string(multiple) +
		(line ? " (" + std::string(base ? base + 1 : file) + ":" + std::to_string(line) + ")" : ""));
}

void mark_copy(const void *to, bool waited) {
	for (shared_part &s : shared_parts) {
		if ((uintptr_t)to - s.from >= s.room) continue;
		for (int i = 0; i < 16; i++) s.cells[(uintptr_t)to - s.from + i].write = now() | (waited ? 0 : NOT_WAITED_FOR);
	}
}

void check_shared(const void *p, size_t bytes, size_t multiple) {
	const shared_part &s = shared_parts[1];
	if ((uintptr_t)p < s.at || (uintptr_t)p + bytes > s.at + s.bytes)
		end_with("a tile that is not in dynamic shared memory");
	if ((uintptr_t)p % multiple) end_with("a tile whose address is no multiple of " + std::to_string(multiple));
}

// dynamic_shared returns the address of a thread block's dynamic shared memory, which ends where its room ends.
static char *dynamic_shared(size_t bytes) {
	const size_t room = up(MAX_SHARED, 64 << 10); // whole pages
	shared_part &s = shared_parts[1];
	if (!s.from) {
		s.from = (uintptr_t)mapped(room), s.room = room + NEAR;
		s.cells.resize(room);
	}
	s.bytes = bytes, s.at = s.from + room - up(bytes, 16);
	return s.from ? (char *)s.at : NULL;
}

char *share(const emulated_module &m, uintptr_t constants, uintptr_t constants_end, size_t bytes) {
	readables[0] = {constants, constants_end};
	readables[1] = {(uintptr_t)m.dynamic, (uintptr_t)m.dynamic_end};
	readables[2] = {(uintptr_t)m.runtime, (uintptr_t)(m.runtime + 1)};
	shared_part &fixed = shared_parts[0];
	fixed.from = fixed.at = (uintptr_t)m.shared, fixed.bytes = m.shared_end - m.shared, fixed.room = fixed.bytes + NEAR;
	if (fixed.cells.size() < fixed.bytes) fixed.cells.resize(fixed.bytes);
	char *const dynamic = dynamic_shared(bytes);
	for (void **p = m.dynamic; p < m.dynamic_end; p++) *p = dynamic;
	return dynamic;
}
