// The threads of the emulated GPU: fibers, one of which runs until it waits for others.
#include "emulator.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <utility>
#include <vector>

enum fiber_state { READY, AT_BLOCK_BARRIER, AT_WARP_BARRIER, ASLEEP, ENDED };

// A started copy of 16 bytes. It is done when the thread waits for it: until then its target is NaN, and its source may
// still change.
struct copy {
	char *to;
	const char *from;
	bool there;
	int group;
};

struct fiber {
	void *sp; // where it continues
	fiber_state state;
	uint3 index;
	int line;      // of the thread block's barrier that it waits at
	uint32_t mask; // the lanes that it waits for
	const uint32_t *given;
	int words; // -1 at a barrier
	std::vector<copy> copies; // that it has not waited for
	int groups;               // number of groups of copies so far
};

static fiber fibers[MAX_THREADS];
static char *stacks; // of all fibers, each above an inaccessible page
static void *scheduler;
emulated_runtime *runtime;
int running, threads;
bool early, waited[MAX_THREADS];
static bool backwards; // whether threads run in reverse order
static std::string fault; // of the running thread
static emulated_lanes lanes[MAX_THREADS / 32];
static void (*entry)(void **);
static void **entry_parameters;

// emulated_switch saves the registers that a function must preserve, stores the address of the stack, and continues on
// the other stack where that one left off. (swapcontext asks the system for the signal mask at each call, and is not in
// every C library.)
extern "C" __attribute__((visibility("hidden"))) void emulated_switch(void **from, void *to);
#ifdef __x86_64__
asm(".text\n.p2align 4\n.globl emulated_switch\n.hidden emulated_switch\n.type emulated_switch, @function\n"
	"emulated_switch:\n"
	"pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
	"movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
	"popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
	".size emulated_switch, .-emulated_switch\n");
// saved words, the index of the return address, and the size that keeps the stack aligned
enum { SAVED = 6, RETURN = 6, FRAME = 8 };
static void jump(ucontext_t *c, void (*to)(), char *sp) {
	c->uc_mcontext.gregs[REG_RIP] = (greg_t)to, c->uc_mcontext.gregs[REG_RSP] = (greg_t)(sp - 8);
}
#elif defined __aarch64__
asm(".text\n.p2align 4\n.globl emulated_switch\n.hidden emulated_switch\n.type emulated_switch, %function\n"
	"emulated_switch:\n"
	"sub sp, sp, #160\n"
	"stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
	"stp x27, x28, [sp, #64]\n"
	"stp x29, x30, [sp, #80]\nstp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\n"
	"stp d14, d15, [sp, #144]\n"
	"mov x2, sp\nstr x2, [x0]\nmov sp, x1\n"
	"ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
	"ldp x27, x28, [sp, #64]\n"
	"ldp x29, x30, [sp, #80]\nldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\n"
	"ldp d14, d15, [sp, #144]\n"
	"add sp, sp, #160\nret\n"
	".size emulated_switch, .-emulated_switch\n");
enum { SAVED = 20, RETURN = 11, FRAME = 20 };
static void jump(ucontext_t *c, void (*to)(), char *sp) {
	c->uc_mcontext.pc = (uintptr_t)to, c->uc_mcontext.sp = (uintptr_t)sp;
}
#else
#error "the emulated GPU has fibers for x86-64 and arm64"
#endif

// step is from one thread of a warp to the one that runs after it.
static int step() { return backwards ? -1 : 1; }

// go_on lets a thread continue, and stores where the running code does.
static void go_on(int thread, void **from) {
	running = thread;
	runtime->threadIdx = fibers[thread].index;
	emulated_switch(from, fibers[thread].sp);
}

// wait_in lets the next lane of the warp continue that can, or the scheduler if there is none. Lanes that reach an
// operation one after the other return from here to the same place, which the CPU then predicts.
static void wait_in(fiber_state s) {
	fiber &f = fibers[running];
	f.state = s;
	const int first = running / 32 * 32, end = std::min(first + 32, threads);
	for (int i = running + step(); fault.empty() && i >= first && i < end; i += step()) {
		if (fibers[i].state == READY) return go_on(i, &f.sp);
	}
	emulated_switch(&f.sp, scheduler);
}

