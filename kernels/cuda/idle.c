// A driver with one GPU that does nothing: memory has addresses but no bytes, and everything read from it is zero. A
// program that runs on it shows which kernels it would launch.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

#define NOTHING(name, parameters) \
	static CUresult name parameters { return CUDA_SUCCESS; }
DRIVER(NOTHING)
#undef NOTHING

static CUresult one(int *count) { return *count = 1, CUDA_SUCCESS; }

static CUresult allocate(CUdeviceptr *address, size_t bytes) {
	static _Atomic CUdeviceptr next = 1ull << 40;
	*address = atomic_fetch_add(&next, (bytes + 255) / 256 * 256);
	return CUDA_SUCCESS;
}

static CUresult room(size_t *available, size_t *total) { return *available = *total = (size_t)1 << 46, CUDA_SUCCESS; }

static CUresult pin(void **memory, size_t bytes, unsigned int flags) {
	return (*memory = malloc(bytes)) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
static CUresult unpin(void *memory) { return free(memory), CUDA_SUCCESS; }

static CUresult zeros(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
	return memset(to, 0, bytes), CUDA_SUCCESS;
}

uintptr_t cuda_idle_driver(void) {
	static driver d = {
#define FIELD(name, parameters) .name = name,
		DRIVER(FIELD)
#undef FIELD
	};
	d.cuDeviceGetCount = one;
	d.cuMemAlloc_v2 = allocate;
	d.cuMemGetInfo_v2 = room;
	d.cuMemHostAlloc = pin;
	d.cuMemFreeHost = unpin;
	d.cuMemcpyDtoHAsync_v2 = zeros;
	return (uintptr_t)&d;
}
