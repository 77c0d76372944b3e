// The emulated GPU: the part of CUDA's driver and of NVRTC that restyle uses, in one library. Compiling is the C++ compiler on the
// same source; launching runs all threads of a block as fibers, block after block, before the launch returns.
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <regex>
#include <string>
#include <utility>
#include <vector>

extern "C" {
#include "api.h"
}
#include "emulated_device.hpp"

#define EXPORT extern "C" __attribute__((visibility("default")))

enum { INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_IMAGE = 200, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719 };
static const size_t MEMORY = (size_t)4 << 30;

// Memory, by where it begins. Each piece ends where a page begins that nobody may touch, but for what makes its address a multiple
// of 256, and begins behind another.
struct piece {
	char *pages;
	size_t mapped, bytes;
};
static std::mutex lock;
static std::map<uintptr_t, piece> pieces;
static size_t in_use;
static CUresult failed; // the first fault, which every later call answers
static std::string why;

static bool inside(CUdeviceptr p, size_t bytes) {
	auto after = pieces.upper_bound(p);
	if (after == pieces.begin()) return false;
	--after;
	return p + bytes <= after->first + after->second.bytes;
}

// The fibers.

enum fiber_state { READY, AT_BLOCK_BARRIER, AT_WARP_BARRIER, ENDED };
enum { STACK = 128 << 10, MOST_THREADS = 1024, MOST_SHARED = 227 << 10 };

// A copy of 16 bytes that was begun. It is done when it is waited for: until then what it goes to is NaN, and what it reads may
// still change.
struct copy {
	char *to;
	const char *from;
	bool there;
	int group;
};

struct fiber {
	ucontext_t context;
	char *stack;
	fiber_state state;
	uint3 index;
	uint32_t mask; // of the lanes that it waits for
	const uint32_t *given;
	int words;
	std::vector<copy> copies; // that it has not waited for
	int groups;               // of copies, made so far
};

static fiber fibers[MOST_THREADS];
static ucontext_t scheduler;
static emulated_runtime runtime;
static int running, threads;
static bool backwards; // every other launch: its blocks, and the threads of each, run in the reverse order, which may not matter
static std::string fault; // of the thread that runs
static emulated_lanes lanes[MOST_THREADS / 32];
static const int NAN_BYTE = 0xFF; // of what nobody has written
static void (*entry)(void **);
static void **entry_parameters;

static void wait_in(fiber_state s) {
	fiber &f = fibers[running];
	f.state = s;
	swapcontext(&f.context, &scheduler);
}

static void sync_block() { wait_in(AT_BLOCK_BARRIER); }

static const emulated_lanes *meet(uint32_t mask, const uint32_t *given, int words) {
	fiber &f = fibers[running];
	f.mask = mask, f.given = given, f.words = words;
	wait_in(AT_WARP_BARRIER);
	return &lanes[running / 32];
}

static void end_with(const char *what) {
	fault = what;
	wait_in(ENDED);
}

static void copy_async(void *to, const void *from, bool there) {
	fiber &f = fibers[running];
	if (((uintptr_t)to | (uintptr_t)from) % 16) end_with("an asynchronous copy whose address is no multiple of 16");
	memset(to, NAN_BYTE, 16);
	f.copies.push_back({(char *)to, (const char *)from, there, f.groups});
}
static void copy_commit() { fibers[running].groups++; }
static void copy_wait(int newest) {
	fiber &f = fibers[running];
	size_t n = 0;
	for (; n < f.copies.size() && f.copies[n].group < f.groups - newest; n++) {
		const copy &c = f.copies[n];
		c.there ? memcpy(c.to, c.from, 16) : memset(c.to, 0, 16);
	}
	f.copies.erase(f.copies.begin(), f.copies.begin() + n);
}

static void fiber_main() {
	entry(entry_parameters);
	wait_in(ENDED);
}

// release_warp lets the lanes of a warp go on that wait for each other, if all are there whom their mask names and the block has.
static bool release_warp(int first) {
	for (int i = 0; i < 32 && first + i < threads; i++) {
		if (fibers[first + i].state != AT_WARP_BARRIER) continue;
		const uint32_t mask = fibers[first + i].mask;
		uint32_t here = 0, exist = 0;
		for (int k = 0; k < 32 && first + k < threads; k++) {
			const fiber &f = fibers[first + k];
			here |= (uint32_t)(f.state == AT_WARP_BARRIER && f.mask == mask) << k;
			exist |= 1u << k;
		}
		if (here != (mask & exist)) continue;
		emulated_lanes &all = lanes[first / 32];
		all.here = here;
		for (int k = 0; k < 32; k++) {
			if (!(here >> k & 1)) continue;
			fiber &f = fibers[first + k];
			for (int w = 0; w < f.words; w++) all.given[k][w] = f.given[w];
			f.state = READY;
		}
		return true; // the lanes that another mask names come next time: here is theirs then
	}
	return false;
}

