// The emulated GPU: the parts of CUDA's driver, NVRTC, cuBLASLt and NCCL that restyle uses, in one library. Compiling
// runs the C++ compiler on the unchanged source. Launching runs all threads of a block as fibers, one block after the
// other, before the launch returns.
//
//   driver.cpp    CUDA's driver: it counts calls, queues work, and launches
//   memory.cpp    the GPU's memory, and whether an access is a race or to what was never written
//   threads.cpp   the threads of a block, and what they do together
//   tiles.cpp     what only sm_90 has: tiles, barriers with phases, products of a warpgroup
//   blas.cpp      cuBLASLt
//   nccl.cpp      NCCL
//   compiler.cpp  NVRTC
//   device.h      what CUDA C++ means here: kernels include it
//
// Environment variables set the situation. They are read when a program without a GPU asks for the driver's version:
// again after each GPU that was closed, and when they have changed.
//
//   STANDIN_FAIL    the number of the call, of any of the three libraries, that fails, counting from 1; 0 for none
//   STANDIN_RESULT  what it returns if it is the driver's, 2 by default: after 214 and from 700 on all later calls of
//                   the driver return the same, as CUDA's do
//   STANDIN_IDLE    1: launches do nothing
//   STANDIN_CALLS   a file for the names of all calls, one per line
//   STANDIN_PINS    0: no memory can be pinned
//   STANDIN_LATE    1: queued work is done when a call waits for it, and not before
//
// These take effect at once:
//
//   STANDIN_NCCL      the version of NCCL, as 22807 for 2.28.7
//   STANDIN_BESIDE    milliseconds after which collectives are done, beside other work, unless a call waits for them;
//                     otherwise they are done when they are queued. Not with STANDIN_LATE
//   STANDIN_STUCK     the number of a rank's group of collectives, counting from 1, that ends only if it is aborted
//   STANDIN_SLOW      a file: a group of collectives is queued only when it exists
//   STANDIN_PRODUCTS  the algorithms that cuBLASLt has for each product, as 100,90,x80: the microseconds that each
//                     takes. One with an x fails when it multiplies, and one with an o adds up parts in the result's
//                     type. With it, events measure no other time
#pragma once

#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>

extern "C" {
#include "../api.h"
}
#include "device.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

enum {
	INVALID_VALUE = 1,
	NOT_INITIALIZED = 3,
	INVALID_IMAGE = 200,
	NOT_FOUND = 500,
	ILLEGAL_ADDRESS = 700,
	LAUNCH_FAILED = 719,
	CAPTURE_UNSUPPORTED = 900,
	ILLEGAL_STATE = 401
};
enum { MAX_THREADS = 1024, MAX_SHARED = 227 << 10, STACK = 128 << 10 };
enum { NAN_BYTE = 0xFF }; // for unwritten memory
static const size_t MEMORY = (size_t)4 << 30;
static const char MAGIC[8] = {'e', 'm', 'u', 'l', 'a', 't', 'e', 'd'}; // the start of an image

#pragma GCC visibility push(hidden) // the parts reach each other directly

// driver.cpp: its calls run one at a time.
extern std::mutex lock;
#define LOCKED const std::lock_guard<std::mutex> hold_(lock)

extern CUresult failed; // the first fault, which every later call returns
extern std::string why; // the text of an error, and
extern CUresult why_of; // the error

// told returns whether a call of another library, which has results of its own, is to fail: with the text told_why.
bool told(const char *name);
extern std::string told_why;

// lasting returns a text that stays at its address, as the texts of CUDA's libraries do.
const char *lasting(const std::string &text);

// queue does some work, now or later. It must have copied what it uses of the caller's.
CUresult queue(std::function<CUresult()> work);

// Collectives that are done beside other work: how many were queued, and a wait until as many are done. It lets go of
// the lock meanwhile.
long beside_queued();
CUresult wait_beside(long until);

bool idle();                 // the setting: launches do nothing
const char *products();      // the setting, or NULL
extern double products_took; // microseconds of all products under it

// memory.cpp: allocations, by address.
extern size_t in_use; // bytes
uintptr_t allocate(size_t bytes); // returns 0 if there is no memory
bool allocated(uintptr_t p);
void release(uintptr_t p);
void release_all();

// divide starts to tell parts of an allocation that belong to something from those that do not: belong says which. What
// begins or ceases to belong to something is unwritten. divide returns false for what is in no allocation.
bool divide(uintptr_t p, size_t bytes);
void belong(uintptr_t p, size_t bytes, bool to_something);

// inside returns whether all of that belongs to something. wrote records what is written there from outside a kernel,
// and wrote_as a copy: what was unwritten in the source is unwritten in the target.
bool inside(uintptr_t p, size_t bytes);
void wrote(uintptr_t p, size_t bytes);
void wrote_as(uintptr_t to, uintptr_t from, size_t bytes);