void end_with(const std::string &what) {
	fault = what;
	wait_in(ENDED);
	abort(); // a fiber that has ended does not continue
}

uint64_t changes;
void fall_asleep() { wait_in(ASLEEP); }

// wake lets threads that are asleep look again if something has changed.
static bool wake() {
	static uint64_t seen;
	bool any = false;
	for (int i = 0; i < threads && seen != changes; i++) {
		if (fibers[i].state == ASLEEP) fibers[i].state = READY, any = true;
	}
	seen = changes;
	return any;
}

static void fiber_main() {
	entry(entry_parameters);
	check_stores();
	if (early && !waited[running]) end_with("ends without waiting for the earlier kernels");
	wait_in(ENDED);
}

static char *stack_end(int thread) { return stacks + (size_t)(thread + 1) * STACK; }

// stack_top is where a thread's stack begins. It differs from thread to thread in the low bits of the address, by which
// the cache finds a line: otherwise it would hold the stacks of few threads.
static char *stack_top(int thread) { return stack_end(thread) - thread % 64 * 9 * 64; }

// prepare_stacks allocates the stacks that a thread block needs and that do not exist yet. It returns false if there is
// no memory.
static bool prepare_stacks() {
	static int made;
	if (!stacks) {
		void *const all = mmap(NULL, (size_t)MAX_THREADS * STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (all == MAP_FAILED) return false;
		stacks = (char *)all;
	}
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	for (; made < threads; made++) {
		if (mprotect(stack_end(made) - STACK + page, STACK - page, PROT_READ | PROT_WRITE)) return false;
	}
	return true;
}

// prepare lets a fiber start at fiber_main.
static void prepare(int thread) {
	fiber &f = fibers[thread];
	void **const frame = (void **)stack_top(thread) - FRAME;
	memset(frame, 0, FRAME * sizeof *frame);
	frame[RETURN] = (void *)fiber_main;
	waited[thread] = false;
	f.sp = frame, f.state = READY, f.copies.clear(), f.groups = 0;
	const int x = (int)runtime->blockDim.x, y = (int)runtime->blockDim.y;
	f.index = {(unsigned)(thread % x), (unsigned)(thread / x % y), (unsigned)(thread / x / y)};
}

void sync_block(int line) {
	fibers[running].line = line;
	wait_in(AT_BLOCK_BARRIER);
}

const emulated_lanes *meet(uint32_t mask, const uint32_t *given, int words) {
	fiber &f = fibers[running];
	if (!(mask >> running % 32 & 1)) end_with("meets lanes of its warp by a mask that it is not in");
	f.mask = mask, f.given = given, f.words = words;
	wait_in(AT_WARP_BARRIER);
	return &lanes[running / 32];
}

void sync_warp(uint32_t mask) { meet(mask, NULL, -1); }

void wait_prerequisites() { waited[running] = true; }

float element(uint32_t pair, int i, bool f16) {
	const uint32_t bits = i ? pair >> 16 : pair & 0xFFFF;
	return f16 ? emulated_of_f16(bits) : __uint_as_float(bits << 16);
}

// mma is m16n8k16, with fragments as in PTX.
void mma(float *d, const uint32_t *a, const uint32_t *b, bool f16) {
	const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
	const emulated_lanes *all = meet(~0u, mine, 6);
	const int g = running % 32 / 4, t = running % 4;
	float x[2][16], y[2][16]; // rows g and g + 8 of a, columns 2 t and 2 t + 1 of b
	for (int k = 0; k < 16; k++)
		for (int i = 0; i < 2; i++) {
			x[i][k] = element(all->given[4 * g + k % 8 / 2][i + k / 8 * 2], k % 2, f16);
			y[i][k] = element(all->given[4 * (2 * t + i) + k % 8 / 2][4 + k / 8], k % 2, f16);
		}
	double sums[4] = {}; // exact but for numbers far apart: as on a GPU, their order is no matter
	for (int k = 0; k < 16; k++)
		for (int i = 0; i < 4; i++) sums[i] += (double)x[i / 2][k] * y[i % 2][k];
	for (int i = 0; i < 4; i++) d[i] += (float)sums[i];
}

// mma_tf32 is m16n8k8.
void mma_tf32(float *d, const uint32_t *a, const uint32_t *b) {
	const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
	const emulated_lanes *all = meet(~0u, mine, 6);
	const int g = running % 32 / 4, t = running % 4;
	for (int i = 0; i < 4; i++) {
		float sum = 0;
		for (int k = 0; k < 8; k++) {
			const uint32_t x = all->given[4 * g + k % 4][i / 2 + k / 4 * 2];
			const uint32_t y = all->given[4 * (2 * t + i % 2) + k % 4][4 + k / 4];
			sum += __uint_as_float(x & ~0x1FFFu) * __uint_as_float(y & ~0x1FFFu);
		}
		d[i] += sum;
	}
}

// mma_bytes is m16n8k32 of signed bytes.
void mma_bytes(int32_t *d, const uint32_t *a, const uint32_t *b) {
	const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
	const emulated_lanes *all = meet(~0u, mine, 6);
	const int g = running % 32 / 4, t = running % 4;
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 32; k++) {
			const uint32_t x = all->given[4 * g + k % 16 / 4][i / 2 + k / 16 * 2];
			const uint32_t y = all->given[4 * (2 * t + i % 2) + k % 16 / 4][4 + k / 16];
			d[i] += (int8_t)(x >> k % 4 * 8) * (int8_t)(y >> k % 4 * 8);
		}
}