// release_block lets a block go on when all of its threads that have not ended are at its barrier.
static bool release_block() {
	int waiting = 0;
	for (int i = 0; i < threads; i++) {
		if (fibers[i].state == AT_WARP_BARRIER) return false;
		waiting += fibers[i].state == AT_BLOCK_BARRIER;
	}
	for (int i = 0; i < threads; i++) {
		if (fibers[i].state == AT_BLOCK_BARRIER) fibers[i].state = READY;
	}
	return waiting > 0;
}

// A thread that reads or writes where no memory is ends, and the scheduler goes on. Signals of other threads are not ours.
static __thread bool launching;
static struct sigaction before;

static void on_fault(int signal, siginfo_t *info, void *context) {
	if (!launching) return before.sa_sigaction(signal, info, context);
	char text[64];
	snprintf(text, sizeof text, "no memory at %p", info->si_addr);
	fault = text;
	fibers[running].state = ENDED;
	setcontext(&scheduler);
}

// run_block runs the threads of a block to their ends. It returns what is wrong, "" for nothing.
static std::string run_block() {
	for (int i = 0; i < threads; i++) {
		fiber &f = fibers[i];
		if (!f.stack) {
			f.stack = (char *)mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (f.stack == MAP_FAILED) return "no memory for its threads' stacks";
		}
		getcontext(&f.context);
		f.context.uc_stack.ss_sp = f.stack, f.context.uc_stack.ss_size = STACK, f.context.uc_link = NULL;
		makecontext(&f.context, fiber_main, 0);
		f.state = READY, f.copies.clear(), f.groups = 0;
		unsigned x = runtime.blockDim.x, y = runtime.blockDim.y;
		f.index = {i % x, i / x % y, i / x / y};
	}
	for (;;) {
		bool moved = false;
		for (int n = 0; n < threads; n++) {
			const int i = backwards ? threads - 1 - n : n;
			if (fibers[i].state != READY) continue;
			running = i, runtime.threadIdx = fibers[i].index;
			swapcontext(&scheduler, &fibers[i].context);
			if (fault != "") return "thread " + std::to_string(i) + ": " + std::exchange(fault, "");
			moved = true;
		}
		for (int i = 0; i < threads; i += 32) moved |= release_warp(i);
		if (moved) continue;
		if (release_block()) continue;
		for (int i = 0; i < threads; i++) {
			if (fibers[i].state != ENDED) {
				return "thread " + std::to_string(i) + " waits for " +
				       (fibers[i].state == AT_WARP_BARRIER ? "lanes of its warp that never come" : "others of its block that never come");
			}
		}
		return "";
	}
}

// The driver.

struct CUctx_st {};
struct CUstream_st {};
static CUctx_st context;
static CUstream_st stream;

struct CUfunc_st {
	std::string name;
	void (*launch)(void **);
	int shared;
	const emulated_module *module;
};
struct CUmod_st {
	void *library;
	emulated_module given;
	std::map<std::string, CUfunc_st> functions;
};

EXPORT CUresult cuInit(unsigned int) { return CUDA_SUCCESS; }
EXPORT CUresult cuDriverGetVersion(int *v) { return *v = 13000, CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGetCount(int *n) { return *n = 1, CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGet(CUdevice *d, int ordinal) { return *d = ordinal, ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE; }
EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice) { return snprintf(name, size, "emulated GPU"), CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice) { return *uuid = {}, CUDA_SUCCESS; }
EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice) { return *bytes = MEMORY, CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute a, CUdevice) {
	switch (a) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 2; return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 1 << 20; return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: *value = 0; return CUDA_SUCCESS;
	}
	return INVALID_VALUE;
}
EXPORT CUresult cuGetErrorName(CUresult r, const char **name) {
	switch (r) {
	case CUDA_ERROR_OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return CUDA_SUCCESS;
	case INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; return CUDA_SUCCESS;
	case INVALID_IMAGE: *name = "CUDA_ERROR_INVALID_IMAGE"; return CUDA_SUCCESS;
	case NOT_FOUND: *name = "CUDA_ERROR_NOT_FOUND"; return CUDA_SUCCESS;
	case ILLEGAL_ADDRESS: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return CUDA_SUCCESS;
	case LAUNCH_FAILED: *name = "CUDA_ERROR_LAUNCH_FAILED"; return CUDA_SUCCESS;
	}
	return INVALID_VALUE;
}
EXPORT CUresult cuGetErrorString(CUresult r, const char **text) {
	*text = r == LAUNCH_FAILED ? why.c_str() : r == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "invalid argument";
	return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice) { return backwards = false, *c = &context, CUDA_SUCCESS; }
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return failed = CUDA_SUCCESS; }
EXPORT CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
EXPORT CUresult cuStreamCreate(CUstream *s, unsigned int) { return *s = &stream, CUDA_SUCCESS; }
EXPORT CUresult cuStreamDestroy_v2(CUstream) { return CUDA_SUCCESS; }
EXPORT CUresult cuStreamSynchronize(CUstream) { return failed; }
EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total) { return *available = MEMORY - in_use, *total = MEMORY, failed; }