// share provides the shared memory of a launch of a module with constants. It returns the address of the dynamic part,
// or NULL if there is no memory.
char *share(const emulated_module &m, uintptr_t constants, uintptr_t constants_end, size_t bytes);

// Accesses. The accesses of a launch that is watched are checked against each other. What a thread did in one epoch is
// over for all threads of its block in the next.
void chain_begins(); // the next launch begins a chain of early ones
void launch_begins(bool watched);
void block_begins(uint3 at);
void next_epoch();
void fence();
void access_of(const void *p, size_t bytes, int kind); // every access of a kernel that is not to a thread's own memory
void misaligned(const void *p, size_t multiple, const char *file, unsigned line);
void mark_copy(const void *to, bool waited);                     // whether 16 bytes that are copied are waited for
void check_shared(const void *p, size_t bytes, size_t multiple); // that a tile is in dynamic shared memory

// note_meeting records that what these lanes of a warp did is over for each of them, as far as a meeting of that kind
// guarantees, and note_some that what all threads of some warps did is.
void note_meeting(int warp, uint32_t here, bool all, bool barrier);
void note_some(uint32_t warps);

std::string text_of(uint3 b);
std::string hex(uintptr_t p);

// threads.cpp
extern emulated_runtime *runtime; // of the module whose kernel runs
extern int threads, running;      // of a block, and the number of the running one
extern bool early;                // whether the kernel was launched before the previous one had ended
extern bool waited[MAX_THREADS];  // which threads have waited for that

// begin_threads returns where the threads' stacks are, or NULL if there is no memory. reverse: the last one runs first
char *begin_threads(int count, bool reverse, void (*kernel)(void **), void **parameters);
std::string run_block(); // runs the threads of a block until they end, and returns what is wrong, or ""
void end_threads();

[[noreturn]] void end_with(const std::string &what); // ends the running thread
std::string thread_text(int i);
float element(uint32_t pair, int i, bool f16); // one of two BF16, or F16

// sleep_until lets other threads run until done returns true, which it may when changes has changed.
extern uint64_t changes;
void fall_asleep();
template <typename F> void sleep_until(F done) {
	while (!done()) fall_asleep();
}

void sync_block(int line);
void sync_warp(uint32_t mask);
const emulated_lanes *meet(uint32_t mask, const uint32_t *given, int words);
void mma(float *d, const uint32_t *a, const uint32_t *b, bool f16);
void mma_tf32(float *d, const uint32_t *a, const uint32_t *b);
void mma_bytes(int32_t *d, const uint32_t *a, const uint32_t *b);
void ldmatrix(uint32_t *r, const void *row, bool transposed);
void matrices(uint32_t *r, const void *row, bool transposed);
void copy_async(void *to, const void *from, bool there);
void copy_commit();
void copy_wait(int newest);
void wait_prerequisites();

// tiles.cpp
// The driver fills a tensor map with this.
struct tile_map {
	uintptr_t address;
	uint64_t rows, columns, stride;
	uint32_t tile_rows, tile_columns;
	int row_bytes() const { return (int)tile_columns * 2; }
	// place returns where a word of 16 bytes of a tile's row is. Real addresses count, not those from the tile's start.
	char *place(char *tile, int row, int word) const {
		const uintptr_t p = (uintptr_t)tile + row * row_bytes() + 16 * word;
		return (char *)(p ^ (row_bytes() == 128 ? p >> 7 & 7 : p >> 7 & 3) << 4);
	}
	// inside returns the bytes of a row of a tile that are in the matrix, which may be none.
	int inside(int64_t row, int64_t column) const {
		if (row < 0 || row >= (int64_t)rows || column < 0) return 0;
		return 2 * (int)std::max<int64_t>(0, std::min<int64_t>(tile_columns, (int64_t)columns - column));
	}
	char *at(int64_t row, int64_t column) const { return (char *)address + row * stride + 2 * column; }
};
static_assert(sizeof(tile_map) <= sizeof(CUtensorMap), "");

void start_tiles();  // of a block
void check_stores(); // that the running thread, which ends, has waited for its own
void barrier_init(void *b, int arrivals);
void barrier_arrive(void *b, int bytes);
void barrier_wait(void *b, int parity);
void tile_load(void *to, const void *map, int row, int column, void *b);
void tile_store(const void *map, int row, int column, const void *from);
void tile_read(uint32_t *to, const void *from);
void tile_matrices(uint32_t *r, const void *row);
void tile_write(void *to, const uint32_t *from);
void tile_fence();
void tile_commit();
void tile_wait(int newest);
void sync_some(int barrier, int count);
void arrive_some(int barrier, int count);
void stmatrix(void *row, const uint32_t *r);
void group_multiply(void *d, int columns, const void *a, const void *b, int how);
void group_commit();
void group_wait(int newest);

#pragma GCC visibility pop
