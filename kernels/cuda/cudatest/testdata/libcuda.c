// A stand-in for NVIDIA's driver that keeps its rules, for tests on machines without a GPU: GPUs are numbered in the
// order of the bus; a context belongs to a thread;
// memory of a GPU is known by its address, is little, and is checked at every access; a fault comes out of a later
// call, and then out of every one. Two GPUs. A module is the text "kernels", with these functions:
//
//   put(char *to, int i, float f, long long n)   stores its arguments at to, one after the other, as 4, 4 and 8 bytes
//   shape(int to[8])                             stores its grid, its block, its shared memory, and the most that it may have
//   fault()                                      reads where no memory is
//   refuse()                                     cannot be launched
//
// Environment variables set the situation. Of numbers with commas between them, each is a GPU's, and others are as
// usual.
//
//   STANDIN_INIT        what cuInit answers
//   STANDIN_DRIVER      the newest CUDA that the driver knows
//   STANDIN_GPUS        how many there are, up to four
//   STANDIN_CAPABILITY  75 for 7.5
//   STANDIN_MODE        the compute mode; in those that keep this process out, it is kept out
//   STANDIN_MEMORY      bytes of memory in all
//   STANDIN_LARGEST     the most bytes that are allocated at once
//   STANDIN_USED        bytes of memory that other processes have
//   STANDIN_FAULT       what a fault is
//   STANDIN_IDLE        1: every module is loaded and has every function, which does nothing
//   STANDIN_BROKEN      1: every launch is a fault
//   STANDIN_LOAD        what loading a module answers
//
// The library is cuBLASLt too, as far as a run needs it whose launches do nothing, with two algorithms for each
// product:
//
//   STANDIN_BLAS        its version
//   STANDIN_SECOND      how long the second algorithm takes; the first takes 100
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../api.h"
#include "../../blas.h"

enum { GPUS = 4, BLOCKS = 64, CAPACITY = 1 << 20 };
enum { FAULT = 700, INVALID_VALUE = 1, INVALID_CONTEXT = 201, STUB_LIBRARY = 34, UNAVAILABLE = 46, UNKNOWN = 999,
	INVALID_IMAGE = 200, NOT_FOUND = 500 };

struct CUctx_st {
	int users;
	int generation; // raised when it is destroyed, so that threads which had it bound notice
	CUresult pending, failed; // a fault that no call has returned yet, and one that a call has
	struct {
		char *at;
		size_t bytes;
	} block[BLOCKS];
	size_t used;
};

static struct CUctx_st contexts[GPUS];

// setting is a GPU's number in an environment variable.
static long setting(const char *name, int device, long usual) {
	const char *text = getenv(name);
	for (; text && *text && device > 0; device--) {
		text = strchr(text, ',');
		if (text) text++;
	}
	return text && *text && *text != ',' ? atol(text) : usual;
}
static long memory(int device) { return setting("STANDIN_MEMORY", device, CAPACITY); }
static int gpus(void) { return setting("STANDIN_GPUS", 0, 2); }
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread struct CUctx_st *current;
static __thread int generation;
static int initialised;

struct CUfunc_st {
	const char *name;
	int shared;
};
static struct CUfunc_st functions[] = {{"put"}, {"shape"}, {"fault"}, {"refuse"}};
static struct CUfunc_st idle = {"idle", 1 << 20};
static int idles(void) { return setting("STANDIN_IDLE", 0, 0); }

// ENTER begins every function that works on a context, and LEAVE ends it.
#define ENTER \
	if (!current || current->users == 0 || generation != current->generation) return INVALID_CONTEXT; \
	pthread_mutex_lock(&lock); \
	CUresult r = current->failed;
#define LEAVE \
	pthread_mutex_unlock(&lock); \
	return r;

static int inside(CUdeviceptr p, size_t bytes) {
	for (int i = 0; i < BLOCKS; i++) {
		char *at = current->block[i].at;
		if (at && (char *)p >= at && (char *)p + bytes <= at + current->block[i].bytes) return 1;
	}
	return 0;
}