static size_t up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// mapped is memory of so many bytes, NaN, between pages that nobody may touch. It ends where a page ends.
static char *mapped(size_t bytes) {
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = (char *)mmap(NULL, bytes + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED) return NULL;
	memset(pages, NAN_BYTE, bytes + page);
	mprotect(pages, page, PROT_NONE);
	mprotect(pages + page + bytes, page, PROT_NONE);
	return pages + page;
}

// dynamic_shared is where a block's dynamic shared memory is: it ends with the room for the most that there may be.
static char *dynamic_shared(size_t bytes) {
	const size_t room = up(MOST_SHARED, 64 << 10); // whole pages
	static char *const memory = mapped(room);
	return memory ? memory + room - up(bytes, 16) : NULL;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes) {
	std::lock_guard<std::mutex> hold(lock);
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	if (failed) return failed;
	if (bytes == 0) return INVALID_VALUE;
	if (bytes > MEMORY - in_use) return CUDA_ERROR_OUT_OF_MEMORY;
	const size_t size = up(bytes, page);
	char *const memory = mapped(size);
	if (!memory) return CUDA_ERROR_OUT_OF_MEMORY;
	char *const at = memory + size - up(bytes, 256);
	pieces[(uintptr_t)at] = {memory - page, size + 2 * page, bytes};
	in_use += bytes;
	*p = (CUdeviceptr)at;
	return CUDA_SUCCESS;
}
EXPORT CUresult cuMemFree_v2(CUdeviceptr p) {
	std::lock_guard<std::mutex> hold(lock);
	auto found = pieces.find(p);
	if (found == pieces.end()) return INVALID_VALUE;
	munmap(found->second.pages, found->second.mapped);
	in_use -= found->second.bytes;
	pieces.erase(found);
	return failed;
}
EXPORT CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned int) { return (*memory = malloc(bytes)) ? failed : CUDA_ERROR_OUT_OF_MEMORY; }
EXPORT CUresult cuMemFreeHost(void *memory) { return free(memory), failed; }
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream) {
	if (failed) return failed;
	if (!inside(to, bytes)) return INVALID_VALUE;
	return memcpy((void *)to, from, bytes), CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream) {
	if (failed) return failed;
	if (!inside(from, bytes)) return INVALID_VALUE;
	return memcpy(to, (void *)from, bytes), CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
	if (failed) return failed;
	if (!inside(from, bytes) || !inside(to, bytes)) return INVALID_VALUE;
	return memmove((void *)to, (void *)from, bytes), CUDA_SUCCESS;
}
EXPORT CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char value, size_t bytes, CUstream) {
	if (failed) return failed;
	if (!inside(p, bytes)) return INVALID_VALUE;
	return memset((void *)p, value, bytes), CUDA_SUCCESS;
}

static const char MAGIC[8] = {'e', 'm', 'u', 'l', 'a', 't', 'e', 'd'};

