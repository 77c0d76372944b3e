// The driver: GPUs, memory, modules, launches, graphs and events.
#include "emulator.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

struct CUctx_st {};
struct CUstream_st {};
static CUctx_st context;
static CUstream_st stream, beside; // beside: of collectives
static int users;       // of the context
std::mutex lock;
CUresult failed, why_of;
std::string why;

struct CUfunc_st {
	std::string name;
	void (*launch)(void **);
	int count; // number of parameters
	int (*bytes)(int parameter);
	int shared;
	const CUmod_st *module;
	long launches;
};
struct CUmod_st {
	void *library;
	std::string path; // of its library, a file without another name
	int file;
	emulated_module given;
	uintptr_t constants, constants_end;
	std::map<std::string, CUfunc_st> functions;
};

static std::vector<CUmod_st *> modules;

// A graph is a list of launches with copies of their arguments.
struct alignas(64) argument {
	uint64_t words[16];
};
struct captured_launch {
	CUfunction function;
	unsigned int gx, gy, gz, bx, by, bz, shared;
	bool early;
	std::vector<argument> arguments;
};
struct CUgraph_st {
	std::vector<captured_launch> launches;
};
struct CUgraphExec_st {
	CUgraph_st graph;
};
static CUgraph capturing; // the graph that launches go into, or NULL

static struct {
	long call, fail;
	CUresult result;
	bool idle;
	FILE *calls;
	bool pins, late;
} situation;
static std::string situation_text; // from which the situation was read
static bool given_back = true;     // whether the GPU was closed since then

bool idle() { return situation.idle; }

static long setting(const char *name, long otherwise) {
	const char *text = getenv(name);
	return text && *text ? atol(text) : otherwise;
}

static void read_situation() {
	std::string text;
	for (const char *name :
		{"STANDIN_FAIL", "STANDIN_RESULT", "STANDIN_IDLE", "STANDIN_CALLS", "STANDIN_PINS", "STANDIN_LATE"})
		text += std::string(getenv(name) ? getenv(name) : "") + "\n";
	if (!std::exchange(given_back, false) && text == situation_text) return;
	situation_text = text;
	if (situation.calls) fclose(situation.calls);
	const char *calls = getenv("STANDIN_CALLS");
	situation = {0, setting("STANDIN_FAIL", 0), (CUresult)setting("STANDIN_RESULT", CUDA_ERROR_OUT_OF_MEMORY),
		setting("STANDIN_IDLE", 0) != 0, calls && *calls ? fopen(calls, "w") : NULL, setting("STANDIN_PINS", 1) != 0,
		setting("STANDIN_LATE", 0) != 0};
}

// to_fail counts a call and returns whether it is to fail, and its error text in text.
static bool to_fail(const char *name, std::string *text) {
	if (situation.calls) fprintf(situation.calls, "%s\n", name), fflush(situation.calls);
	if (++situation.call != situation.fail) return false;
	return *text = std::string(name) + " was told to fail", true;
}

// called is the start of every driver call. If it returns an error, the call returns that instead of doing its work.
static CUresult called(const char *name) {
	if (!to_fail(name, &why)) return failed;
	why_of = situation.result;
	if (why_of == 214 || why_of >= 700) failed = why_of;
	return why_of;
}
#define CALLED \
	LOCKED; \
	if (const CUresult r_ = called(__func__)) return r_

std::string told_why;
bool told(const char *name) {
	LOCKED;
	return to_fail(name, &told_why);
}

const char *lasting(const std::string &text) {
	static std::set<std::string> all;
	LOCKED;
	return all.insert(text).first->c_str();
}

// The queued work in order, and the number of items done before.
static std::deque<std::function<CUresult()>> queued;
static long done;

CUresult queue(std::function<CUresult()> work) {
	if (!situation.late) return work();
	return queued.push_back(std::move(work)), CUDA_SUCCESS;
}

// all_queued returns the number of items done when all that is queued now is done.
static long all_queued() { return done + (long)queued.size(); }

// catch_up does queued work until until items are done, and returns the result of a call that waits for it.
static CUresult catch_up(long until) {
	for (; done < until; done++) {
		const auto work = std::move(queued.front());
		queued.pop_front();
		const CUresult r = failed ? failed : work();
		if (!failed) failed = r;
	}
	return failed;
}