// matrices is ldmatrix of rows that may be read.
void matrices(uint32_t *r, const void *row, bool transposed) {
	uint32_t words[4];
	memcpy(words, row, 16);
	const emulated_lanes *all = meet(~0u, words, 4);
	const int g = running % 32 / 4, t = running % 4;
	for (int i = 0; i < 4; i++) {
		const uint32_t *x = all->given[8 * i + (transposed ? 2 * t : g)], *y = all->given[8 * i + 2 * t + 1];
		if (!transposed) r[i] = x[t];
		else r[i] = g % 2 ? x[g / 2] >> 16 | (y[g / 2] & 0xFFFF0000) : (x[g / 2] & 0xFFFF) | y[g / 2] << 16;
	}
}

void ldmatrix(uint32_t *r, const void *row, bool transposed) {
	if ((uintptr_t)row % 16) end_with("ldmatrix of a row whose address is no multiple of 16");
	access_of(row, 16, EMULATED_READ);
	matrices(r, row, transposed);
}

void copy_async(void *to, const void *from, bool there) {
	fiber &f = fibers[running];
	if (((uintptr_t)to | (uintptr_t)from) % 16) end_with("an asynchronous copy whose address is no multiple of 16");
	if (there) access_of(from, 16, EMULATED_READ);
	access_of(to, 16, EMULATED_WRITE);
	memset(to, NAN_BYTE, 16);
	mark_copy(to, false);
	f.copies.push_back({(char *)to, (const char *)from, there, f.groups});
}
void copy_commit() { fibers[running].groups++; }
void copy_wait(int newest) {
	fiber &f = fibers[running];
	size_t n = 0;
	for (; n < f.copies.size() && f.copies[n].group < f.groups - newest; n++) {
		const copy &c = f.copies[n];
		c.there ? memcpy(c.to, c.from, 16) : memset(c.to, 0, 16);
		mark_copy(c.to, true);
	}
	f.copies.erase(f.copies.begin(), f.copies.begin() + n);
}

// release_warp lets lanes of a warp that wait for each other continue, if all lanes of their mask that the thread block
// has are there.
static bool release_warp(int first) {
	const int count = std::min(32, threads - first);
	for (int i = 0; i < count; i++) {
		if (fibers[first + i].state != AT_WARP_BARRIER) continue;
		const uint32_t mask = fibers[first + i].mask;
		uint32_t here = 0, exist = 0;
		for (int k = 0; k < count; k++) {
			const fiber &f = fibers[first + k];
			here |= (uint32_t)(f.state == AT_WARP_BARRIER && f.mask == mask) << k;
			exist |= 1u << k;
		}
		if (here != (mask & exist)) continue;
		emulated_lanes &all = lanes[first / 32];
		all.here = here;
		for (int k = 0; k < count; k++) {
			if (!(here >> k & 1)) continue;
			fiber &f = fibers[first + k];
			if (f.words != fibers[first + i].words) {
				running = first + k;
				fault = "meets lanes of its warp that are at another operation";
				return false;
			}
			for (int w = 0; w < f.words; w++) all.given[k][w] = f.given[w];
			f.state = READY;
		}
		note_meeting(first / 32, here, here == exist, fibers[first + i].words < 0);
		return true; // the lanes of another mask come next time: their mask is looked at then
	}
	return false;
}