// An image is MAGIC, its library's length in eight bytes, and the library.
EXPORT CUresult cuModuleLoadData(CUmodule *m, const void *image) {
	uint64_t bytes;
	if (failed) return failed;
	if (memcmp(image, MAGIC, 8)) return INVALID_IMAGE;
	memcpy(&bytes, (const char *)image + 8, 8);
	int file = memfd_create("emulated", MFD_CLOEXEC);
	if (file < 0 || write(file, (const char *)image + 16, bytes) != (ssize_t)bytes) return INVALID_IMAGE;
	std::string path = "/proc/self/fd/" + std::to_string(file);
	void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); // the file stays open: two of one name would be one library
	auto load = library ? (void (*)(emulated_runtime *, emulated_module *))dlsym(library, "emulated_load") : NULL;
	if (!load) return INVALID_IMAGE;
	*m = new CUmod_st{library, {}, {}};
	load(&runtime, &(*m)->given);
	return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
	if (failed) return failed;
	auto launch = (void (*)(void **))dlsym(m->library, (std::string("emulated_") + name).c_str());
	if (!launch) return NOT_FOUND;
	*f = &(m->functions[name] = {name, launch, 48 << 10, &m->given});
	return CUDA_SUCCESS;
}
EXPORT CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int value) {
	if (a != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > MOST_SHARED) return INVALID_VALUE;
	return f->shared = value, failed;
}
EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
	unsigned int bz, unsigned int shared, CUstream, void **parameters, void **extra) {
	std::lock_guard<std::mutex> hold(lock);
	if (failed) return failed;
	if (!gx || !gy || gy > 65535 || !gz || gz > 65535 || !bx || !by || !bz || (uint64_t)bx * by * bz > MOST_THREADS || (int)shared > f->shared || extra) return INVALID_VALUE;
	threads = (int)(bx * by * bz), entry = f->launch, entry_parameters = parameters;
	runtime.sync_block = sync_block, runtime.meet = meet, runtime.fault = end_with;
	runtime.copy_async = copy_async, runtime.copy_commit = copy_commit, runtime.copy_wait = copy_wait;
	char *const dynamic = dynamic_shared(shared);
	if (!dynamic) return CUDA_ERROR_OUT_OF_MEMORY;
	const emulated_module &m = *f->module;
	for (void **p = m.dynamic; p < m.dynamic_end; p++) *p = dynamic;
	runtime.blockDim = {bx, by, bz}, runtime.gridDim = {gx, gy, gz};
	struct sigaction mine = {};
	mine.sa_sigaction = on_fault, mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
	sigaction(SIGSEGV, &mine, &before);
	launching = true;
	const uint64_t blocks = (uint64_t)gx * gy * gz;
	for (uint64_t n = 0; n < blocks && !failed; n++) {
		const uint64_t i = backwards ? blocks - 1 - n : n;
		const uint3 at = runtime.blockIdx = {(unsigned)(i % gx), (unsigned)(i / gx % gy), (unsigned)(i / gx / gy)};
		if (m.shared) memset(m.shared, NAN_BYTE, m.shared_end - m.shared);
		memset(dynamic, NAN_BYTE, shared);
		const std::string wrong = run_block();
		if (wrong == "") continue;
		why = "kernel " + f->name + ", block " + std::to_string(at.x) + "," + std::to_string(at.y) + "," + std::to_string(at.z) + ": " + wrong;
		failed = LAUNCH_FAILED; // as on a GPU, it comes out of a later call
	}
	launching = false;
	sigaction(SIGSEGV, &before, NULL);
	backwards = !backwards;
	return CUDA_SUCCESS;
}

struct CUevent_st {
	timespec at;
};
EXPORT CUresult cuEventCreate(CUevent *e, unsigned int) { return *e = new CUevent_st(), failed; }
EXPORT CUresult cuEventRecord(CUevent e, CUstream) { return clock_gettime(CLOCK_MONOTONIC, &e->at), failed; }
EXPORT CUresult cuEventSynchronize(CUevent) { return failed; }
EXPORT CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
	*ms = 1e3f * (float)(b->at.tv_sec - a->at.tv_sec) + 1e-6f * (float)(b->at.tv_nsec - a->at.tv_nsec);
	return failed;
}
EXPORT CUresult cuEventDestroy_v2(CUevent e) { return delete e, failed; }

// The compiler.

struct _nvrtcProgram {
	std::string source, name, log, image;
	std::map<std::string, std::string> headers;
};

EXPORT const char *nvrtcGetErrorString(nvrtcResult r) { return r == NVRTC_ERROR_COMPILATION ? "NVRTC_ERROR_COMPILATION" : "the C++ compiler cannot be run, or there is no room for its files"; }
EXPORT nvrtcResult nvrtcVersion(int *major, int *minor) { return *major = 0, *minor = EMULATED_VERSION, NVRTC_SUCCESS; }
EXPORT nvrtcResult nvrtcGetNumSupportedArchs(int *n) { return *n = 1, NVRTC_SUCCESS; }
EXPORT nvrtcResult nvrtcGetSupportedArchs(int *archs) { return archs[0] = 90, NVRTC_SUCCESS; }
EXPORT nvrtcResult nvrtcCreateProgram(nvrtcProgram *p, const char *source, const char *name, int headers, const char *const *contents,
	const char *const *names) {
	*p = new _nvrtcProgram{source, name, "", "", {}};
	for (int i = 0; i < headers; i++) (*p)->headers[names[i]] = contents[i];
	return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcDestroyProgram(nvrtcProgram *p) { return delete *p, *p = NULL, NVRTC_SUCCESS; }

static bool put(const std::string &path, const std::string &text) {
	FILE *f = fopen(path.c_str(), "w");
	if (!f) return false;
	bool ok = fwrite(text.data(), 1, text.size(), f) == text.size();
	return fclose(f) == 0 && ok;
}

static std::string get(const std::string &path) {
	std::string text;
	char part[1 << 16];
	FILE *f = fopen(path.c_str(), "r");
	for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0;) text.append(part, n);
	if (f) fclose(f);
	return text;
}