CUresult cuInit(unsigned int flags) {
	const char *order = getenv("CUDA_DEVICE_ORDER");
	CUresult r = flags || !order || strcmp(order, "PCI_BUS_ID") ? INVALID_VALUE : setting("STANDIN_INIT", 0, CUDA_SUCCESS);
	initialised = r == CUDA_SUCCESS;
	return r;
}
CUresult cuDriverGetVersion(int *v) { *v = setting("STANDIN_DRIVER", 0, 13000); return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int *n) { *n = gpus(); return initialised ? CUDA_SUCCESS : 3; }
CUresult cuDeviceGetName(char *name, int size, CUdevice d) {
	snprintf(name, size, "Stand-in %d", d);
	return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice d) {
	for (int i = 0; i < 15; i++) uuid->bytes[i] = (char)(0xA0 + i);
	uuid->bytes[15] = d;
	return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice d) { *bytes = memory(d); return CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice *d, int ordinal) {
	*d = ordinal;
	return ordinal >= 0 && ordinal < gpus() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute a, CUdevice d) {
	switch (a) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		*value = setting("STANDIN_CAPABILITY", d, 90 + d) / 10;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		*value = setting("STANDIN_CAPABILITY", d, 90 + d) % 10;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: *value = setting("STANDIN_MODE", d, 0); return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 1000000; return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 4096; return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 1 << 20; return CUDA_SUCCESS;
	}
	return INVALID_VALUE;
}