// Host memory that the GPU reads and writes by itself; from other memory it takes what is there when the call is made.
static std::map<uintptr_t, size_t> pinned;
static bool is_pinned(const void *memory) {
	auto after = pinned.upper_bound((uintptr_t)memory);
	return after != pinned.begin() && (uintptr_t)memory < (--after)->first + after->second;
}

// NOT_CAPTURED is for calls that wait, and for calls that this driver cannot put into graphs.
#define NOT_CAPTURED \
	if (capturing) return CAPTURE_UNSUPPORTED

EXPORT CUresult cuDriverGetVersion(int *v) {
	LOCKED;
	if (!users) read_situation(), failed = CUDA_SUCCESS; // failures from before the GPU was opened are over
	if (const CUresult r = called(__func__)) return r;
	return *v = 13000, CUDA_SUCCESS;
}
EXPORT CUresult cuInit(unsigned int) {
	CALLED;
	return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetCount(int *n) {
	CALLED;
	return *n = 1, CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGet(CUdevice *d, int ordinal) {
	CALLED;
	return *d = ordinal, ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice) {
	CALLED;
	return snprintf(name, size, "emulated GPU"), CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice) {
	CALLED;
	return *uuid = {}, CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice) {
	CALLED;
	return *bytes = MEMORY, CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute a, CUdevice) {
	CALLED;
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
	static const std::map<CUresult, const char *> names = {{CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
		{INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"}, {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
		{NOT_FOUND, "CUDA_ERROR_NOT_FOUND"}, {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
		{ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {702, "CUDA_ERROR_LAUNCH_TIMEOUT"},
		{LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"}, {999, "CUDA_ERROR_UNKNOWN"}};
	const auto found = names.find(r);
	return found == names.end() ? INVALID_VALUE : (*name = found->second, CUDA_SUCCESS);
}
EXPORT CUresult cuGetErrorString(CUresult r, const char **text) {
	*text = r == why_of ? lasting(why) : r == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "invalid argument";
	return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice) {
	CALLED;
	return users++, *c = &context, CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
	LOCKED;
	failed = CUDA_SUCCESS;
	const CUresult r = called(__func__);
	failed = CUDA_SUCCESS;
	if (--users > 0) return r;
	delete capturing, capturing = NULL;
	done = all_queued(), queued.clear();
	release_all();
	for (const CUmod_st *m : modules) {
		dlclose(m->library);
		if (!dlopen(m->path.c_str(), RTLD_NOW | RTLD_NOLOAD)) close(m->file); // two libraries with the same path would be one
		delete m;
	}
	modules.clear(), given_back = true;
	return r;
}
EXPORT CUresult cuCtxSetCurrent(CUcontext) {
	CALLED;
	return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamCreate(CUstream *s, unsigned int) {
	CALLED;
	return *s = &stream, CUDA_SUCCESS;
}
EXPORT CUresult cuStreamCreateWithPriority(CUstream *s, unsigned int, int) {
	CALLED;
	return *s = &beside, CUDA_SUCCESS;
}
EXPORT CUresult cuStreamDestroy_v2(CUstream) {
	CALLED;
	return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamSynchronize(CUstream s) {
	CALLED;
	NOT_CAPTURED;
	if (s == &beside) wait_beside(beside_queued());
	return catch_up(all_queued());
}
EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
	CALLED;
	return *available = MEMORY - in_use, *total = MEMORY, CUDA_SUCCESS;
}
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes) {
	CALLED;
	if (bytes == 0) return INVALID_VALUE;
	if (bytes > MEMORY - in_use) return CUDA_ERROR_OUT_OF_MEMORY;
	const uintptr_t at = allocate(bytes);
	return at ? (*p = at, CUDA_SUCCESS) : CUDA_ERROR_OUT_OF_MEMORY;
}
EXPORT CUresult cuMemFree_v2(CUdeviceptr p) {
	CALLED;
	if (!allocated(p)) return INVALID_VALUE;
	if (const CUresult r = catch_up(all_queued())) return r;
	return release(p), CUDA_SUCCESS;
}

// emulated_belongs is not a function of CUDA's: it tells that part of an allocation belongs to something, or to
// nothing, so that kernels must not touch it. Either way it becomes NaN, as if it had just been allocated. If it is
// called for an allocation, half of that is room between what belongs, and is not counted.
EXPORT void emulated_belongs(CUdeviceptr p, size_t bytes, int to_something) {
	LOCKED;
	if (!divide(p, bytes)) return;
	if (situation.late) return; // queued work may use what belonged there before
	belong(p, bytes, to_something);
}
EXPORT CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned int) {
	CALLED;
	if (!situation.pins || !(*memory = malloc(bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
	pinned[(uintptr_t)*memory] = bytes;
	if (situation.late) memset(*memory, NAN_BYTE, bytes); // nothing has been copied yet
	return CUDA_SUCCESS;
}
EXPORT CUresult cuMemFreeHost(void *memory) {
	LOCKED;
	catch_up(all_queued());
	const CUresult r = called(__func__);
	pinned.erase((uintptr_t)memory);
	return r ? r : (free(memory), CUDA_SUCCESS);
}
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream) {
	CALLED;
	NOT_CAPTURED;
	if (!inside(to, bytes)) return INVALID_VALUE;
	std::string copy;
	if (situation.late && !is_pinned(from)) copy.assign((const char *)from, bytes), from = NULL;
	return queue([=] { return memcpy((void *)to, from ? from : copy.data(), bytes), wrote(to, bytes), CUDA_SUCCESS; });
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream) {
	CALLED;
	NOT_CAPTURED;
	if (!inside(from, bytes)) return INVALID_VALUE;
	const CUresult r = queue([=] { return memcpy(to, (void *)from, bytes), CUDA_SUCCESS; });
	return is_pinned(to) ? r : catch_up(all_queued());
}
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
	CALLED;
	NOT_CAPTURED;
	if (!inside(from, bytes) || !inside(to, bytes)) return INVALID_VALUE;
	return queue([=] { return memmove((void *)to, (void *)from, bytes), wrote_as(to, from, bytes), CUDA_SUCCESS; });
}
EXPORT CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char value, size_t bytes, CUstream) {
	CALLED;
	NOT_CAPTURED;
	if (!inside(p, bytes)) return INVALID_VALUE;
	return queue([=] { return memset((void *)p, value, bytes), wrote(p, bytes), CUDA_SUCCESS; });
}
EXPORT CUresult cuMemsetD32Async(CUdeviceptr p, unsigned int value, size_t count, CUstream) {
	CALLED;
	NOT_CAPTURED;
	const bool on_host = is_pinned((void *)p);
	if (p % 4 || (!on_host && !inside(p, 4 * count))) return INVALID_VALUE;
	return queue([=] {
		for (size_t i = 0; i < count; i++) __atomic_store_n((unsigned int *)p + i, value, __ATOMIC_RELEASE);
		if (!on_host) wrote(p, 4 * count);
		return CUDA_SUCCESS;
	});
}

// note_constants finds the read-only part of a module's library: constants are there.
static int note_constants(dl_phdr_info *info, size_t, void *search_) {
	const auto *search = (std::pair<CUmod_st *, uintptr_t> *)search_;
	for (int i = 0; info->dlpi_addr == search->second && i < info->dlpi_phnum; i++) {
		const auto &h = info->dlpi_phdr[i];
		if (h.p_type != PT_LOAD || h.p_flags & PF_W) continue;
		search->first->constants = std::min(search->first->constants, (uintptr_t)(info->dlpi_addr + h.p_vaddr));
		search->first->constants_end =
			std::max(search->first->constants_end, (uintptr_t)(info->dlpi_addr + h.p_vaddr + h.p_memsz));
	}
	return 0;
}

// An image is MAGIC, the length of its library in eight bytes, and the library.
EXPORT CUresult cuModuleLoadData(CUmodule *m, const void *image) {
	CALLED;
	uint64_t bytes;
	if (memcmp(image, MAGIC, 8)) return INVALID_IMAGE;
	memcpy(&bytes, (const char *)image + 8, 8);
	int file = memfd_create("emulated", MFD_CLOEXEC);
	if (file < 0 || write(file, (const char *)image + 16, bytes) != (ssize_t)bytes) return INVALID_IMAGE;
	std::string path = "/proc/self/fd/" + std::to_string(file);
	void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
	auto load = library ? (void (*)(emulated_module *))dlsym(library, "emulated_load") : NULL;
	if (!load) return why = dlerror(), why_of = INVALID_IMAGE;
	CUmod_st *const made = *m = modules.emplace_back(new CUmod_st{library, path, file, {}, ~(uintptr_t)0, 0, {}});
	load(&made->given);
	Dl_info info;
	if (!dladdr((void *)load, &info)) return INVALID_IMAGE;
	std::pair<CUmod_st *, uintptr_t> search = {made, (uintptr_t)info.dli_fbase};
	dl_iterate_phdr(note_constants, &search);
	return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
	CALLED;
	auto launch = (void (*)(void **))dlsym(m->library, (std::string("emulated_") + name).c_str());
	auto count = (int (*)())dlsym(m->library, (std::string("emulated_count_") + name).c_str());
	auto bytes = (int (*)(int))dlsym(m->library, (std::string("emulated_bytes_") + name).c_str());
	if (!launch || !count || !bytes) return NOT_FOUND;
	return *f = &(m->functions[name] = {name, launch, count(), bytes, 48 << 10, m, 0}), CUDA_SUCCESS;
}
EXPORT CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int value) {
	CALLED;
	if (a != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > MAX_SHARED) return INVALID_VALUE;
	return f->shared = value, CUDA_SUCCESS;
}

// launch runs a kernel.
static CUresult launch(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
	unsigned int by, unsigned int bz, unsigned int shared, bool is_early, void **parameters) {
	if (situation.idle || failed) return CUDA_SUCCESS;
	const emulated_module &m = f->module->given;
	char *const dynamic = share(m, f->module->constants, f->module->constants_end, shared);
	if (!dynamic) return CUDA_ERROR_OUT_OF_MEMORY;
	// A kernel that runs for the thousandth time has shown its races: they depend on which thread does what.
	const bool watched = f->launches < 100 || f->launches / 2 % 16 == 0;
	const bool backwards = f->launches++ % 2; // the order of blocks and of threads must not matter
	char *const stacks = begin_threads((int)(bx * by * bz), backwards, f->launch, parameters);
	if (!stacks) return CUDA_ERROR_OUT_OF_MEMORY;
	runtime = m.runtime;
	*runtime = {{}, {}, {bx, by, bz}, {gx, gy, gz}, (uintptr_t)stacks, (size_t)MAX_THREADS * STACK, dynamic, access_of,
		misaligned, sync_block, sync_warp, meet, mma, mma_tf32, mma_bytes, ldmatrix, copy_async, copy_commit, copy_wait,
		fence, barrier_init, barrier_arrive, barrier_wait, tile_load, tile_store, tile_read, tile_matrices,
		tile_write, tile_fence, tile_commit, tile_wait, sync_some, arrive_some, stmatrix, group_multiply,
		group_commit, group_wait, wait_prerequisites,
		[](const char *what) { end_with(what); }};
	early = is_early;
	launch_begins(watched);
	const uint64_t blocks = (uint64_t)gx * gy * gz;
	for (uint64_t n = 0; n < blocks && !failed; n++) {
		const uint64_t i = backwards ? blocks - 1 - n : n;
		const uint3 at = runtime->blockIdx = {(unsigned)(i % gx), (unsigned)(i / gx % gy), (unsigned)(i / gx / gy)};
		block_begins(at);
		memset(m.shared, NAN_BYTE, m.shared_end - m.shared);
		memset(dynamic, NAN_BYTE, shared);
		start_tiles();
		const std::string wrong = run_block();
		if (wrong.empty()) continue;
		why = "kernel " + f->name + ", block " + text_of(at) + ": " + wrong;
		failed = why_of = LAUNCH_FAILED; // as on a GPU, a later call returns it
	}
	end_threads();
	return CUDA_SUCCESS;
}

static CUresult launch(captured_launch l) {
	std::vector<void *> parameters;
	for (auto &argument : l.arguments) parameters.push_back(&argument);
	return launch(l.function, l.gx, l.gy, l.gz, l.bx, l.by, l.bz, l.shared, l.early, parameters.data());
}

static CUresult queue_launch(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
	unsigned int by, unsigned int bz, unsigned int shared, bool early, void **parameters, void **extra) {
	if (!gx || !gy || gy > 65535 || !gz || gz > 65535 || !bx || !by || !bz || (uint64_t)bx * by * bz > MAX_THREADS ||
		(int)shared > f->shared || extra)
		return INVALID_VALUE;
	captured_launch l = {f, gx, gy, gz, bx, by, bz, shared, early, {}};
	for (int i = 0; i < f->count; i++) {
		argument one = {};
		memcpy(one.words, parameters[i], f->bytes(i));
		l.arguments.push_back(one);
	}
	if (!capturing) return queue([=] { return launch(l); });
	return capturing->launches.push_back(l), CUDA_SUCCESS;
}
EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
	const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps,
	CUtensorMapInterleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
	CALLED;
	const unsigned wide = swizzle == CU_TENSOR_MAP_SWIZZLE_128B ? 64 : 32;
	if (type != CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 || rank != 2 || (uintptr_t)address % 16 || strides[0] % 16 ||
		box[0] != wide || box[1] < 1 || box[1] > 256 || steps[0] != 1 || steps[1] != 1 || !dims[0] || !dims[1])
		return INVALID_VALUE;
	const tile_map made = {(uintptr_t)address, dims[1], dims[0], strides[0], box[1], box[0]};
	return memset(map, 0, sizeof *map), memcpy(map, &made, sizeof made), CUDA_SUCCESS;
}
EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
	unsigned int by, unsigned int bz, unsigned int shared, CUstream, void **parameters, void **extra) {
	CALLED;
	return queue_launch(f, gx, gy, gz, bx, by, bz, shared, false, parameters, extra);
}
EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **parameters, void **extra) {
	CALLED;
	bool early = false;
	for (unsigned i = 0; i < c->numAttrs; i++) {
		if (c->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) return INVALID_VALUE;
		early = c->attrs[i].value.programmaticStreamSerializationAllowed;
	}
	return queue_launch(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ,
		c->sharedMemBytes,
		early, parameters, extra);
}
EXPORT CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode) {
	CALLED;
	if (capturing) return ILLEGAL_STATE;
	return capturing = new CUgraph_st(), CUDA_SUCCESS;
}
EXPORT CUresult cuStreamEndCapture(CUstream, CUgraph *graph) {
	LOCKED;
	const CUgraph made = capturing; // the capture ends even if the call is told to fail
	capturing = NULL;
	*graph = NULL;
	if (const CUresult r = called(__func__)) return delete made, r;
	return made ? (*graph = made, CUDA_SUCCESS) : ILLEGAL_STATE;
}
EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long) {
	CALLED;
	return *exec = new CUgraphExec_st{*graph}, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphDestroy(CUgraph graph) {
	delete graph;
	CALLED;
	return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream) {
	CALLED;
	NOT_CAPTURED;
	// a graph starts after everything queued before it
	if (const CUresult r = queue([] { return chain_begins(), CUDA_SUCCESS; })) return r;
	for (const captured_launch &l : exec->graph.launches)
		if (const CUresult r = queue([=] { return launch(l); })) return r;
	return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
	delete exec;
	CALLED;
	return CUDA_SUCCESS;
}

const char *products() {
	const char *text = getenv("STANDIN_PRODUCTS");
	return text && *text ? text : NULL;
}
double products_took;

struct CUevent_st {
	timespec at;
	double products;
	long until;  // number of items done when it occurs
	long beside; // number of collectives
};
EXPORT CUresult cuEventCreate(CUevent *e, unsigned int) {
	CALLED;
	return *e = new CUevent_st(), CUDA_SUCCESS;
}
EXPORT CUresult cuEventRecord(CUevent e, CUstream s) {
	CALLED;
	e->products = products_took;
	e->beside = s == &beside ? beside_queued() : 0;
	const CUresult r = queue([=] { return clock_gettime(CLOCK_MONOTONIC, &e->at), CUDA_SUCCESS; });
	return e->until = all_queued(), r;
}
EXPORT CUresult cuEventSynchronize(CUevent e) {
	CALLED;
	return catch_up(e->until);
}
// There is one queue for all streams, in the order of the calls: only collectives may not be done yet.
EXPORT CUresult cuStreamWaitEvent(CUstream, CUevent e, unsigned int) {
	CALLED;
	return wait_beside(e->beside);
}
EXPORT CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
	CALLED;
	if (products()) return *ms = (float)((b->products - a->products) / 1e3), CUDA_SUCCESS;
	*ms = 1e3f * (float)(b->at.tv_sec - a->at.tv_sec) + 1e-6f * (float)(b->at.tv_nsec - a->at.tv_nsec);
	return CUDA_SUCCESS;
}
EXPORT CUresult cuEventDestroy_v2(CUevent e) {
	CALLED;
	catch_up(e->until);
	return delete e, CUDA_SUCCESS;
}