// kernels lists a source's __global__ functions.
static std::vector<std::string> kernels(const std::string &source) {
	static const std::regex global("__global__\\s+void\\s+(?:__launch_bounds__\\s*\\((?:[^()]|\\([^()]*\\))*\\)\\s*)?(\\w+)\\s*\\(");
	std::vector<std::string> names;
	for (std::sregex_iterator i(source.begin(), source.end(), global), end; i != end; ++i) names.push_back((*i)[1]);
	return names;
}

// translated is a source or header with dynamic shared memory declared as C++ can: as a pointer, which a launch sets.
static std::string translated(const std::string &source) {
	static const std::regex dynamic("\\bextern\\s+__shared__\\s+([^;\\[\\]]*\\W)(\\w+)\\s*\\[\\s*\\]\\s*;");
	return std::regex_replace(source, dynamic, "EMULATED_DYNAMIC $1*$2;");
}

EXPORT nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int count, const char *const *options) {
	const char *folder = getenv("TMPDIR");
	std::string dir = std::string(folder && *folder ? folder : "/tmp") + "/restyle-emulated-XXXXXX";
	if (!mkdtemp(&dir[0])) return NVRTC_ERROR_INTERNAL_ERROR;
	std::string at = dir + "/", end;
	for (auto &name : kernels(p->source)) end += "EMULATED_KERNEL(" + name + ")\n";
	// Of what is in a namespace without a name, even a template's shared memory is in the section where the driver looks for it.
	bool ok = put(at + p->name, "#include \"emulated_device.hpp\"\nnamespace {\n#line 1\n" + translated(p->source) + "\n}\n" + end) && put(at + "emulated_device.hpp", DEVICE_HPP);
	for (auto &h : p->headers) ok = ok && put(at + h.first, translated(h.second));
	std::vector<std::string> words = {COMPILER_PATH, "-std=c++17", "-O1", "-ffp-contract=off", "-w", "-shared", "-fPIC", "-fvisibility=hidden", "-x", "c++", at + p->name, "-o", at + "out"};
	for (int i = 0; i < count; i++)
		if (!strncmp(options[i], "-D", 2)) words.push_back(options[i]);
	std::vector<char *> args;
	for (auto &w : words) args.push_back((char *)w.c_str());
	args.push_back(NULL);
	pid_t child = ok ? fork() : -1;
	if (child == 0) {
		if (!freopen((at + "log").c_str(), "w", stderr)) _exit(126);
		dup2(2, 1);
		execvp(args[0], args.data());
		_exit(127);
	}
	int status = -1;
	if (child > 0) waitpid(child, &status, 0);
	p->log = get(at + "log");
	std::string library = get(at + "out");
	for (auto &h : p->headers) unlink((at + h.first).c_str());
	for (auto &name : {p->name, std::string("emulated_device.hpp"), std::string("log"), std::string("out")}) unlink((at + name).c_str());
	rmdir(dir.c_str());
	if (child < 0 || WEXITSTATUS(status) >= 126) return NVRTC_ERROR_INTERNAL_ERROR;
	if (status != 0) return NVRTC_ERROR_COMPILATION;
	uint64_t bytes = library.size();
	p->image = std::string(MAGIC, 8) + std::string((char *)&bytes, 8) + library;
	return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *bytes) { return *bytes = p->log.size() + 1, NVRTC_SUCCESS; }
EXPORT nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *log) { return memcpy(log, p->log.c_str(), p->log.size() + 1), NVRTC_SUCCESS; }
EXPORT nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *bytes) { return *bytes = p->image.size(), NVRTC_SUCCESS; }
EXPORT nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *image) { return memcpy(image, p->image.data(), p->image.size()), NVRTC_SUCCESS; }
EXPORT nvrtcResult nvrtcGetPTXSize(nvrtcProgram p, size_t *bytes) { return nvrtcGetCUBINSize(p, bytes); }
EXPORT nvrtcResult nvrtcGetPTX(nvrtcProgram p, char *image) { return nvrtcGetCUBIN(p, image); }