std::string thread_text(int i) { return "thread " + std::to_string(i); }

// release_block lets a thread block continue if all of its threads are at the same barrier. Otherwise it returns false,
// with the reason in wrong if something is wrong.
static bool release_block(std::string *wrong) {
	int at = -1, elsewhere = -1;
	for (int i = 0; i < threads; i++) {
		if (fibers[i].state == ASLEEP)
			return *wrong = thread_text(i) + " waits for a phase, a product or other threads, which never come", false;
		if (fibers[i].state == AT_WARP_BARRIER)
			return *wrong = thread_text(i) + " waits for lanes of its warp that never come", false;
		if (fibers[i].state == AT_BLOCK_BARRIER && at < 0) at = i;
	}
	if (at < 0) return false;
	for (int i = 0; i < threads && elsewhere < 0; i++) {
		if (fibers[i].state == ENDED || fibers[i].line != fibers[at].line) elsewhere = i;
	}
	if (elsewhere >= 0) {
		const fiber &f = fibers[elsewhere];
		*wrong = thread_text(at) + " waits at the barrier of line " + std::to_string(fibers[at].line) + " for " +
			thread_text(elsewhere) +
			(f.state == ENDED ? ", which has ended" : ", which is at that of line " + std::to_string(f.line));
		return false;
	}
	for (int i = 0; i < threads; i++) fibers[i].state = READY;
	next_epoch();
	return true;
}

// A thread that accesses memory that is not mapped ends, and the scheduler continues. Signals of other threads are not
// handled.
static __thread bool launching;
static struct sigaction before_segv, before_bus;

static void faulted() { wait_in(ENDED); }

static void on_fault(int signal, siginfo_t *info, void *context) {
	if (!launching) {
		const struct sigaction &before = signal == SIGSEGV ? before_segv : before_bus;
		return before.sa_sigaction(signal, info, context);
	}
	fault = "no memory at " + hex((uintptr_t)info->si_addr);
	jump((ucontext_t *)context, faulted, stack_top(running));
}

// run_warp runs the threads of a warp until each has ended or waits for threads of other warps.
static void run_warp(int first) {
	const int count = std::min(32, threads - first);
	do {
		for (int n = 0; n < count; n++) {
			const int thread = first + (backwards ? count - 1 - n : n);
			if (fibers[thread].state == READY) go_on(thread, &scheduler);
			if (!fault.empty()) return;
		}
	} while (release_warp(first));
}

std::string run_block() {
	for (int i = 0; i < threads; i++) prepare(i);
	const int warps = (threads + 31) / 32;
	std::string wrong;
	do {
		for (int n = 0; n < warps; n++) {
			run_warp(32 * (backwards ? warps - 1 - n : n));
			if (!fault.empty()) return thread_text(running) + ": " + std::exchange(fault, "");
		}
	} while (wake() || release_block(&wrong));
	return wrong;
}

char *begin_threads(int count, bool reverse, void (*kernel)(void **), void **parameters) {
	threads = count;
	backwards = reverse;
	entry = kernel;
	entry_parameters = parameters;
	if (!prepare_stacks()) return NULL;
	struct sigaction mine = {};
	mine.sa_sigaction = on_fault;
	mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
	sigaction(SIGSEGV, &mine, &before_segv);
	sigaction(SIGBUS, &mine, &before_bus);
	launching = true;
	return stacks;
}

void end_threads() {
	launching = false;
	sigaction(SIGSEGV, &before_segv, NULL);
	sigaction(SIGBUS, &before_bus, NULL);
}
