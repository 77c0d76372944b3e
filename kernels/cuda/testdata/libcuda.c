// A stand-in for NVIDIA's driver that keeps its rules, for tests on machines without a GPU: a context belongs to a thread;
// memory of a GPU is known by its address, is little, and is checked at every access; a fault comes out of a later call,
// and then out of every one. Two GPUs. A module is the text "kernels", with these functions:
//
//   put(char *to, int i, float f, long long n)   stores its arguments at to, one after the other, as 4, 4 and 8 bytes
//   shape(int to[8])                             stores its grid, its block, its shared memory, and the most that it may have
//   fault()                                      reads where no memory is
//   refuse()                                     cannot be launched
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../api.h"

enum { GPUS = 2, BLOCKS = 64, CAPACITY = 1 << 20 };
enum { FAULT = 700, INVALID_VALUE = 1, INVALID_CONTEXT = 201, NO_DEVICE = 100, INVALID_IMAGE = 200, NOT_FOUND = 500 };

struct CUctx_st {
	int users;
	int generation; // raised when it is destroyed, so that threads which had it bound notice
	CUresult pending, failed; // a fault that nobody has seen yet, and one that somebody has
	struct {
		char *at;
		size_t bytes;
	} block[BLOCKS];
	size_t used;
};

static struct CUctx_st contexts[GPUS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread struct CUctx_st *current;
static __thread int generation;
static int initialised;

struct CUfunc_st {
	const char *name;
	int shared;
};
static struct CUfunc_st functions[] = {{"put"}, {"shape"}, {"fault"}, {"refuse"}};

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

CUresult cuInit(unsigned int flags) { initialised = 1; return flags ? INVALID_VALUE : CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int *v) { *v = 13000; return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int *n) { *n = GPUS; return initialised ? CUDA_SUCCESS : 3; }
CUresult cuDeviceGetName(char *name, int size, CUdevice d) {
	strncpy(name, d ? "Stand-in 1" : "Stand-in 0", size);
	return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice d) { *bytes = CAPACITY; return CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice *d, int ordinal) {
	*d = ordinal;
	return ordinal >= 0 && ordinal < GPUS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute a, CUdevice d) {
	switch (a) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = d; return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 1 << 20; return CUDA_SUCCESS;
	}
	return INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult r, const char **name) {
	switch (r) {
	case CUDA_ERROR_OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return CUDA_SUCCESS;
	case INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; return CUDA_SUCCESS;
	case INVALID_CONTEXT: *name = "CUDA_ERROR_INVALID_CONTEXT"; return CUDA_SUCCESS;
	case INVALID_IMAGE: *name = "CUDA_ERROR_INVALID_IMAGE"; return CUDA_SUCCESS;
	case NOT_FOUND: *name = "CUDA_ERROR_NOT_FOUND"; return CUDA_SUCCESS;
	case FAULT: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return CUDA_SUCCESS;
	}
	return INVALID_VALUE; // as the driver does for a code that it does not know, leaving name as it was
}
CUresult cuGetErrorString(CUresult r, const char **text) {
	if (r == FAULT) *text = "an illegal memory access was encountered";
	if (r == CUDA_ERROR_OUT_OF_MEMORY) *text = "out of memory";
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) {
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
CUresult cuStreamDestroy_v2(CUstream s) { ENTER if ((void *)s != current) r = INVALID_VALUE; LEAVE }
CUresult cuStreamSynchronize(CUstream s) {
	ENTER
	if ((void *)s != current) r = INVALID_VALUE;
	if (!r) r = current->failed = current->pending;
	LEAVE
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
	ENTER *available = CAPACITY - current->used;
	*total = CAPACITY;
	LEAVE
}
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes) {
	ENTER
	int i = 0;
	while (i < BLOCKS && current->block[i].at) i++;
	if (!r && bytes == 0) r = INVALID_VALUE;
	if (!r && (i == BLOCKS || bytes > CAPACITY - current->used)) r = CUDA_ERROR_OUT_OF_MEMORY;
	if (!r) {
		current->block[i].at = aligned_alloc(256, (bytes + 255) / 256 * 256);
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

CUresult cuModuleLoadData(CUmodule *m, const void *image) {
	ENTER
	if (!r && strncmp(image, "kernels", 7)) r = INVALID_IMAGE;
	for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++) functions[i].shared = 48 << 10;
	*m = (CUmodule)current;
	LEAVE
}
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
	ENTER
	*f = NULL;
	for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++) {
		if (!strcmp(name, functions[i].name)) *f = &functions[i];
	}
	if (!r && (void *)m != current) r = INVALID_VALUE;
	if (!r && !*f) r = NOT_FOUND;
	LEAVE
}
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int value) {
	ENTER
	if (!r && (a != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > 200 << 10)) r = INVALID_VALUE;
	if (!r) f->shared = value;
	LEAVE
}
CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
	unsigned int bz, unsigned int shared, CUstream s, void **p, void **extra) {
	ENTER
	if (!r && (!gx || !gy || !gz || !bx || bx * by * bz > 1024 || (int)shared > f->shared || (void *)s != current || extra)) {
		r = INVALID_VALUE;
	}
	if (!r && !strcmp(f->name, "refuse")) r = INVALID_VALUE;
	if (!r && !strcmp(f->name, "fault")) current->pending = FAULT;
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
			current->pending = FAULT;
		}
	}
	LEAVE
}

// An event is a millisecond after the one before it.
struct CUevent_st {
	int at;
};
CUresult cuEventCreate(CUevent *e, unsigned int flags) { ENTER *e = calloc(1, sizeof **e); LEAVE }
CUresult cuEventRecord(CUevent e, CUstream s) {
	static int clock;
	ENTER e->at = clock++;
	LEAVE
}
CUresult cuEventSynchronize(CUevent e) { return cuStreamSynchronize((CUstream)current); }
CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) { ENTER *ms = b->at - a->at; LEAVE }
CUresult cuEventDestroy_v2(CUevent e) { ENTER free(e); LEAVE }