static const struct {
	CUresult code;
	const char *name, *text;
} results[] = {
	{INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{STUB_LIBRARY, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
	{UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
	{CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
	{INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
	{214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
	{716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
	{222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
	{NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{FAULT, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
	{702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
	{802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
	{803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
	{804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility was attempted on non supported HW"},
	{UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

// Of a code that the driver does not know, it leaves name and text as they were.
CUresult cuGetErrorName(CUresult r, const char **name) {
	for (unsigned i = 0; i < sizeof results / sizeof *results; i++) {
		if (results[i].code == r) return *name = results[i].name, CUDA_SUCCESS;
	}
	return INVALID_VALUE;
}
CUresult cuGetErrorString(CUresult r, const char **text) {
	for (unsigned i = 0; i < sizeof results / sizeof *results; i++) {
		if (results[i].code == r) return *text = results[i].text, CUDA_SUCCESS;
	}
	return INVALID_VALUE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) {
	int mode = setting("STANDIN_MODE", d, 0);
	if (setting("STANDIN_USED", d, 0) >= memory(d)) return CUDA_ERROR_OUT_OF_MEMORY; // a context takes some
	if (mode) return mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS ? UNAVAILABLE : UNKNOWN;
	pthread_mutex_lock(&lock);
	*c = &contexts[d];
	contexts[d].users++;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) {
	pthread_mutex_lock(&lock);
	struct CUctx_st *c = &contexts[d];
	if (--c->users == 0) {
		for (int i = 0; i < BLOCKS; i++) free(c->block[i].at);
		*c = (struct CUctx_st){.generation = c->generation + 1};
	}
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext c) {
	current = c;
	generation = c->generation;
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *s, unsigned int flags) { ENTER *s = (CUstream)current; LEAVE }
CUresult cuStreamCreateWithPriority(CUstream *s, unsigned int flags, int priority) { return cuStreamCreate(s, flags); }
CUresult cuStreamDestroy_v2(CUstream s) { ENTER if ((void *)s != current) r = INVALID_VALUE; LEAVE }
CUresult cuStreamSynchronize(CUstream s) {
	ENTER
	if ((void *)s != current) r = INVALID_VALUE;
	if (!r) r = current->failed = current->pending;
	LEAVE
}
CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned int flags) { ENTER LEAVE }

// room is the memory that is left.
static size_t room(void) {
	int device = current - contexts;
	return memory(device) - current->used - setting("STANDIN_USED", device, 0);
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
	ENTER *available = room();
	*total = memory(current - contexts);
	LEAVE
}
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes) {
	ENTER
	int i = 0;
	while (i < BLOCKS && current->block[i].at) i++;
	if (!r && bytes == 0) r = INVALID_VALUE;
	if (!r && (i == BLOCKS || bytes > room() || bytes > (size_t)setting("STANDIN_LARGEST", 0, LONG_MAX)))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (!r) {
		current->block[i].at = aligned_alloc(256, (bytes + 255) / 256 * 256);
		memset(current->block[i].at, 0, bytes);
		current->block[i].bytes = bytes;
		current->used += bytes;
		*p = (CUdeviceptr)current->block[i].at;
	}
	LEAVE
}
CUresult cuMemFree_v2(CUdeviceptr p) {
	ENTER
	int i = 0;
	while (i < BLOCKS && current->block[i].at != (char *)p) i++;
	if (!r && (!p || i == BLOCKS)) r = INVALID_VALUE;
	if (!r) {
		free(current->block[i].at);
		current->used -= current->block[i].bytes;
		current->block[i].at = NULL;
	}
	LEAVE
}
CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags) {
	ENTER
	if (!r) *memory = malloc(bytes);
	LEAVE
}
CUresult cuMemFreeHost(void *memory) {
	ENTER
	free(memory);
	LEAVE
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream s) {
	ENTER
	if (!r && !inside(to, bytes)) r = INVALID_VALUE;
	if (!r) memcpy((void *)to, from, bytes);
	LEAVE
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream s) {
	ENTER
	if (!r && !inside(from, bytes)) r = INVALID_VALUE;
	if (!r) memcpy(to, (void *)from, bytes);
	LEAVE
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
	ENTER
	if (!r && (!inside(from, bytes) || !inside(to, bytes))) r = INVALID_VALUE;
	if (!r) memmove((void *)to, (void *)from, bytes);
	LEAVE
}
CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char value, size_t bytes, CUstream s) {
	ENTER
	if (!r && !inside(p, bytes)) r = INVALID_VALUE;
	if (!r) memset((void *)p, value, bytes);
	LEAVE
}
CUresult cuMemsetD32Async(CUdeviceptr p, unsigned int value, size_t count, CUstream s) {
	ENTER
	for (size_t i = 0; !r && i < count; i++) ((unsigned int *)p)[i] = value;
	LEAVE
}

CUresult cuModuleLoadData(CUmodule *m, const void *image) {
	ENTER
	if (!r) r = setting("STANDIN_LOAD", 0, !idles() && strncmp(image, "kernels", 7) ? INVALID_IMAGE : CUDA_SUCCESS);
	for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++) functions[i].shared = 48 << 10;
	*m = (CUmodule)current;
	LEAVE
}
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
	ENTER
	*f = idles() ? &idle : NULL;
	for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++) {
		if (!strcmp(name, functions[i].name)) *f = &functions[i];
	}
	if (!r && (void *)m != current) r = INVALID_VALUE;
	if (!r && !*f) r = NOT_FOUND;
	LEAVE
}
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int value) {
	ENTER
	if (!r && (a != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > 228 << 10)) r = INVALID_VALUE;
	if (!r && (f != &idle || value > f->shared)) f->shared = value; // all kernels of an idle GPU are one
	LEAVE
}
CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
	unsigned int by, unsigned int bz, unsigned int shared, CUstream s, void **p, void **extra) {
	ENTER
	if (!r &&
		(!gx || !gy || !gz || !bx || bx * by * bz > 1024 || (int)shared > f->shared || (void *)s != current || extra)) {
		r = INVALID_VALUE;
	}
	if (!r && !strcmp(f->name, "refuse")) r = INVALID_VALUE;
	if (!r && (!strcmp(f->name, "fault") || setting("STANDIN_BROKEN", 0, 0)))
		current->pending = setting("STANDIN_FAULT", 0, FAULT);
	if (!r && !strcmp(f->name, "shape")) {
		memcpy(*(void **)p[0], (int[]){gx, gy, gz, bx, by, bz, shared, f->shared}, 32);
	}
	if (!r && !strcmp(f->name, "put")) {
		char *to = *(char **)p[0];
		if (inside((CUdeviceptr)to, 16)) {
			memcpy(to, p[1], 4);
			memcpy(to + 4, p[2], 4);
			memcpy(to + 8, p[3], 8);
		} else {
			current->pending = setting("STANDIN_FAULT", 0, FAULT);
		}
	}
	LEAVE
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **p, void **extra) {
	return cuLaunchKernel(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ,
		c->sharedMemBytes, c->hStream, p, extra);
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
	const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps,
	CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
	CUtensorMapFloatOOBfill fill) {
	ENTER memset(map, 0, sizeof *map);
	LEAVE
}

// An event is a millisecond after the one before it.
struct CUevent_st {
	int at;
};
CUresult cuEventCreate(CUevent *e, unsigned int flags) { ENTER *e = calloc(1, sizeof **e); LEAVE }
static long ticks;
CUresult cuEventRecord(CUevent e, CUstream s) {
	ENTER e->at = ticks++;
	LEAVE
}
CUresult cuEventSynchronize(CUevent e) { return cuStreamSynchronize((CUstream)current); }
CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) { ENTER *ms = b->at - a->at; LEAVE }
CUresult cuEventDestroy_v2(CUevent e) { ENTER free(e); LEAVE }

// Graphs are made and launched, and do nothing.
struct CUgraph_st {
	int launches;
};
CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode) { ENTER LEAVE }
CUresult cuStreamEndCapture(CUstream s, CUgraph *graph) { ENTER *graph = calloc(1, sizeof **graph); LEAVE }
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
	ENTER *exec = calloc(1, 1);
	LEAVE
}
CUresult cuGraphDestroy(CUgraph graph) { ENTER free(graph); LEAVE }
CUresult cuGraphLaunch(CUgraphExec exec, CUstream s) { ENTER LEAVE }
CUresult cuGraphExecDestroy(CUgraphExec exec) { ENTER free(exec); LEAVE }

cublasStatus_t cublasLtCreate(cublasLtHandle_t *h) { return *h = calloc(1, 1), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) { return free(h), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t c, cudaDataType s) {
	return *d = calloc(1, 1), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return free(d), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescSetAttribute(
	cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t a, const void *value, size_t bytes) {
	return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(
	cublasLtMatrixLayout_t *l, cudaDataType t, uint64_t rows, uint64_t cols, int64_t ld) {
	return *l = calloc(1, 1), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(
	cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t a, const void *value, size_t bytes) {
	return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) { return free(l), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p) {
	return *p = calloc(1, 1), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) { return free(p), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
	cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t a, const void *value, size_t bytes) {
	return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
	cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t p,
	int wanted, cublasLtMatmulHeuristicResult_t *results, int *count) {
	memset(results, 0, 2 * sizeof *results);
	results[1].algo.data[0] = 1;
	return *count = 2, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t h, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
	cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo,
	cublasLtMatmulHeuristicResult_t *result) {
	return algo->data[0] < 2 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t desc, const void *alpha, const void *A,
	cublasLtMatrixLayout_t a, const void *B, cublasLtMatrixLayout_t b, const void *beta, const void *C,
	cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo, void *workspace,
	size_t bytes, cudaStream_t stream) {
	return ticks += algo->data[0] ? setting("STANDIN_SECOND", 0, 90) : 100, CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion(void) { return setting("STANDIN_BLAS", 0, 130001); }
const char *cublasLtGetStatusString(cublasStatus_t r) { return "a status"; }
